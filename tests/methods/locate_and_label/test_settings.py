"""Settings of locate-and-label: accepted and refused values, and those without effect."""

from __future__ import annotations

import pytest

from fencepost.config import Config
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError
from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.locate_and_label.settings import LocateAndLabelSettings


def composed(*changes: str) -> Config:
    return Config.compose(changes=["method.name=locate-and-label", *changes])


def test_lengths_are_sorted_and_unique():
    lengths = composed("method.lengths=[3, 1, 3]").method.trained_lengths()
    assert lengths == (1, 3)
    assert BoundarySmoothingSettings().trained_lengths() is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["method.lengths=[]"],
            "method.lengths: should have at least one length, and only lengths from 1 to 1000, not []",
        ),
        (
            ["method.lengths=[2, 0]"],
            "method.lengths: should have at least one length, and only lengths from 1 to 1000, not",
        ),
        (["method.lengths=7"], "method.lengths: should be a list, such as [1, 2, 3], not 7"),
        (["predict.overlap=0"], "predict.overlap: should be greater than 0, not 0"),
        (
            ["predict.select=soft-nms", "predict.soft_nms=false"],
            "predict: select is soft-nms, but soft_nms is false",
        ),
    ],
)
def test_refuses_invalid_settings(changes, message):
    with pytest.raises(UsageError) as refusal:
        composed(*changes)
    assert str(refusal.value).startswith(message)
    assert "{" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        ({}, []),
        ({"gamma": 1.0, "regressor_weight": 1.0}, []),
        ({"filter": False, "regressor": False}, []),
        ({"filter": False, "gamma": 1.0}, ["method.gamma has no effect: method.filter is false"]),
        (
            {"filter": False, "regressor": False, "filter_weight": 2.0, "regressor_weight": 2.0},
            [
                "method.filter_weight has no effect: method.filter is false",
                "method.regressor_weight has no effect: method.regressor is false",
            ],
        ),
    ],
)
def test_reports_settings_of_disabled_parts(changes, messages):
    assert list(LocateAndLabelSettings(**changes).idle(EncoderSettings())) == messages


def test_sentence_vector_needs_one_prompt():
    assert LocateAndLabelSettings().prompts(["A", "B"]) == 0
    assert LocateAndLabelSettings(sentence_vector=True).prompts(["A", "B"]) == 1
