"""Charts as data in the units of their axes; a template draws them in the colours of the page.

A chart is 420 units wide, about the width of a phone, so that its text stays readable there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fencepost.analysis.report.scores import ScoreRow
from fencepost.analysis.result import clip_counts
from fencepost.evaluation import ReliabilityBin

Points = Sequence[tuple[float, float]]

_STEEP = 10
"""Ratio of the highest to the lowest loss above which the axis is logarithmic."""


class Mark(NamedTuple):
    """Tick on an axis, or vertical line, with its label."""

    place: float
    label: str


class Dot(NamedTuple):
    """Point with its tooltip, and the bounds of its confidence interval if it has one."""

    x: float
    y: float
    tip: str
    low: float | None = None
    high: float | None = None


class Series(NamedTuple):
    """Points of one series; its number determines its style."""

    name: str
    number: int
    dots: Sequence[Dot]


class Bar(NamedTuple):
    """Bar that starts at 0, with its tooltip; the number of its series determines its style."""

    left: float
    right: float
    height: float
    series: int
    tip: str


class Axis(NamedTuple):
    """Axis from `low` to `high`."""

    low: float
    high: float
    ticks: Sequence[Mark]
    logarithmic: bool = False

    def scale(self, value: float) -> float:
        """Return the position of a value along the axis, between 0 and 1."""
        values = value, self.low, self.high
        value, low, high = map(math.log, values) if self.logarithmic else values
        return (value - low) / (high - low)


@dataclass(frozen=True, slots=True)
class Chart:
    """Data of a chart. With `connected`, lines connect the points of a series."""

    width: ClassVar[int] = 420
    height: ClassVar[int] = 260
    left: ClassVar[int] = 62
    right: ClassVar[int] = 410
    top: ClassVar[int] = 14
    bottom: ClassVar[int] = 214

    x_axis: Axis
    y_axis: Axis
    series: Sequence[Series] = ()
    bars: Sequence[Bar] = ()
    rules: Sequence[Mark] = ()
    connected: bool = False
    diagonal: bool = False
    legend: Sequence[tuple[str, str]] = ()  # style (s1, s2, interval, diagonal, rule) and label

    def x(self, value: float) -> float:
        """Return the x coordinate of a value, to a tenth of a unit."""
        return round(self.left + self.x_axis.scale(value) * (self.right - self.left), 1)

    def y(self, value: float) -> float:
        return round(self.bottom + self.y_axis.scale(value) * (self.top - self.bottom), 1)


_CONFIDENCE = Axis(0, 1, [Mark(value / 5, f"{value / 5:g}") for value in range(6)])
_PERCENT = Axis(0, 1, [Mark(value / 5, f"{20 * value}") for value in range(6)])


def _make_category_axis(names: Sequence[str]) -> Axis:
    return Axis(0, len(names), [Mark(place + 0.5, name) for place, name in enumerate(names)])


def _make_count_axis(bars: Sequence[Bar]) -> Axis:
    values = compute_ticks(0, max((bar.height for bar in bars), default=0))
    labels = {value: f"{value / 1000:,g}k" if value >= 10_000 else f"{value:,.0f}" for value in values}
    return Axis(0, values[-1], [Mark(value, labels[value]) for value in values if value == int(value)])


def compute_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round values, 1, 2 or 5 times a power of ten apart, from at most `low` to at least `high`."""
    if high <= low:
        high = low + (abs(low) or 1.0)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def compute_logarithmic_ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten, or only powers of ten if there are more than three."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 3 else (1,)
    values = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
    lowest = max(value for value in values if value <= low)
    highest = min((value for value in values if value >= high), default=values[-1])
    return [value for value in values if lowest <= value <= highest]


def draw_learning_curve(series: Mapping[str, Points], kept_epoch: float | None, digits: str) -> Chart | None:
    """Draw values by epoch, with a line at the epoch whose weights were kept; None without values."""
    if not any(series.values()):
        return None
    numbers, values = zip(*(point for points in series.values() for point in points), strict=True)
    first, last, low, high = min(numbers), max(numbers), min(values), max(values)
    epochs = [tick for tick in compute_ticks(first, last, 8) if first <= tick <= last and tick == int(tick)]
    steep = 0 < _STEEP * low < high and len(series) > 1
    heights = (compute_logarithmic_ticks if steep else compute_ticks)(low, high)
    x_ticks, y_ticks = ([Mark(value, f"{value:g}") for value in values] for values in (epochs, heights))
    lines = [
        Series(name, number, [Dot(at, value, f"epoch {at:g}: {value:{digits}}") for at, value in points])
        for number, (name, points) in enumerate(series.items(), start=1)
        if points
    ]
    rules = [Mark(kept_epoch, "kept")] if kept_epoch is not None and first <= kept_epoch <= last else []
    return Chart(
        Axis(first - 0.5, last + 0.5, x_ticks),
        Axis(heights[0], heights[-1], y_ticks, steep),
        lines,
        rules=rules,
        connected=True,
        legend=[(f"s{line.number}", line.name) for line in lines]
        + [("rule", "epoch whose weights were kept") for _ in rules],
    )


