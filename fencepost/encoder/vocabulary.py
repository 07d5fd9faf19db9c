"""Reading of a saved vocabulary."""

from __future__ import annotations

from pathlib import Path

from fencepost.data.files import read_json_object
from fencepost.encoder.arrays import Vocabulary
from fencepost.errors import DataError, describe_error, quote

VOCABULARY_FILE = "vocabulary.json"
_KINDS = ("words", "characters", "shapes", "pos", "vectors")


def read_vocabulary(folder: Path) -> tuple[Vocabulary, int]:
    """Return the vocabulary of the model in a folder, and the width of its word vectors.

    Raises `DataError` for an invalid file.
    """
    path = folder / VOCABULARY_FILE
    saved = read_json_object(path)
    try:
        known, width = saved["known"], saved["vector_width"]
        if not isinstance(known, dict) or not known.keys() <= set(_KINDS):
            raise ValueError(f"known should be a mapping (keys: {', '.join(_KINDS)}), not {quote(known)}")
        for kind, names in known.items():
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"known.{kind} must be a list of names")
            if len(set(names)) != len(names):  # the number of names is that of an embedding's rows
                raise ValueError(f"known.{kind} has a name more than once")
        if type(width) is not int or width < 0:
            raise ValueError(f"vector_width must be a number of columns, not {quote(width)}")
    except (KeyError, ValueError) as error:
        message = f"the vocabulary of this model cannot be read: {describe_error(error)}"
        raise DataError(message, source=str(path)) from None
    return known, width
