"""Training: `train` makes a model of a corpus."""

from fencepost.training.data import held_out, idle_settings
from fencepost.training.folder import check_folder
from fencepost.training.run import Outcome, train
from fencepost.training.start import Start

__all__ = ["Outcome", "Start", "check_folder", "held_out", "idle_settings", "train"]
