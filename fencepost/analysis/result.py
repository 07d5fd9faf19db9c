"""What an analysis leaves: JSON for programs, CSV for tables, and a figure as PNG and SVG."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import __version__
from fencepost.data.output import whole_file
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RESULT = '{\n  "fencepost": '
"""How the JSON of a result begins, by which one is known as ours."""


@dataclass(frozen=True)
class Table:
    """Named columns, and rows."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]  # of numbers, texts and None

    def csv(self) -> str:
        """As a file; a cell that a spreadsheet would take for a formula is made text by an apostrophe."""
        return "".join(_line(row) for row in (self.columns, *self.rows))


@dataclass(frozen=True)
class Analysis:
    """A result under its name: `told` is the JSON, `table` the CSV, `summary` what a terminal shows."""

    name: str
    told: dict[str, Any]
    table: Table
    figure: Figure
    summary: Table | None = None

    def save(self, folder: Path) -> list[Path]:
        """Writes all four into the folder, under the analysis' name; other people's files are left alone."""
        paths = check_target(folder, self.name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made: {error.strerror}") from None
        told = _finite({"fencepost": __version__, **self.told})
        text = json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False)
        contents = [(text + "\n").encode("utf-8", "backslashreplace")]
        contents.append(self.table.csv().encode("utf-8", "backslashreplace"))
        contents += [_drawn(self.figure, kind) for kind in ("png", "svg")]
        for path, content in zip(paths, contents, strict=True):
            with whole_file(path) as stream:
                stream.write(content)
        return paths


def check_target(folder: Path, name: str) -> list[Path]:
    """The files of a result; refused if one is there that is none of ours, or none can be written."""
    place = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    if not place.is_dir():
        raise UsageError(f"{folder}: cannot be made: {place} is a file, not a folder")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{folder}: cannot be made or written to: {place} is not yours to write to")
    paths = [folder / f"{name}.{kind}" for kind in ("json", "csv", "png", "svg")]
    there = [path for path in paths if path.exists()]
    if there and not _is_result(paths[0]):
        raise UsageError(f"{there[0]}: is there already and no result of fencepost; give another --out")
    return paths


def _is_result(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(len(_RESULT)) == _RESULT
    except (OSError, UnicodeDecodeError):
        return False


def _drawn(figure: Figure, kind: str) -> bytes:
    """The same bytes for the same figure: neither date nor chance is in the file."""
    import matplotlib as mpl

    stream = io.BytesIO()
    with (
        mpl.rc_context({"svg.hashsalt": "fencepost", "svg.fonttype": "none"}),  # text that can be searched
        warnings.catch_warnings(),
    ):
        # letters of other scripts are boxes in a PNG; an SVG has them
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(
            stream,
            format=kind,
            dpi=150,
            bbox_inches="tight",
            metadata={"Date": None} if kind == "svg" else None,
        )
    return stream.getvalue()


def _finite(value: Any) -> Any:
    """The same for JSON, which has neither infinity nor NaN: null stands for them."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(row: Sequence[Any]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerow([_harmless(value) for value in row])  # quotes what its line ends are made of
    return stream.getvalue().removesuffix("\r\n") + "\n"


def _harmless(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def percent(value: float | None) -> str:
    """A ratio as it stands in our tables."""
    return "" if value is None else f"{100 * value:.1f}"


def named(paths: Sequence[Path]) -> list[str]:
    """Short names that tell these folders or files apart: the last part of each, more where it must be."""
    for parts in range(1, 1 + max((len(path.parts) or 1 for path in paths), default=1)):
        names = ["/".join(path.parts[-parts:]) or str(path) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{number}: {path}" for number, path in enumerate(paths, start=1)]
