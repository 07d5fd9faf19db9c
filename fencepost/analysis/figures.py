"""The style of our figures: colours that colour-blind readers can distinguish, markers, and labels.

Colours are those of Okabe and Ito (2008), with a brown of Tol's for their yellow, which is faint on white.
Figures are made without pyplot, which keeps global state.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#661100")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
GREY = "#6b6b6b"


def panels(
    count: int, *, width: float = 4.2, height: float = 3.4, columns: int = 3, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with `count` panels, in rows of `columns`; with `share`, they have one y axis."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.2), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=share).flat)
    for spare in axes[count:]:
        spare.remove()
    for axis in axes[:count]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="#d9d9d9", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes[:count]


def look(number: int) -> dict[str, Any]:
    """Return the colour and marker of a line by its number; line styles differ when colours repeat."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number // len(COLOURS) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.5,
    }


def bars(axis: Axes, values: dict[str, list[float]], names: list[str], form: str = "{:.1f}") -> None:
    """Draw a group of bars for each name, with one bar for each series, each with its value."""
    width = 0.8 / max(1, len(values))
    for number, (series, heights) in enumerate(values.items()):
        places = [place + (number - (len(values) - 1) / 2) * width for place in range(len(names))]
        colour = COLOURS[number % len(COLOURS)]
        drawn = axis.bar(places, heights, width * 0.95, label=plain(series), color=colour)
        if len(values) * len(names) <= 22:  # more would cover each other
            axis.bar_label(drawn, labels=[form.format(height) for height in heights], fontsize=7, padding=1)
    axis.set_xticks(range(len(names)), [plain(name) for name in names])
    axis.grid(visible=False, axis="x")


def legend(axis: Axes) -> None:
    """Add a legend to the right of the panel, where it covers nothing."""
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)


def whole_numbers(axis: Axes) -> None:
    """Allow ticks of the x axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def heading(axis: Axes, name: str, more: str = "", width: int = 40) -> None:
    """Set a panel's title: a model's name, in as many lines as it needs, followed by `more`."""
    axis.set_title(_wrap(_short(name), width) + more, fontsize=9)


def folded(text: str, width: int) -> str:
    """Return a text in lines of at most `width` letters."""
    return _wrap(_printable(text)[:300], width)


def plain(text: str) -> str:
    """Return a text for a label, shortened in the middle: names that begin alike often differ at the end.

    matplotlib takes what is between two dollars for a formula, and leaves names that begin with `_` out of
    legends.
    """
    short = _short(text)
    return " " * short.startswith("_") + short.replace("$", r"\$")


def _wrap(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _short(text: str) -> str:
    text = _printable(text)
    return text if len(text) <= 60 else f"{text[:28]}...{text[-29:]}"
