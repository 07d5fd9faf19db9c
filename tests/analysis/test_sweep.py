from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fencepost.analysis.sweep import analyze_sweep
from fencepost.errors import UsageError
from tests.analysis.files import assert_labelled, legend_of, ticks_of

Cell = dict[str, Any]


def cell(f1: float | None, test: float | None = None, seeds: int = 3, **more: Any) -> Cell:
    """Return a cell like in `sweep.json`."""
    own = {name: more.pop(name, None) for name in ("share", "boundary_noise")}
    return {
        "cell": " ".join(f"{key}={value}" for key, value in {**own, **more}.items()),
        **own,
        "settings": more,
        "seeds": seeds,
        "dev_f1": {"mean": f1, "std": None if seeds < 2 else 0.01},
        "test_f1": {"mean": test, "std": None if seeds < 2 else 0.02},
    }


def draw_lines(cells: list[Cell], over: str | None = None) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line by its label."""
    [axis] = analyze_sweep(cells, {}, over).figure.axes
    return {
        str(container.get_label()): [(float(x), float(y)) for x, y in np.asarray(container[0].get_xydata())]
        for container in axis.containers
    }


EPSILON = [
    cell(0.7, **{"method.epsilon": 0.2, "method.size": 10}),
    cell(0.6, **{"method.epsilon": 0.0, "method.size": 10}),
    cell(0.8, **{"method.epsilon": 0.1, "method.size": 20}),
    cell(0.5, **{"method.epsilon": 0.0, "method.size": 20}),
    cell(None, seeds=0, **{"method.epsilon": 0.1, "method.size": 10}),
]


def test_figure_has_a_sorted_line_per_value_of_other_settings() -> None:
    lines = draw_lines(EPSILON)
    assert lines["method.size=10"] == [(0.0, 60.0), (0.2, 70.0)]
    assert lines["method.size=20"] == [(0.0, 50.0), (0.1, pytest.approx(80.0))]
    over = draw_lines(EPSILON, "method.size")
    assert over["method.epsilon=0.0"] == [(10.0, 60.0), (20.0, 50.0)]


def test_sweep_analysis_has_numbers_and_labels() -> None:
    result = analyze_sweep(EPSILON, {"folder": "f"})
    assert result.name == "sweep-f1"
    assert (result.content["over"], result.content["measure"], result.content["folder"]) == (
        "method.epsilon",
        "dev_f1",
        "f",
    )
    assert result.content["cells"] == EPSILON
    assert result.table.rows[0] == (EPSILON[0]["cell"], 3, 0.7, 0.01)
    assert len(result.table.rows) == 4  # an unfinished cell has no score
    assert_labelled(result.figure)
    [axis] = result.figure.axes
    assert axis.get_ylabel() == "F1 on the development data (%)"
    assert axis.get_title() == "mean ± standard deviation over 3 seeds"
    assert legend_of(axis) == ["method.size=10", "method.size=20"]


def test_default_axes_are_share_and_test_scores() -> None:
    cells = [cell(0.1, 0.2 + share / 2, seeds=1, share=share, a=1) for share in (0.1, 0.5, 1.0)]
    result = analyze_sweep(cells, {})
    assert (result.content["over"], result.content["measure"]) == ("share", "test_f1")
    [axis] = result.figure.axes
    assert axis.get_xlabel() == "share of the training data"
    assert legend_of(axis) == ["mean ± standard deviation"]
    assert ticks_of(axis) == ["0.1", "0.5", "1.0"]
    [points] = draw_lines(cells).values()
    assert points == [(0.1, pytest.approx(25)), (0.5, pytest.approx(45)), (1.0, pytest.approx(70))]


def test_texts_and_close_numbers_are_evenly_spaced() -> None:
    cells = [cell(0.5, **{"method.name": name}) for name in ("_b", "$a$")]
    [axis] = analyze_sweep(cells, {}).figure.axes
    assert ticks_of(axis) == [" _b", r"\$a\$"]
    assert [x for x, _ in next(iter(draw_lines(cells).values()))] == [0, 1]
    rates = [cell(0.5, rate=rate) for rate in (1.0, 1e-4, 1e-5)]
    assert [x for x, _ in next(iter(draw_lines(rates).values()))] == [0, 1, 2]
    assert ticks_of(analyze_sweep(rates, {}).figure.axes[0]) == ["1.0", "0.0001", "1e-05"]


def test_single_cell_and_cell_without_settings_can_be_shown() -> None:
    assert analyze_sweep([cell(0.5)], {}).content["over"] == "cell"
    assert analyze_sweep([cell(0.5, a=1)], {}).content["over"] == "a"


def test_refuses_sweeps_without_results_and_unknown_settings() -> None:
    with pytest.raises(UsageError, match="no finished runs"):
        analyze_sweep([EPSILON[-1]], {})
    with pytest.raises(UsageError, match="no finished runs"):
        analyze_sweep([], {})
    with pytest.raises(UsageError, match=r"--over b: .* choose one of method\.epsilon, method\.size"):
        analyze_sweep(EPSILON, {}, "b")


def test_ablations_have_a_row_per_cell() -> None:
    """Cells with different keys are not a grid: one point each, the first at the top."""
    cells = [
        cell(0.7, **{"method.epsilon": 0.1}),
        cell(0.6, **{"method.epsilon": 0.1, "method.smoothing_size": 2}),
        cell(0.5, **{"encoder.lstm.layers": 0}),
    ]
    result = analyze_sweep(cells, {})
    assert result.content["over"] == "cell"
    [axis] = result.figure.axes
    points = np.asarray(axis.containers[0][0].get_xydata()).tolist()
    assert points == [[70.0, 3.0], [60.0, 2.0], [50.0, 1.0]]
    labels = [label.get_text().replace("\n", " ") for label in axis.get_yticklabels()]
    assert labels == [one["cell"] for one in cells]
    assert axis.get_xlabel() == "F1 on the development data (%)"
    over = draw_lines(cells, "method.epsilon")  # a label has only the settings of its cell
    assert set(over) == {"mean ± standard deviation", "method.smoothing_size=2", "encoder.lstm.layers=0"}
