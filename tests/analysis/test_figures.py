from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.text import Text

from fencepost.analysis.figures import (
    COLOURS,
    LINES,
    MARKERS,
    add_legend,
    draw_bars,
    get_style,
    make_panels,
    set_heading,
    to_label,
    use_count_axis,
    use_int_ticks,
)
from tests.analysis.files import assert_integer_ticks, bars_of, legend_of, ticks_of

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopes": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "tritanopes": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.3039],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    x, y, z = TO_XYZ @ rgb / TO_XYZ.sum(axis=1)
    x, y, z = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("who", SEEN_BY)
def test_colours_differ_with_any_colour_vision(who: str) -> None:
    colours = [lab(np.clip(np.array(SEEN_BY[who]) @ linear(colour), 0, 1)) for colour in COLOURS]
    for one, other in combinations(range(len(COLOURS)), 2):
        assert np.linalg.norm(colours[one] - colours[other]) > 15, (COLOURS[one], COLOURS[other])


def test_colours_have_enough_contrast_on_white() -> None:
    for colour in COLOURS:
        luminance = TO_XYZ[1] @ linear(colour)
        assert 1.05 / (luminance + 0.05) > 2


def test_styles_differ_in_more_than_colour() -> None:
    some = [get_style(number) for number in range(len(COLOURS) * len(LINES))]
    assert len({(one["color"], one["linestyle"]) for one in some}) == len(some)
    assert len({one["marker"] for one in some[: len(COLOURS)]}) == len(COLOURS) == len(MARKERS)
    get_style(1000)


@pytest.mark.parametrize(
    ("count", "columns", "shape"), [(1, 3, (1, 1)), (3, 3, (1, 3)), (4, 3, (2, 3)), (2, 1, (2, 1))]
)
def test_panels_are_in_rows(count: int, columns: int, shape: tuple[int, int]) -> None:
    figure, axes = make_panels(count, columns=columns)
    assert len(axes) == len(figure.axes) == count
    grid = axes[0].get_gridspec()
    assert grid is not None
    assert (grid.nrows, grid.ncols) == shape


def test_bars_are_side_by_side_with_their_values() -> None:
    _, [axis] = make_panels(1)
    draw_bars(axis, {"a_$b$": [1.0, 2.0], "_c": [3.0, 4.0]}, ["x$1$", "y"], "{:.2f}")
    add_legend(axis)
    assert bars_of(axis) == {r"a_\$b\$": [1.0, 2.0], " _c": [3.0, 4.0]}
    assert legend_of(axis) == [r"a_\$b\$", " _c"]
    assert ticks_of(axis) == [r"x\$1\$", "y"]
    assert [text.get_text() for text in axis.texts] == ["1.00", "2.00", "3.00", "4.00"]
    places = sorted((patch.get_x(), patch.get_x() + patch.get_width()) for patch in axis.patches)
    assert all(end <= start for (_, end), (start, _) in pairwise(places))
    _, [crowded] = make_panels(1)
    draw_bars(crowded, {"a": [1.0] * 30}, [str(number) for number in range(30)])
    assert not crowded.texts


@pytest.mark.parametrize("heights", [[0.0], [0.0, 1.0], [1.0, 2.0], [3.0, 4.0], [7.0], [1234.0, 5.0]])
def test_counts_have_integer_ticks(heights: list[float]) -> None:
    _, [axis] = make_panels(1)
    draw_bars(axis, {"a": heights}, [str(number) for number in range(len(heights))])
    use_count_axis(axis, "number of errors")
    assert axis.get_ylabel() == "number of errors"
    assert axis.get_ylim()[0] == 0
    assert axis.get_ylim()[1] >= max(heights)
    assert_integer_ticks(axis.yaxis)


@pytest.mark.parametrize("heights", [[1.0, 60.0], [0.0, 3.0, 2000.0], [12.0, 12_345.0]])
def test_logarithmic_counts_have_integer_ticks(heights: list[float]) -> None:
    figure, [axis] = make_panels(1)
    draw_bars(axis, {"a": heights}, [str(number) for number in range(len(heights))])
    use_count_axis(axis, "spans", logarithmic=True)
    assert_integer_ticks(axis.yaxis)
    figure.draw_without_rendering()
    assert not any(label.get_text() for label in axis.get_yticklabels(minor=True))


def test_single_epoch_has_integer_ticks() -> None:
    _, [axis] = make_panels(1)
    axis.plot([1], [0.5])
    use_int_ticks(axis.xaxis)
    assert_integer_ticks(axis.xaxis)


@settings(max_examples=60)
@given(st.text(max_size=200) | st.text("$\\_{}^", max_size=80))
def test_labels_are_never_formulas(text: str) -> None:
    label = to_label(text)
    back, is_formula = Text()._preprocess_math(label)  # type: ignore[attr-defined]
    assert is_formula is False
    assert len(back) <= 61
    assert back.isprintable()
    assert not label.startswith("_")
    if text.isprintable() and len(text) <= 60:
        assert back == " " * text.startswith("_") + text


def test_long_names_keep_both_ends() -> None:
    one, other = to_label("run-" + "x" * 200 + "-seed-1"), to_label("run-" + "x" * 200 + "-seed-2")
    assert one.startswith("run-xx")
    assert one.endswith("-seed-1")
    assert one != other
    assert len(one) == 60
    assert to_label("a\nb\x1b[31m\ud800") == "a?b?[31m?"


def test_long_headings_are_wrapped() -> None:
    _, [axis] = make_panels(1)
    set_heading(axis, "$" * 59, ": more")
    back, is_formula = axis.title._preprocess_math(axis.get_title())
    assert is_formula is False
    assert back == "$" * 40 + "\n" + "$" * 19 + ": more"
    set_heading(axis, "", "\nmore")
    assert axis.get_title() == "\nmore"
