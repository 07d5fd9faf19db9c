"""Read whole files with a limit on their size: settings, and the JSON files of a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fencepost.errors import DataError, describe_error

SETTINGS_BYTES = 1 << 20
"""Maximum size of a file of settings."""

JSON_BYTES = 1 << 28
"""Maximum size of a JSON file of a model; a vocabulary may have a million words."""


def read_text(path: Path, *, limit: int) -> str:
    """Return the text of a UTF-8 file.

    Raises `DataError` for a file that cannot be read, is not UTF-8, or has more than `limit` bytes. It does
    not read further than that, so an endless device such as `/dev/zero` also raises it.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(limit + 1)
        if len(content) > limit:
            raise DataError(
                f"this file has more than {limit:,} bytes, the maximum for its kind", source=str(path)
            )
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"this file is {describe_error(error)}", source=str(path)) from None
    except OSError as error:
        reason = error.strerror or describe_error(error)
        raise DataError(f"cannot be read: {reason}", source=str(path)) from None


def read_json(path: Path, *, limit: int = JSON_BYTES) -> Any:
    """Return the value in a JSON file; raises `DataError` for one that cannot be read or is not valid."""
    text = read_text(path, limit=limit)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"this file is {describe_error(error)}", source=str(path)) from None


def read_json_object(path: Path, *, limit: int = JSON_BYTES) -> dict[str, Any]:
    """Return the object in a JSON file; raises `DataError` like `read_json`, and for any other value."""
    value = read_json(path, limit=limit)
    if not isinstance(value, dict):
        raise DataError("this file does not contain a JSON object", source=str(path))
    return value
