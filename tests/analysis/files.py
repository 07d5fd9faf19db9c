"""Helpers for the tests of analyses, which read back files and figures."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from PIL import Image

KINDS = ("json", "csv", "png", "svg")


@dataclass(frozen=True)
class Written:
    """The four files of an analysis, each of which is complete."""

    content: dict[str, Any]
    rows: list[dict[str, str]]
    texts: list[str]  # in the SVG

    @classmethod
    def read(cls, folder: Path, name: str, *, figure: bool = True) -> Written:
        assert {path.name for path in folder.glob(f"{name}.*")} == {f"{name}.{kind}" for kind in KINDS}
        if figure:
            assert_drawn(folder / f"{name}.png")
        content = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"), parse_constant=refuse)
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, strict=True))
        assert all(None not in row and None not in row.values() for row in rows)  # of the same length
        return cls(content, rows, texts_of(folder / f"{name}.svg") if figure else [])


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def assert_drawn(path: Path) -> None:
    """Assert that the picture opens, is large enough, and has colours."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    height, width, _ = pixels.shape
    assert width > 400
    assert height > 300
    assert max(height, width) < 20_000
    ink = (pixels < 250).any(axis=2)
    coloured = np.ptp(pixels, axis=2) > 60
    assert 0.005 < ink.mean() < 0.9
    assert coloured.mean() > 0.0001


def texts_of(path: Path) -> list[str]:
    root = ET.parse(path).getroot()  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return ["".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text")]


def legend_of(axis: Axes) -> list[str]:
    legend = axis.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def ticks_of(axis: Axes) -> list[str]:
    return [label.get_text() for label in axis.get_xticklabels()]


def assert_integer_ticks(axis: Axis) -> None:
    """Assert that all visible ticks are at integers, and that there is at least one."""
    low, high = axis.get_view_interval()
    ticks = [tick for tick in axis.get_majorticklocs() if low <= tick <= high]
    assert ticks
    assert all(tick == int(tick) for tick in ticks)


def assert_labelled(figure: Figure) -> None:
    """Assert that the axes of each panel are labelled; a shared y axis is labelled once."""
    for number, axis in enumerate(figure.axes):
        assert axis.get_xlabel() or all(ticks_of(axis))
        shared = number and axis.get_shared_y_axes().joined(axis, figure.axes[0])
        assert axis.get_ylabel() or shared


def bars_of(axis: Axes) -> dict[str, list[float]]:
    """Return heights by the label of the series."""
    return {
        str(container.get_label()): [patch.get_height() for patch in container.patches]
        for container in axis.containers
        if hasattr(container, "patches")
    }


def lines_of(axis: Axes) -> dict[str, tuple[list[float], list[float]]]:
    return {
        str(line.get_label()): (np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist())
        for line in axis.lines
        if not str(line.get_label()).startswith("_")
    }
