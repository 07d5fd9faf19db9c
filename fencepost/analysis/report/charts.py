"""Charts as numbers: where lines, bars and labels go; the template draws them, in the page's colours.

A chart is 420 units wide, which a phone shows at nearly their size, so that its letters stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fencepost.analysis.epochs import Epoch
from fencepost.evaluation import Interval, ReliabilityBin, Score

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 14, 46
_DOTS = 100
"""A line with more points is drawn without them."""

_STEEP = 10
"""Losses of which one is so many times another are drawn on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Scale:
    """From values between `low` and `high` to places between `start` and `end`."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The place of a value, to a tenth of a unit."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)


@dataclass(frozen=True, slots=True)
class Mark:
    """A tick on an axis, or a line across the chart, with what is written there."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class Dot:
    """A point, with what is told about it, and its interval if there is one."""

    x: float
    y: float
    tip: str
    low: float | None = None  # the ends of an interval
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Points of one series; `series` is its number, which decides how it is drawn."""

    name: str
    series: int
    dots: Sequence[Dot]
    joined: bool = True
    dotted: bool = True

    @property
    def points(self) -> str:
        return " ".join(f"{dot.x},{dot.y}" for dot in self.dots)


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle, with what is told about it."""

    x: float
    y: float
    width: float
    height: float
    series: int
    tip: str


