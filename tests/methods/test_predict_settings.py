"""How candidates are selected if the training data decides it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.methods.decoder import PredictSettings
from fencepost.methods.trimming import TRIM_KINDS
from tests.strategies import entities, flat_entities, nested_entities

WORDS = ["w"] * 8


@given(st.lists(entities(8), max_size=3))
def test_auto_is_nested_if_entities_overlap(batch: list[list[Entity]]) -> None:
    overlap = any(
        one.start < other.end and other.start < one.end and one.key != other.key
        for spans in batch
        for one, other in itertools.combinations(spans, 2)
    )
    fitted = PredictSettings().fit_to([Sentence(WORDS, spans) for spans in batch])
    assert fitted.select == ("nested" if overlap else "flat")


@given(flat_entities(8))
def test_auto_is_flat_for_flat_data(spans: list[Entity]) -> None:
    assert PredictSettings().fit_to([Sentence(WORDS, spans)]).select == "flat"


@given(nested_entities(8), st.sampled_from(["flat", "nested", "keep-all"]))
def test_explicit_mode_is_kept(spans: list[Entity], mode: str) -> None:
    settings = PredictSettings(select=mode, batch_size=3)
    assert settings.fit_to([Sentence(WORDS, spans)]).select == mode


@pytest.mark.parametrize(
    ("spans", "mode"),
    [
        ([], "flat"),
        ([Entity(0, 2, "A"), Entity(2, 4, "A")], "flat"),  # touching
        ([Entity(0, 5, "A"), Entity(1, 2, "A")], "nested"),
        ([Entity(0, 5, "A"), Entity(4, 6, "A")], "nested"),  # crossing
        ([Entity(0, 2, "A"), Entity(0, 2, "B")], "nested"),  # flat would lose one of them
        ([Entity(0, 2, "A"), Entity(0, 2, "A", 0.5)], "flat"),  # the same one twice
        ([Entity(0, 8, "A"), Entity(1, 2, "A"), Entity(4, 5, "A")], "nested"),
    ],
)
def test_auto_of_examples_equals_the_mode_by_hand(spans: list[Entity], mode: str) -> None:
    settings = PredictSettings(batch_size=7)
    fitted = settings.fit_to([Sentence(["w"]), Sentence(WORDS, spans)])
    assert fitted == PredictSettings(select=mode, trim=TRIM_KINDS, batch_size=7)
