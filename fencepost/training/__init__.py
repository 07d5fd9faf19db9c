"""Training of models: `train` trains a model on sentences and saves it.

`adapt` adapts an encoder to raw text, `combine` makes one model of several, and `distil` trains a model on
what another one says about raw text.
"""

from fencepost.training.adaptation import Adaptation, AdaptSettings, adapt
from fencepost.training.combining import Combined, combine
from fencepost.training.data import find_idle_settings, hold_out
from fencepost.training.distillation import distil
from fencepost.training.folder import check_folder
from fencepost.training.run import Outcome, train
from fencepost.training.start import Start

__all__ = [
    "AdaptSettings",
    "Adaptation",
    "Combined",
    "Outcome",
    "Start",
    "adapt",
    "check_folder",
    "combine",
    "distil",
    "find_idle_settings",
    "hold_out",
    "train",
]
