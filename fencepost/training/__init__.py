"""Training: `train` makes a model of a corpus."""

from fencepost.training.data import held_out, idle_settings
from fencepost.training.folder import check_folder
from fencepost.training.run import Outcome, train

__all__ = ["Outcome", "check_folder", "held_out", "idle_settings", "train"]
