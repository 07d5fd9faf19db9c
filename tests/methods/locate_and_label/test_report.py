"""The report `stages`, compared with counts of each span."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch

from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Entity
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import make_predictor
from fencepost.runtime.recogniser import Recogniser

NEAR = 0.6
STAGES = ["seeds", "after the filter", "after the regressor", "labelled", "selected"]
PREDICT = {"lengths": "all", "filter": 0.3, "confidence": "class", "threshold": 0.3}


@pytest.fixture(scope="module")
def sentences():
    """Sentences with an unknown type and a span with two types."""
    first, second, *others = islice(read("sample:train"), 40)
    strange = first.with_entities([*first.entities, Entity(0, 1, "never seen")])
    entity = second.entities[0]
    other = "place" if entity.type != "place" else "time"
    return [
        strange,
        second.with_entities([*second.entities, Entity(entity.start, entity.end, other)]),
        *others,
    ]


@pytest.fixture(scope="module")
def predictor():
    sentences = list(islice(read("sample:train"), 40))
    method = {"lengths": [1, 2, 3, 5], "near": NEAR, "size": 32, "dropout": 0, "negatives": 5}
    method |= {"name": "locate-and-label", "regressor_weight": 0.3}
    scratch = {"characters": "none", "word_dropout": 0}
    encoder = {"name": "scratch", "lstm": {"size": 32, "dropout": 0}, "scratch": scratch}
    torch.manual_seed(0)
    model = Model.build(Config.parse({"method": method, "encoder": encoder, "predict": PREDICT}), sentences)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(100):
        optimizer.zero_grad()
        model(model.collate(sentences[step % 5 :: 5]))["loss"].backward()
        optimizer.step()
    return make_predictor(model.eval())


def tables(predictor, sentences):
    recogniser = Recogniser(predictor)
    reports = recogniser.make_reports(["stages"])
    predictor.predict_entities(sentences, recogniser.watch_reports(reports))
    return reports["stages"].tables()


@pytest.fixture(scope="module")
def report(predictor, sentences):
    return tables(predictor, sentences)


@pytest.fixture(scope="module")
def gold(predictor, sentences):
    """Spans of the entities with known types, by sentence."""
    return [
        {(entity.start, entity.end) for entity in sentence.entities if entity.type in predictor.types}
        for sentence in sentences
    ]


def is_labelled(scores, predict):
    """Return whether the most probable type, times the probability of the filter, reaches the threshold."""
    powers = np.exp(scores.labels)
    confidence = powers[:, 1:].max(axis=1) / powers.sum(axis=1)
    if predict.confidence == "both":
        confidence /= 1 + np.exp(-scores.near)
    return confidence >= predict.lowest_threshold()


@pytest.fixture(scope="module")
def proposals(predictor, sentences):
    """Seeds, moved spans, and whether each has a type, by sentence, predicted one by one."""
    proposals = []

    def watch(_, __, scores):
        columns = (scores.seeds.start, scores.seeds.end, scores.moved.start, scores.moved.end)
        types = is_labelled(scores, predictor.predict_settings)
        proposals.append(list(zip(*(c.tolist() for c in columns), types.tolist(), strict=True)))

    for sentence in sentences:
        predictor.predict_entities([sentence], watch)
    return proposals


def iou(one, other):
    ours, theirs = set(range(*one)), set(range(*other))
    return len(ours & theirs) / len(ours | theirs)


def recounted(spans, gold):
    """Return the row of a stage, counted from the spans of each sentence."""
    entities = [(candidates, entity) for candidates, of in zip(spans, gold, strict=True) for entity in of]
    return {
        "spans": sum(map(len, spans)),
        "per entity": sum(map(len, spans)) / len(entities),
        "recall": sum(entity in candidates for candidates, entity in entities) / len(entities),
        "recall, near": sum(
            any(iou(entity, span) > NEAR for span in candidates) for candidates, entity in entities
        )
        / len(entities),
    }


def test_report_has_tables_of_stages_and_offsets(report):
    assert list(report) == ["spans", "offsets in words"]
    assert list(report["spans"]) == STAGES
    counts = [row["spans"] for row in report["spans"].values()]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 3 * counts[1]
    assert counts[-1] > 40
    assert report["spans"]["selected"]["recall"] > 0.5


def test_seeds_are_all_spans_of_the_lengths(report, sentences, gold):
    spans = [
        {(start, start + long) for long in range(1, 6) for start in range(len(sentence) - long + 1)}
        for sentence in sentences
    ]
    assert report["spans"]["seeds"] == pytest.approx(recounted(spans, gold))


def test_selected_spans_are_the_predicted_ones(report, predictor, sentences, gold):
    predicted = Recogniser(predictor).predict(sentences)
    spans = [{(entity.start, entity.end) for entity in sentence.entities} for sentence in predicted]
    assert report["spans"]["selected"] == pytest.approx(recounted(spans, gold))


def test_middle_stages_equal_counts_of_spans(report, gold, proposals):
    spans = {
        "after the filter": [{row[:2] for row in rows} for rows in proposals],
        "after the regressor": [{row[2:4] for row in rows} for rows in proposals],
        "labelled": [{row[2:4] for row in rows if row[4]} for rows in proposals],
    }
    for name, of_stage in spans.items():
        # in a batch, sums have another order, which may add or remove a span
        expected = recounted(of_stage, gold)
        assert report["spans"][name]["spans"] == pytest.approx(expected["spans"], abs=2)
        assert report["spans"][name] == pytest.approx(expected, rel=0.03)


def name_of(move):
    return {0: "0", -4: "-4 or less", 4: "+4 or more"}.get(move, f"{move:+d}")


def test_offsets_equal_counts_of_proposals(report, proposals):
    rows = report["offsets in words"]
    assert list(rows) == [name_of(move) for move in range(-4, 5)]
    every = [row for rows in proposals for row in rows]
    for side, at in (("start", 0), ("end", 1)):
        for column, some in ((side, every), (f"{side}, labelled", [row for row in every if row[4]])):
            moves = Counter(max(-4, min(4, row[2 + at] - row[at])) for row in some)
            for move in range(-4, 5):
                assert rows[name_of(move)][column] == pytest.approx(moves[move], abs=2), (column, move)


def test_columns_of_offsets_add_up_to_the_proposals(report):
    rows = report["offsets in words"].values()
    sums = {column: sum(row[column] for row in rows) for column in next(iter(rows))}
    filtered = report["spans"]["after the filter"]["spans"]  # seeds are distinct
    assert sums["start"] == sums["end"] == filtered
    assert sums["start, labelled"] == sums["end, labelled"] <= filtered
    assert sums["start, labelled"] >= report["spans"]["labelled"]["spans"]  # spans that may be equal


def test_stages_follow_the_settings_of_prediction(predictor, sentences, report):
    def stages(**settings):
        return tables(predictor.with_options(settings), sentences)["spans"]

    assert stages(lengths="trained")["seeds"]["spans"] < report["spans"]["seeds"]["spans"]
    every = stages(filter=0)
    assert every["after the filter"] == every["seeds"] == report["spans"]["seeds"]
    none = stages(filter=1)
    assert none["seeds"] == every["seeds"]
    for name in STAGES[1:]:
        assert set(none[name].values()) == {0}
    low = stages(threshold=1.0)
    assert low["labelled"]["spans"] < report["spans"]["labelled"]["spans"]
    assert low["selected"]["spans"] < report["spans"]["selected"]["spans"]


def test_stages_without_entities_have_recall_0(predictor, sentences):
    bare = tables(predictor, [sentence.with_entities([]) for sentence in sentences[:5]])["spans"]
    assert bare["seeds"]["recall"] == 0
    assert bare["seeds"]["spans"] > 100