def draw_reliability_diagram(bins: Sequence[ReliabilityBin]) -> Chart:
    """Draw the accuracy of predictions by confidence; calibrated ones are on the diagonal."""
    bars, dots = [], []
    for one in bins:
        if one.accuracy is not None and one.confidence is not None:
            tip = f"{100 * one.accuracy:.1f} percent correct, mean confidence {one.confidence:.2f}"
            bars.append(_make_bin_bar(one, one.accuracy, f", {tip}"))
            dots.append(Dot(one.confidence, one.accuracy, bars[-1].tip))
    means = "the same, at the mean confidence of the bin"
    legend = [("s1", "correct predictions"), ("s2", means), ("diagonal", "perfect calibration")]
    return Chart(_CONFIDENCE, _PERCENT, [Series(means, 2, dots)], bars, diagonal=True, legend=legend)


def draw_confidence_histogram(bins: Sequence[ReliabilityBin]) -> Chart:
    """Draw the number of predictions in each bin of the reliability diagram."""
    bars = [_make_bin_bar(one, one.count) for one in bins]
    return Chart(_CONFIDENCE, _make_count_axis(bars), bars=bars, legend=[("s1", "predictions")])


def _make_bin_bar(one: ReliabilityBin, height: float, more: str = "", gap: float = 0.003) -> Bar:
    tip = f"confidence {one.lower:.1f} to {one.upper:.1f}: {one.count:,} predictions{more}"
    return Bar(one.lower + gap, one.upper - gap, height, 1, tip)


def draw_f1_by_length(rows: Sequence[ScoreRow]) -> Chart:
    """Draw F1 by number of words, with confidence intervals if known; no point without gold entities."""
    dots = []
    for place, (name, score, bounds) in enumerate(rows):
        if not score.support:
            continue
        dot = Dot(place + 0.5, score.f1, f"{name} words: F1 {100 * score.f1:.1f}")
        if bounds is not None:
            low, high = bounds.f1.low, bounds.f1.high
            dot = Dot(dot.x, dot.y, f"{dot.tip} ({100 * low:.1f} to {100 * high:.1f})", low, high)
        dots.append(dot)
    names = [row.name.replace(" or more", "+") for row in rows]
    has_intervals = any(dot.low is not None for dot in dots)
    legend = [("s1", "F1"), *([("interval", "95 % confidence interval")] if has_intervals else [])]
    return Chart(_make_category_axis(names), _PERCENT, [Series("F1", 1, dots)], legend=legend)


def draw_shift_histogram(shifts: Mapping[str, Mapping[int, int]], farthest: int = 5) -> Chart:
    """Draw the number of starts and ends by their shift; larger shifts are counted at `farthest` words."""
    places = [shift for shift in range(-farthest, farthest + 1) if shift]
    signs = {-farthest: "≤", farthest: "≥"}
    return _draw_grouped_bars(
        [f"{signs.get(place, '')}{place:+d}".replace("-", "−") for place in places],
        {side: clip_counts(places, counts) for side, counts in shifts.items()},
        "{} {}: {:,}",
    )


def draw_length_histogram(corpora: Mapping[str, Mapping[int, int]], longest: int = 10) -> Chart:
    """Draw the share of entities by their number of words, for each corpus."""
    places = range(1, longest + 1)
    totals = {name: max(1, sum(counts.values())) for name, counts in corpora.items()}
    return _draw_grouped_bars(
        [f"{place}+" if place == longest else str(place) for place in places],
        {name: [100 * n / totals[name] for n in clip_counts(places, corpora[name])] for name in corpora},
        "{}, {} words: {:.1f} percent",
    )


def _draw_grouped_bars(labels: Sequence[str], series: Mapping[str, Sequence[float]], tip: str) -> Chart:
    """Draw a group of bars for each label, with one bar for each series."""
    width = 0.8 / max(1, len(series))
    bars = []
    for place, label in enumerate(labels):
        for number, (name, heights) in enumerate(series.items()):
            left, height = place + 0.1 + width * number, heights[place]
            bars.append(Bar(left, left + width, height, number + 1, tip.format(name, label, height)))
    legend = [(f"s{number}", name) for number, name in enumerate(series, start=1)]
    return Chart(_make_category_axis(labels), _make_count_axis(bars), bars=bars, legend=legend)
