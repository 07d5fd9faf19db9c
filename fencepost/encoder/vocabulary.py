"""The vocabulary of a model, as it is saved."""

from __future__ import annotations

from pathlib import Path

from fencepost.data.files import read_json_object
from fencepost.encoder.arrays import Vocabulary
from fencepost.errors import DataError, describe_error, quote

VOCABULARY_FILE = "vocabulary.json"
_KINDS = ("words", "characters", "shapes", "pos", "vectors")


def read_vocabulary(folder: Path) -> tuple[Vocabulary, int]:
    """Return the names that the model in this folder knows, by kind, and the width of its word vectors.

    Raises `DataError` for a file that is not a vocabulary of ours.
    """
    path = folder / VOCABULARY_FILE
    saved = read_json_object(path)
    try:
        known, width = saved["known"], saved["vector_width"]
        if not isinstance(known, dict) or not known.keys() <= set(_KINDS):
            raise ValueError(f"known may have {', '.join(_KINDS)}, not {quote(known)}")
        for kind, names in known.items():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"known.{kind} must be a list of names")
            if len(set(names)) != len(names):  # a table of weights has one row for each
                raise ValueError(f"known.{kind} has a name more than once")
        if type(width) is not int or width < 0:
            raise ValueError(f"vector_width must be a number of columns, not {quote(width)}")
    except (KeyError, ValueError) as error:
        message = f"the vocabulary of this model cannot be read: {describe_error(error)}"
        raise DataError(message, source=str(path)) from None
    return known, width
