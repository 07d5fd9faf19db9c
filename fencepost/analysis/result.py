"""The files of an analysis: JSON for programs, CSV for tables, and a figure as PNG and SVG."""

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
"""The beginning of the JSON of every result, by which it is recognised."""


@dataclass(frozen=True)
class Table:
    """Named columns, and rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]  # of numbers, texts and None

    def csv(self) -> str:
        """Return the table as CSV; a cell that a spreadsheet would take for a formula gets an apostrophe."""
        lines = []
        for row in (self.columns, *self.rows):
            stream = io.StringIO()
            csv.writer(stream).writerow(map(_harmless, row))  # quotes cells with \r or \n, its line end
            lines.append(stream.getvalue().removesuffix("\r\n") + "\n")
        return "".join(lines)


@dataclass(frozen=True)
class Analysis:
    """A named result: `content` is the JSON, `table` the CSV, `summary` the table in the terminal."""

    name: str
    content: dict[str, Any]
    table: Table
    figure: Figure
    summary: Table | None = None

    def save(self, folder: Path) -> list[Path]:
        """Write the JSON, CSV, PNG and SVG files into the folder; replace no files but our own."""
        paths = check_target(folder, self.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made: {error.strerror}") from None
        content = _finite({"fencepost": __version__, **self.content})
        texts = [json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", self.table.csv()]
        contents = [text.encode("utf-8", "backslashreplace") for text in texts]
        contents += [_draw(self.figure, kind) for kind in ("png", "svg")]
        for path, data in zip(paths, contents, strict=True):
            with whole_file(path) as stream:
                stream.write(data)
        return paths


def check_target(folder: Path, name: str) -> list[Path]:
    """Return the files of a result; raises `UsageError` if one would replace a file that is not ours."""
    place = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not place.is_dir():
        raise UsageError(f"{folder}: cannot be made: {place} is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{folder}: cannot be made or written to: {place} is not yours to write to")
    paths = [folder / f"{name}.{kind}" for kind in ("json", "csv", "png", "svg")]
    existing = [path for path in paths if path.exists()]
    if existing and not _is_result(paths[0]):
        raise UsageError(f"{existing[0]}: is there already and no result of fencepost; give another --out")
    return paths


def _is_result(path: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError), path.open(encoding="utf-8") as stream:
        return stream.read(len(_RESULT)) == _RESULT
    return False


def _draw(figure: Figure, kind: str) -> bytes:
    """Return the file of a figure: always the same bytes for the same figure, without a date."""
    import matplotlib as mpl

    stream = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with (
        mpl.rc_context({"svg.hashsalt": "fencepost", "svg.fonttype": "none"}),  # text that can be searched
        warnings.catch_warnings(),
    ):
        # letters of other scripts are boxes in a PNG; an SVG has them
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(stream, format=kind, dpi=150, bbox_inches="tight", metadata=metadata)
    return stream.getvalue()


def _finite(value: Any) -> Any:
    """Replace infinity and NaN, which JSON does not have, by None."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _harmless(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("=", "+", "-", "@", "\t", "\r"):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def percent(value: float | None) -> str:
    """Return a ratio in percent, for tables."""
    return "" if value is None else f"{100 * value:.1f}"


def count_at(places: Sequence[int], counts: Mapping[int, int]) -> list[int]:
    """Return the count at each of the ascending places; numbers beyond the ends count at the nearest."""
    found: Counter[int] = Counter()
    for number, count in counts.items():
        found[max(places[0], min(places[-1], number))] += count
    return [found[place] for place in places]


def named(paths: Sequence[Path]) -> list[str]:
    """Return short, distinct names of these folders or files: the last part of each, or more if needed."""
    for parts in range(1, 1 + max((len(path.parts) or 1 for path in paths), default=1)):
        names = ["/".join(path.parts[-parts:]) or str(path) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{number}: {path}" for number, path in enumerate(paths, start=1)]
