"""Results of analyses, and their files: JSON, CSV, and a figure as PNG and SVG."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import __version__
from fencepost.data.output import whole_file
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESULT = '{\n  "fencepost": '
"""The first characters of the JSON file of every result, by which it is recognised."""


@dataclass(frozen=True)
class Table:
    """Rows with named columns."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]  # rows of numbers, texts and None

    def to_csv(self) -> str:
        """Return the table as CSV; a cell that a spreadsheet would take for a formula starts with `'`."""
        lines = []
        for row in (self.columns, *self.rows):
            stream = io.StringIO()
            csv.writer(stream).writerow(map(_escape_formula, row))  # quotes cells that contain \r or \n
            lines.append(stream.getvalue().removesuffix("\r\n") + "\n")
        return "".join(lines)


@dataclass(frozen=True)
class Analysis:
    """Named result: `content` for the JSON, `table` for the CSV, `summary` for the terminal."""

    name: str
    content: dict[str, Any]
    table: Table
    figure: Figure
    summary: Table | None = None

    def save(self, folder: Path) -> list[Path]:
        """Write the JSON, CSV, PNG and SVG files into the folder; overwrite only results of fencepost."""
        paths = check_target(folder, self.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be created: {error.strerror}") from None
        content = _replace_non_finite({"fencepost": __version__, **self.content})
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        contents = [text.encode("utf-8", "backslashreplace") for text in (text, self.table.to_csv())]
        contents += [_draw(self.figure, kind) for kind in ("png", "svg")]
        for path, data in zip(paths, contents, strict=True):
            with whole_file(path) as stream:
                stream.write(data)
        return paths


def check_target(folder: Path, name: str) -> list[Path]:
    """Return the paths of the files of a result; raise `UsageError` if they cannot be written."""
    existing = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not existing.is_dir():
        raise UsageError(f"{folder}: cannot be created: {existing} is a file, not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise UsageError(f"{folder}: cannot be written: no permission to write to {existing}")
    paths = [folder / f"{name}.{kind}" for kind in ("json", "csv", "png", "svg")]
    path = next((path for path in paths if path.exists()), None)
    if path is not None and not is_result(paths[0]):
        raise UsageError(f"{path}: already exists and is not a result of fencepost; use another --out")
    return paths


def is_result(path: Path) -> bool:
    """Return whether a file is the JSON of a result, of an analysis or of any command."""
    with suppress(OSError, UnicodeDecodeError), path.open(encoding="utf-8") as stream:
        return stream.read(len(_RESULT)) == _RESULT
    return False


def _draw(figure: Figure, kind: str) -> bytes:
    """Return the file of a figure, without a date: the same figure always gives the same bytes."""
    import matplotlib as mpl

    stream = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with (
        mpl.rc_context({"svg.hashsalt": "fencepost", "svg.fonttype": "none"}),  # searchable text
        warnings.catch_warnings(),
    ):
        # the font lacks the letters of some scripts, which become boxes in the PNG but not in the SVG
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(stream, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
    return stream.getvalue()


def _replace_non_finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON does not support, by None."""
    if isinstance(value, Mapping):
        return {key: _replace_non_finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _escape_formula(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def to_percent(value: float | None) -> str:
    """Return a ratio in percent with one decimal, or an empty string for None."""
    return "" if value is None else f"{100 * value:.1f}"


def clip_counts(values: Sequence[int], counts: Mapping[int, int]) -> list[int]:
    """Return the count of each of the ascending `values`; counts beyond the first or last are added there."""
    clipped: Counter[int] = Counter()
    for number, count in counts.items():
        clipped[max(values[0], min(values[-1], number))] += count
    return [clipped[value] for value in values]


def name_paths(paths: Sequence[Path]) -> list[str]:
    """Return short, distinct names of files or folders: the last part of each path, or more if needed."""
    for parts in range(1, 1 + max((len(path.parts) or 1 for path in paths), default=1)):
        names = ["/".join(path.parts[-parts:]) or str(path) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{number}: {path}" for number, path in enumerate(paths, start=1)]
