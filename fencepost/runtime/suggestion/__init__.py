"""Sentences to annotate next: scored by a model, chosen from a stream of texts."""

from fencepost.runtime.suggestion.chooser import Chooser, choose

__all__ = ["Chooser", "choose"]
