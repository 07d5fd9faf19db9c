"""Training of models: `train` trains a model on sentences and saves it."""

from fencepost.training.data import find_idle_settings, hold_out
from fencepost.training.folder import check_folder
from fencepost.training.run import Outcome, train
from fencepost.training.start import Start

__all__ = ["Outcome", "Start", "check_folder", "find_idle_settings", "hold_out", "train"]
