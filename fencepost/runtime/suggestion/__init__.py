"""Choice of the sentences to annotate next from a stream of texts, by the scores of a model."""

from fencepost.runtime.suggestion.chooser import Chooser, choose

__all__ = ["Chooser", "choose"]
