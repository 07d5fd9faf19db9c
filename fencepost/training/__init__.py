"""Training: `train` makes a model of a corpus."""

from fencepost.training.run import Outcome, check_folder, held_out, idle_settings, train

__all__ = ["Outcome", "check_folder", "held_out", "idle_settings", "train"]
