"""Style of the figures: colours that colour-blind readers can distinguish, markers, labels and legends.

The colours are those of Okabe and Ito (2008), except that a brown of Tol replaces their yellow, which is
faint on white. Figures are made without pyplot, which keeps global state.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#661100")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
GREY = "#6b6b6b"


def make_panels(
    count: int, *, width: float = 4.2, height: float = 3.4, columns: int = 3, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its `count` panels, in rows of `columns`; with `share`, they share the y axis."""
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.2), layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False, sharey=share).flat)
    for unused in axes[count:]:
        unused.remove()
    for axis in axes[:count]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(visible=True, color="#d9d9d9", linewidth=0.6)
        axis.set_axisbelow(True)
    return figure, axes[:count]


def get_style(number: int) -> dict[str, Any]:
    """Return the colour, marker and line style of a series; line styles differ where colours repeat."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number // len(COLOURS) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.5,
    }


def draw_bars(axis: Axes, values: dict[str, list[float]], names: list[str], form: str = "{:.1f}") -> None:
    """Draw a group of bars for each name, with one bar for each series, labelled with its value."""
    width = 0.8 / max(1, len(values))
    for number, (series, heights) in enumerate(values.items()):
        places = [place + (number - (len(values) - 1) / 2) * width for place in range(len(names))]
        colour = COLOURS[number % len(COLOURS)]
        bars = axis.bar(places, heights, width * 0.95, label=to_label(series), color=colour)
        if len(values) * len(names) <= 22:  # more labels would overlap
            axis.bar_label(bars, labels=[form.format(height) for height in heights], fontsize=7, padding=1)
    axis.set_xticks(range(len(names)), [to_label(name) for name in names])
    axis.grid(visible=False, axis="x")


def add_legend(axis: Axes, *more: Artist) -> None:
    """Add a legend to the right of the panel: its labelled marks, followed by `more`."""
    handles = [*axis.get_legend_handles_labels()[0], *more]
    axis.legend(handles=handles, loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False, fontsize=8)


def use_int_ticks(axis: Axis) -> None:
    """Place the ticks of an axis at integers only, even if there is just one in its range."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def use_count_axis(panel: Axes, label: str, *, logarithmic: bool = False) -> None:
    """Make the y axis one of counts, with ticks at integers only, or at powers of ten if logarithmic."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    panel.set(ylabel=label, yscale="log" if logarithmic else "linear")
    if logarithmic:
        panel.set_ylim(bottom=0.5)
        panel.yaxis.set_minor_formatter(NullFormatter())
    else:
        panel.set_ylim(0, max(1, panel.get_ylim()[1]))
        use_int_ticks(panel.yaxis)
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def set_heading(axis: Axes, name: str, more: str = "", width: int = 40) -> None:
    """Set the title of a panel: the name of a model, wrapped into lines, followed by `more`."""
    axis.set_title(_wrap(_shorten(name), width) + more, fontsize=9)


def wrap_label(text: str, width: int) -> str:
    """Return a label in lines of at most `width` characters."""
    return _wrap(_replace_unprintable(text)[:300], width)


def to_label(text: str) -> str:
    """Return a text as a label that matplotlib shows as it is.

    Long texts are shortened in the middle, since names with the same beginning often differ at the end. `$`
    is escaped, which would start a formula. A space precedes `_`, which would hide a label from legends.
    """
    label = _shorten(text)
    return " " * label.startswith("_") + label.replace("$", r"\$")


def _wrap(text: str, width: int) -> str:
    return "\n".join(textwrap.wrap(text, width)).replace("$", r"\$")


def _replace_unprintable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _shorten(text: str) -> str:
    text = _replace_unprintable(text)
    return text if len(text) <= 60 else f"{text[:28]}...{text[-29:]}"
