"""Charts as data, in the units of their axes; the template draws and labels them, in the page's colours.

A chart is 420 units wide, which a phone shows at nearly their size, so that its letters stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fencepost.analysis.report.scores import ScoreRow
from fencepost.analysis.result import count_at
from fencepost.evaluation import ReliabilityBin

Points = Sequence[tuple[float, float]]

_STEEP = 10
"""If the highest loss is more than this factor above the lowest, the axis is logarithmic."""


class Mark(NamedTuple):
    """A tick on an axis, or a vertical line, with its label."""

    place: float
    label: str


class Dot(NamedTuple):
    """A point with its tooltip, and the ends of its interval if it has one."""

    x: float
    y: float
    tip: str
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """The points of one series; `series` is its number, which decides its style."""

    name: str
    series: int
    dots: Sequence[Dot]


class Bar(NamedTuple):
    """A bar from 0 upwards, with its tooltip."""

    left: float
    right: float
    height: float
    series: int
    tip: str


class Axis(NamedTuple):
    """An axis from `low` to `high`."""

    low: float
    high: float
    ticks: Sequence[Mark]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return the place of a value along the axis, between 0 and 1."""
        values = value, self.low, self.high
        value, low, high = map(math.log, values) if self.logarithmic else values
        return (value - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Chart:
    """The data of a chart. Dots are joined by lines if `joined`."""

    width: ClassVar[int] = 420
    height: ClassVar[int] = 260
    left: ClassVar[int] = 62
    right: ClassVar[int] = 410
    top: ClassVar[int] = 14
    bottom: ClassVar[int] = 214

    x_axis: Axis
    y_axis: Axis
    lines: Sequence[Line] = ()
    bars: Sequence[Bar] = ()
    rules: Sequence[Mark] = ()
    joined: bool = False
    diagonal: bool = False
    legend: Sequence[tuple[int, str]] = ()  # series and name, if there are several

    def x(self, value: float) -> float:
        """Return the coordinate of a value, to a tenth of a unit."""
        return round(self.left + self.x_axis.share(value) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        return round(self.bottom + self.y_axis.share(value) * (self.top - self.bottom), 1)


_CONFIDENCE = Axis(0, 1, [Mark(value / 5, f"{value / 5:g}") for value in range(6)])
_PERCENT = Axis(0, 1, [Mark(value / 5, f"{20 * value}") for value in range(6)])


def _category_axis(names: Sequence[str]) -> Axis:
    return Axis(0, len(names), [Mark(place + 0.5, name) for place, name in enumerate(names)])


def _count_axis(bars: Sequence[Bar]) -> Axis:
    values = ticks(0, max((bar.height for bar in bars), default=0))
    labels = {value: f"{value / 1000:,g}k" if value >= 10_000 else f"{value:,.0f}" for value in values}
    return Axis(0, values[-1], [Mark(value, labels[value]) for value in values if value == int(value)])


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round values, 1, 2 or 5 times a power of ten apart, from at most `low` to at least `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def logarithmic_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, or powers of ten alone over more than three of them."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    lowest = max(value for value in values if value <= low)
    highest = min((value for value in values if value >= high), default=values[-1])
    return [value for value in values if lowest <= value <= highest]


def learning_curve(series: Mapping[str, Points], kept: float | None, digits: str) -> Chart | None:
    """Draw values by epoch, and the epoch that was kept; None without values."""
    if not any(series.values()):
        return None
    numbers, values = zip(*(point for points in series.values() for point in points), strict=True)
    first, last, low, high = min(numbers), max(numbers), min(values), max(values)
    whole = [value for value in ticks(first, last, 8) if first <= value <= last and value == int(value)]
    steep = 0 < _STEEP * low < high and len(series) > 1
    heights = (logarithmic_ticks if steep else ticks)(low, high)
    x_ticks, y_ticks = ([Mark(value, f"{value:g}") for value in values] for values in (whole, heights))
    lines = [
        Line(name, number, [Dot(at, value, f"epoch {at:g}: {value:{digits}}") for at, value in points])
        for number, (name, points) in enumerate(series.items(), start=1)
        if points
    ]
    return Chart(
        Axis(first - 0.5, last + 0.5, x_ticks),
        Axis(heights[0], heights[-1], y_ticks, steep),
        lines,
        rules=[Mark(kept, "kept")] if kept is not None and first <= kept <= last else [],
        joined=True,
        legend=[(line.series, line.name) for line in lines] if len(series) > 1 else [],
    )


def reliability_diagram(bins: Sequence[ReliabilityBin]) -> Chart:
    """Draw the accuracy of predictions by confidence; calibrated ones are on the diagonal."""
    bars, dots = [], []
    for one in bins:
        if one.accuracy is not None and one.confidence is not None:
            tip = f"{100 * one.accuracy:.1f} percent right, mean confidence {one.confidence:.2f}"
            bars.append(_bin_bar(one, one.accuracy, f", {tip}"))
            dots.append(Dot(one.confidence, one.accuracy, bars[-1].tip))
    means = "the same, at the mean confidence of the bin"
    legend = [(1, "right"), (2, means)]
    return Chart(_CONFIDENCE, _PERCENT, [Line(means, 2, dots)], bars, diagonal=True, legend=legend)


def confidence_histogram(bins: Sequence[ReliabilityBin]) -> Chart:
    """Draw the number of predictions in each bin of the reliability diagram."""
    bars = [_bin_bar(one, one.count) for one in bins]
    return Chart(_CONFIDENCE, _count_axis(bars), bars=bars)


def _bin_bar(one: ReliabilityBin, height: float, more: str = "", gap: float = 0.003) -> Bar:
    tip = f"confidence {one.lower:.1f} to {one.upper:.1f}: {one.count:,} predictions{more}"
    return Bar(one.lower + gap, one.upper - gap, height, 1, tip)


def f1_by_length(rows: Sequence[ScoreRow]) -> Chart:
    """Draw F1 by number of words, with its intervals if known."""
    dots = []
    for place, (name, score, bounds) in enumerate(rows):
        dot = Dot(place + 0.5, score.f1, f"{name} words: F1 {100 * score.f1:.1f}")
        if bounds is not None:
            low, high = bounds.f1.low, bounds.f1.high
            dot = Dot(dot.x, dot.y, f"{dot.tip} ({100 * low:.1f} to {100 * high:.1f})", low, high)
        dots.append(dot)
    names = [row.name.replace(" or more", "+") for row in rows]
    return Chart(_category_axis(names), _PERCENT, [Line("F1", 1, dots)])


def shift_histogram(shifts: Mapping[str, Mapping[int, int]], most: int = 5) -> Chart:
    """Draw the number of starts and ends by their shift; those beyond `most` words are counted there."""
    places = [shift for shift in range(-most, most + 1) if shift]
    far = {-most: "≤", most: "≥"}
    return _grouped_bars(
        [f"{far.get(place, '')}{place:+d}".replace("-", "−") for place in places],
        {side: count_at(places, counts) for side, counts in shifts.items()},
        "{} {}: {:,}",
    )


def length_histogram(corpora: Mapping[str, Mapping[int, int]], most: int = 10) -> Chart:
    """Draw the share of entities by their number of words, for each corpus."""
    places = range(1, most + 1)
    totals = {name: max(1, sum(counts.values())) for name, counts in corpora.items()}
    return _grouped_bars(
        [f"{place}+" if place == most else str(place) for place in places],
        {name: [100 * n / totals[name] for n in count_at(places, corpora[name])] for name in corpora},
        "{}, {} words: {:.1f} percent",
    )


def _grouped_bars(labels: Sequence[str], series: Mapping[str, Sequence[float]], tip: str) -> Chart:
    """Draw a group of bars for each label, with one bar for each series."""
    width = 0.8 / max(1, len(series))
    bars = []
    for place, label in enumerate(labels):
        for number, (name, heights) in enumerate(series.items()):
            left, height = place + 0.1 + width * number, heights[place]
            bars.append(Bar(left, left + width, height, number + 1, tip.format(name, label, height)))
    legend = list(enumerate(series, start=1)) if len(series) > 1 else []
    return Chart(_category_axis(labels), _count_axis(bars), bars=bars, legend=legend)
