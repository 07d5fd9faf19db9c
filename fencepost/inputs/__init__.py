"""Sentences to arrays of numbers, as encoders read them; in NumPy, for PyTorch and for exported graphs."""

from fencepost.inputs.arrays import (
    AXES,
    NAMED,
    PAD,
    UNKNOWN,
    Arrays,
    Vocabulary,
    forms,
    grid,
    letters,
    numbered,
    rectangle,
    tags,
    word_numbers,
)
from fencepost.inputs.reader import InputReader
from fencepost.inputs.settings import EncoderSettings, LSTMSettings, ScratchSettings

__all__ = [
    "AXES",
    "NAMED",
    "PAD",
    "UNKNOWN",
    "Arrays",
    "EncoderSettings",
    "InputReader",
    "LSTMSettings",
    "ScratchSettings",
    "Vocabulary",
    "forms",
    "grid",
    "letters",
    "numbered",
    "rectangle",
    "tags",
    "word_numbers",
]