@dataclass
class Chart:
    """One chart. `title` names it, and `told` says in words what it shows."""

    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT
    left: ClassVar[int] = LEFT
    right: ClassVar[int] = WIDTH - RIGHT
    top: ClassVar[int] = TOP
    bottom: ClassVar[int] = HEIGHT - BOTTOM

    title: str
    told: str
    x_label: str
    y_label: str
    x_ticks: list[Mark] = field(default_factory=list)
    y_ticks: list[Mark] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    rules: list[Mark] = field(default_factory=list)  # upright lines
    diagonal: bool = False
    legend: list[tuple[int, str]] = field(default_factory=list)  # series and name, if there are several


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values, 1, 2 or 5 times a power of ten apart, from at most `low` to at least `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def logarithmic_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or powers of ten alone where these are many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    below = [value for value in values if value <= low][-1:]
    above = [value for value in values if value >= high][:1]
    return [*below, *(value for value in values if low < value < high), *above]


def learning_curves(epochs: Sequence[Epoch], kept: float | None) -> list[Chart]:
    """F1 on the development data, and the losses, by epoch; only what was measured."""
    f1 = [(epoch.number, 100 * epoch.dev_f1) for epoch in epochs if epoch.dev_f1 is not None]
    dev_loss = [(epoch.number, epoch.dev_loss) for epoch in epochs if epoch.dev_loss is not None]
    loss = [(epoch.number, epoch.loss) for epoch in epochs if epoch.loss is not None]
    charts = []
    if f1:
        best = max(value for _, value in f1)
        told = f"Strict F1 on the development data after each of {len(f1)} epochs; the best is {best:.1f}."
        series = {"F1 on the development data": f1}
        charts.append(_curve("F1 by epoch", told, "F1, percent", series, kept, ".1f"))
    losses = {"training data": loss, "development data": dev_loss}
    if loss or dev_loss:
        told = f"The mean loss in each of {max(len(loss), len(dev_loss))} epochs."
        charts.append(_curve("Loss by epoch", told, "loss", losses, kept, ".3f"))
    return charts


def _curve(
    title: str,
    told: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    kept: float | None,
    digits: str,
) -> Chart:
    numbers = [number for points in series.values() for number, _ in points]
    values = [value for points in series.values() for _, value in points]
    first, last = min(numbers), max(numbers)
    x = Scale(first - 0.5, last + 0.5, LEFT, WIDTH - RIGHT)
    steep = 0 < _STEEP * min(values) < max(values) and len(series) > 1
    y_values = (logarithmic_ticks if steep else ticks)(min(values), max(values))
    y = Scale(y_values[0], y_values[-1], HEIGHT - BOTTOM, TOP, steep)
    chart = Chart(title, told, "epoch", f"{y_label}, logarithmic" if steep else y_label)
    chart.x_ticks = [
        Mark(x(value), f"{value:g}")
        for value in ticks(first, last, 8)
        if first <= value <= last and value == int(value)
    ]
    chart.y_ticks = [Mark(y(value), f"{value:g}") for value in y_values]
    chart.lines = [
        Line(
            name,
            number,
            [Dot(x(at), y(value), f"epoch {at:g}: {value:{digits}}") for at, value in points],
            dotted=len(points) <= _DOTS,
        )
        for number, (name, points) in enumerate(series.items(), start=1)
        if points
    ]
    if kept is not None and first <= kept <= last:
        chart.rules = [Mark(x(kept), "kept")]
    if len(series) > 1:
        chart.legend = [(line.series, line.name) for line in chart.lines]
    return chart


def reliability_diagram(bins: Sequence[ReliabilityBin]) -> Chart:
    """The accuracy of predictions by their confidence; perfect ones lie on the diagonal."""
    chart = Chart(
        "Reliability",
        "The share of predictions that are right, by their confidence; on the diagonal the two are equal.",
        "confidence",
        "right, percent",
        diagonal=True,
    )
    x, y = Scale(0, 1, LEFT, WIDTH - RIGHT), Scale(0, 1, HEIGHT - BOTTOM, TOP)
    chart.x_ticks = [Mark(x(value / 5), f"{value / 5:g}") for value in range(6)]
    chart.y_ticks = [Mark(y(value / 5), f"{value * 20}") for value in range(6)]
    dots = []
    for one in bins:
        if one.accuracy is None or one.confidence is None:
            continue
        tip = (
            f"confidence {one.lower:.1f} to {one.upper:.1f}: {one.count:,} predictions, "
            f"{100 * one.accuracy:.1f} percent right, mean confidence {one.confidence:.2f}"
        )
        chart.bars.append(_upright(x(one.lower), x(one.upper), y(0), y(one.accuracy), 1, tip))
        dots.append(Dot(x(one.confidence), y(one.accuracy), tip))
    chart.lines = [Line("at the mean confidence of the bin", 2, dots, joined=False)] if dots else []
    chart.legend = [(1, "right"), (2, "the same, at the mean confidence of the bin")]
    return chart


def confidence_histogram(bins: Sequence[ReliabilityBin]) -> Chart:
    """How many predictions there are in each bin of the reliability diagram."""
    chart = Chart(
        "Predictions by confidence",
        "The number of predictions in each bin of the reliability diagram.",
        "confidence",
        "predictions",
    )
    x, y = _counted(chart, 1.0, [one.count for one in bins])
    chart.x_ticks = [Mark(x(value / 5), f"{value / 5:g}") for value in range(6)]
    for one in bins:
        tip = f"confidence {one.lower:.1f} to {one.upper:.1f}: {one.count:,} predictions"
        chart.bars.append(_upright(x(one.lower), x(one.upper), y(0), y(one.count), 1, tip))
    return chart


def f1_by_length(groups: Mapping[str, Score], bounds: Mapping[str, Interval]) -> Chart:
    """F1 by number of words, with the intervals where there are some."""
    chart = Chart("F1 by length", "Strict F1 by the number of words.", "words of the entity", "F1, percent")
    shown = [(name, score) for name, score in groups.items() if score.support or score.predicted]
    x, y = Scale(0, max(1, len(shown)), LEFT, WIDTH - RIGHT), Scale(0, 1, HEIGHT - BOTTOM, TOP)
    chart.y_ticks = [Mark(y(value / 5), f"{value * 20}") for value in range(6)]
    chart.x_ticks = [Mark(x(i + 0.5), _short(name)) for i, (name, _) in enumerate(shown)]
    dots = []
    for i, (name, score) in enumerate(shown):
        found = bounds.get(name)
        tip = f"{name} words: F1 {100 * score.f1:.1f}"
        ends = (None, None) if found is None else (y(found.low), y(found.high))
        if found is not None:
            tip += f" ({100 * found.low:.1f} to {100 * found.high:.1f})"
        dots.append(Dot(x(i + 0.5), y(score.f1), tip, *ends))
    chart.lines = [Line("F1", 1, dots, joined=False)]
    return chart


def _short(name: str) -> str:
    return name.replace(" or more", "+")


def shift_histogram(shifts: Mapping[str, Mapping[int, int]], most: int = 5) -> Chart:
    """By how many words starts and ends are off; those farther than `most` are counted there."""
    chart = Chart(
        "Boundary shifts",
        "How many starts and ends lie how many words too far left (below 0) or right.",
        "words too far left (−) or right (+)",
        "mistakes",
    )
    places = [shift for shift in range(-most, most + 1) if shift]
    sides = {
        side: {
            place: sum(n for shift, n in counts.items() if max(-most, min(most, shift)) == place)
            for place in places
        }
        for side, counts in shifts.items()
    }
    x, y = _counted(chart, len(places), [n for counts in sides.values() for n in counts.values()])
    for index, place in enumerate(places):
        far = "≥" if place == most else "≤" if place == -most else ""
        label = f"{far}{place:+d}".replace("-", "−")
        chart.x_ticks.append(Mark(x(index + 0.5), label))
        for number, (side, counts) in enumerate(sides.items()):
            left = index + 0.1 + 0.4 * number
            tip = f"{side} {label}: {counts[place]:,}"
            bar = _upright(x(left), x(left + 0.4), y(0), y(counts[place]), number + 1, tip, 0)
            chart.bars.append(bar)
    chart.legend = [(number, side) for number, side in enumerate(sides, start=1)]
    return chart


def length_histogram(corpora: Mapping[str, Mapping[int, int]], most: int = 10) -> Chart:
    """The share of entities by their number of words, of one or two corpora."""
    chart = Chart(
        "Entities by length",
        "The share of entities that have so many words.",
        "words of the entity",
        "entities, percent",
    )
    shares = [
        [
            100
            * sum(n for length, n in counts.items() if min(length, most) == place)
            / max(1, sum(counts.values()))
            for place in range(1, most + 1)
        ]
        for counts in corpora.values()
    ]
    x, y = _counted(chart, most, [share for one in shares for share in one])
    wide = 0.8 / max(1, len(shares))
    for place in range(1, most + 1):
        chart.x_ticks.append(Mark(x(place - 0.5), f"{place}+" if place == most else str(place)))
        for number, (name, share) in enumerate(zip(corpora, shares, strict=True)):
            left = place - 0.9 + wide * number
            tip = f"{name}, {chart.x_ticks[-1].label} words: {share[place - 1]:.1f} percent"
            bar = _upright(x(left), x(left + wide), y(0), y(share[place - 1]), number + 1, tip, 0)
            chart.bars.append(bar)
    if len(corpora) > 1:
        chart.legend = list(enumerate(corpora, start=1))
    return chart


def _counted(chart: Chart, width: float, counts: Iterable[float]) -> tuple[Scale, Scale]:
    """The scales of a chart of counts, whose upright axis is marked."""
    values = ticks(0, max(counts, default=0))
    x, y = Scale(0, width, LEFT, WIDTH - RIGHT), Scale(0, values[-1], HEIGHT - BOTTOM, TOP)
    chart.y_ticks = [Mark(y(value), _counted_label(value)) for value in values if value == int(value)]
    return x, y


def _counted_label(value: float) -> str:
    """Short enough for the space beside the axis."""
    return f"{value / 1000:,g}k" if value >= 10_000 else f"{value:,.0f}"


def _upright(
    left: float, right: float, foot: float, top: float, series: int, tip: str, gap: float = 1
) -> Bar:
    return Bar(left + gap, top, round(right - left - 2 * gap, 1), round(foot - top, 1), series, tip)
