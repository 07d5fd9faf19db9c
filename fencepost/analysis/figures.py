"""How our figures look: colours that colour-blind readers can tell apart, marks besides colours, and labels.

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
    """A figure with so many panels, in rows of `columns`; with `share`, their y axes are one."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.2), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=share)
    flat = list(axes.flat)
    for spare in flat[count:]:
        spare.remove()
    for axis in flat[:count]:
        tidy(axis)
    return figure, flat[:count]


def tidy(axis: Axes) -> None:
    """No frame above and to the right; faint lines behind what is drawn."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.grid(visible=True, color="#d9d9d9", linewidth=0.6)
    axis.set_axisbelow(True)


def look(number: int) -> dict[str, Any]:
    """Of the line of so many-th model: a colour and a mark; lines differ when colours come again."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number // len(COLOURS) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.5,
    }


def bars(axis: Axes, values: dict[str, list[float]], names: list[str], form: str = "{:.1f}") -> None:
    """Groups of bars beside each other, one group a name, one bar of it a series, each with its value."""
    width = 0.8 / max(1, len(values))
    for number, (series, heights) in enumerate(values.items()):
        places = [place + (number - (len(values) - 1) / 2) * width for place in range(len(names))]
        drawn = axis.bar(
            places, heights, width * 0.95, label=plain(series), color=COLOURS[number % len(COLOURS)]
        )
        if len(values) * len(names) <= 22:  # more would cover each other
            axis.bar_label(drawn, labels=[form.format(height) for height in heights], fontsize=7, padding=1)
    axis.set_xticks(range(len(names)), [plain(name) for name in names])
    axis.grid(visible=False, axis="x")


def legend(axis: Axes) -> None:
    """What is what, to the right of the panel: it covers nothing there."""
    axis.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)


def whole_numbers(axis: Axes) -> None:
    """No ticks between the whole numbers of the x axis."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def heading(axis: Axes, name: str, more: str = "", width: int = 40) -> None:
    """A panel's title: a model's name, in as many lines as it needs, and a line or words more."""
    lines = textwrap.wrap(_short(name), width) or [""]
    axis.set_title("\n".join(line.replace("$", r"\$") for line in lines) + more, fontsize=9)


def folded(text: str, width: int) -> str:
    """The same in lines of so many letters."""
    cleaned = "".join(letter if letter.isprintable() else "?" for letter in text)[:300]
    return "\n".join(textwrap.wrap(cleaned, width)).replace("$", r"\$")


def plain(text: str) -> str:
    """Text as it is, if it is not too long: names that begin alike often differ at the end.

    matplotlib takes what is between two dollars for a formula, and leaves names that begin with `_` out of
    legends.
    """
    short = _short(text)
    return " " * short.startswith("_") + short.replace("$", r"\$")


def _short(text: str) -> str:
    cleaned = "".join(letter if letter.isprintable() else "?" for letter in text)
    return cleaned if len(cleaned) <= 60 else f"{cleaned[:28]}...{cleaned[-29:]}"
