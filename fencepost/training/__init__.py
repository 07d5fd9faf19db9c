"""Training: `train` makes a model of a corpus."""

from fencepost.training.run import Outcome, held_out, train

__all__ = ["Outcome", "held_out", "train"]
