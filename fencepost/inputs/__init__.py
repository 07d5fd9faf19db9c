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
from fencepost.inputs.settings import EncoderSettings, LSTMSettings, ScratchSettings, TextSettings
from fencepost.inputs.vocabulary import VOCABULARY_FILE, read_vocabulary

__all__ = [
    "AXES",
    "NAMED",
    "PAD",
    "UNKNOWN",
    "VOCABULARY_FILE",
    "Arrays",
    "EncoderSettings",
    "InputReader",
    "LSTMSettings",
    "ScratchSettings",
    "TextSettings",
    "Vocabulary",
    "forms",
    "grid",
    "letters",
    "numbered",
    "read_vocabulary",
    "rectangle",
    "tags",
    "word_numbers",
]
