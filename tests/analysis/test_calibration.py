from __future__ import annotations

import numpy as np
import pytest

from fencepost.analysis.calibration import analyze_calibration
from fencepost.errors import UsageError
from fencepost.evaluation import reliability
from tests.analysis.files import assert_labelled, bars_of, legend_of

SURE = reliability([0.95, 0.92, 0.35, 0.31], [True, False, False, True])
SILENT = reliability([], [])


def test_calibration_analysis_equals_the_values_by_hand() -> None:
    result = analyze_calibration({"a_$x$": SURE, "silent": SILENT}, {"data": "d"})
    of_model = result.content["models"]["a_$x$"]
    # two bins of two: confidences 0.935 and 0.33, half of each right
    assert of_model["ece"] == pytest.approx((0.435 + 0.17) / 2)
    assert of_model["overconfidence"] == pytest.approx((0.435 - 0.17) / 2)
    assert [one["count"] for one in of_model["bins"]] == [0, 0, 0, 2, 0, 0, 0, 0, 0, 2]
    assert result.content["data"] == "d"
    assert (
        result.content["models"]["silent"]["ece"]
        is result.content["models"]["silent"]["overconfidence"]
        is None
    )
    assert len(result.table.rows) == 20
    assert result.table.rows[3] == ("a_$x$", 0.3, 0.4, 2, pytest.approx(0.33), 0.5)
    assert result.table.rows[0][3:] == (0, None, None)
    assert result.summary is not None
    assert result.summary.rows[0] == ("a_$x$", 4, of_model["ece"], of_model["overconfidence"])
    assert result.summary.rows[1] == ("silent", 0, None, None)


def test_figure_shows_the_bins() -> None:
    figure = analyze_calibration({"a_$x$": SURE, "silent": SILENT}, {}).figure
    assert_labelled(figure)
    first, second = figure.axes
    assert bars_of(first)["accuracy"] == [0.5, 0.5]
    assert [patch.get_x() + patch.get_width() / 2 for patch in first.patches] == pytest.approx([0.35, 0.95])
    marks = np.asarray(first.collections[0].get_offsets())
    assert marks == pytest.approx(np.array([[0.35, 0.33], [0.95, 0.935]]))
    assert set(legend_of(second)) == {"accuracy", "mean confidence", "perfectly calibrated"}
    assert [text.get_text() for text in first.texts] == ["50", "50"]
    assert first.get_title() == "a_\\$x\\$\nECE 0.303, 4 predictions"
    assert second.get_title() == "silent\nno predictions"
    assert first.get_ylim() == second.get_ylim()


def test_small_shares_are_shown_as_below_1_percent() -> None:
    many = reliability([0.95] * 1000 + [0.15], [True] * 1001)
    texts = [text.get_text() for text in analyze_calibration({"a": many}, {}).figure.axes[0].texts]
    assert texts == ["<1", "100"]


def test_refuses_models_without_predictions() -> None:
    with pytest.raises(UsageError, match="no model predicts any entities"):
        analyze_calibration({"a": SILENT, "b": SILENT}, {})
