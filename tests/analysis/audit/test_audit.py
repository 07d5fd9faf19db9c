"""Folds, suggestions, their ranking and their application, from hand-made predictions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.audit import put_errors
from fencepost.analysis.audit.fixing import apply_suggestions, read_accepted
from fencepost.analysis.audit.folds import split_folds
from fencepost.analysis.audit.predictions import AuditPredictions
from fencepost.analysis.audit.ranking import rank
from fencepost.analysis.audit.suggestions import Suggestion, apply_for_review, to_dicts
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, UsageError

SAMPLE = list(read("sample:train"))[:300]


def perfect(sentences):
    """Return predictions with every entity of these sentences, with confidence 0.95."""
    return [s.with_entities(replace(e, score=0.95) for e in s.entities) for s in sentences]


def judge(sentences, predicted, training=None):
    """Return predictions of models for unseen sentences, and for sentences in their training data."""
    unseen, training = (
        [{entity.key: entity.score for entity in s.entities} for s in side]
        for side in (predicted, training or predicted)
    )
    return AuditPredictions.of(sentences, unseen, training, Config.parse({}))


def keys(one):
    return tuple(None if entity is None else entity.key for entity in (one.gold, one.suggested))


def with_first(sentences, change):
    """Return the sentences with changed entities in the first one."""
    first, *others = sentences
    return [first.with_entities(change(list(first.entities))), *others]


class TestFolds:
    @given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=8, max_size=30), st.integers(0, 5))
    def test_folds_have_whole_documents_and_similar_sizes(self, docs, seed):
        sentences = [Sentence(["x"], doc=doc) for doc in docs]
        names = [n if doc is None else doc for n, doc in enumerate(docs)]
        if len(set(names)) < 3:
            with pytest.raises(UsageError, match="use fewer folds"):
                split_folds(sentences, 3, seed)
            return
        folds = split_folds(sentences, 3, seed)
        assert all(len({f for f, n in zip(folds, names, strict=True) if n == name}) == 1 for name in names)
        sizes = Counter(folds)
        assert set(sizes) == {0, 1, 2}
        assert max(sizes.values()) - min(sizes.values()) <= max(Counter(names).values())

    def test_folds_depend_on_the_seed(self):
        assert split_folds(SAMPLE, 3, 1) == split_folds(SAMPLE, 3, 1) != split_folds(SAMPLE, 3, 2)


class TestRanking:
    def test_no_disagreement_gives_no_suggestion(self):
        assert rank(judge(SAMPLE, perfect(SAMPLE))) == []

    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            ("type", lambda entities: [replace(entities[0], type="work"), *entities[1:]]),
            ("missing", lambda entities: entities[1:]),
            ("boundary", lambda entities: [replace(entities[0], end=entities[0].end + 1), *entities[1:]]),
        ],
    )
    def test_single_error_is_suggested_with_its_correction(self, kind, change):
        sentences = [Sentence(["Ada", "met", "Eve"], [Entity(0, 1, "person"), Entity(2, 3, "person")])]
        sentences += SAMPLE
        noisy = with_first(sentences, change)
        [one] = rank(judge(noisy, perfect(sentences)))
        assert (one.kind, one.sentence, one.suggested) == (kind, 0, Entity(0, 1, "person", 0.95))
        assert 0 < one.suspicion < 1
        assert one.confidence == (None if kind == "missing" else 0.0)

    def test_corrected_annotations_rank_above_missed_ones(self):
        """The models of this test miss every fifth entity, so a missed entity is weak evidence."""
        noisy, errors = put_errors(SAMPLE, 7)
        wrong = {(error.sentence, error.now) for error in errors}
        lost = {(error.sentence, error.before) for error in errors}
        numbers = iter(range(10**6))
        predicted = [s.with_entities(e for e in s.entities if next(numbers) % 5) for s in perfect(SAMPLE)]
        ranked = rank(judge(noisy, predicted))
        right = [
            any((one.sentence, key) in places for key, places in zip(keys(one), (wrong, lost), strict=True))
            for one in ranked
        ]
        assert sum(right) > 50
        assert sum(right[:50]) / 50 > 0.9
        assert sum(right) / len(right) < 0.5  # the share in a random order
        assert [one.suspicion for one in ranked] == sorted((one.suspicion for one in ranked), reverse=True)

    def test_annotations_and_predictions_are_in_one_suggestion_each(self):
        noisy, _ = put_errors(SAMPLE, 3)
        ranked = rank(judge(noisy, perfect(SAMPLE)))
        for side in (0, 1):
            places = [(one.sentence, keys(one)[side]) for one in ranked if keys(one)[side] is not None]
            assert len(places) == len(set(places))

    def test_annotation_of_the_same_words_elsewhere_affects_the_rank(self):
        """Two sentences with the same disagreement: the words of one have the suggested type elsewhere.

        The models of this test take every tenth entity for a work of art.
        """
        texts = [["Oslo", "won"], ["Riga", "won"]]
        gold = [Sentence(words, [Entity(0, 1, "person")]) for words in texts]
        predicted = [Sentence(words, [Entity(0, 1, "place", 0.7)]) for words in texts]
        others = [Sentence(["to", "Oslo", str(n)], [Entity(1, 2, "place")]) for n in range(8)]
        numbers = iter(range(10**6))
        predictions = [
            s.with_entities(e if next(numbers) % 10 else replace(e, type="work") for e in s.entities)
            for s in perfect(SAMPLE)
        ]
        sentences, predictions = [*gold, *others, *SAMPLE], [*predicted, *perfect(others), *predictions]
        ranked = rank(judge(sentences, predictions))
        assert [one.sentence for one in ranked if one.sentence < 2] == [0, 1]

    def test_sentences_without_entities_give_no_suggestion(self):
        bare = [Sentence(["a", "b"]), Sentence([])]
        assert rank(judge(bare, bare)) == []

    def test_annotations_learnt_in_training_rank_lower(self):
        """Two similar disagreements: the models trained on the first have learnt its annotation."""
        texts = [["Oslo", "won"], ["Riga", "won"]]
        gold = [Sentence(words, [Entity(0, 1, "person")]) for words in texts]
        predicted = [Sentence(words, [Entity(0, 1, "place", 0.9)]) for words in texts]
        training = [
            gold[0].with_entities([Entity(0, 1, "person", 0.3), Entity(0, 1, "place", 0.5)]),
            predicted[1],
        ]
        sentences = [*gold, *SAMPLE]
        predictions = judge(sentences, [*predicted, *perfect(SAMPLE)], [*training, *perfect(SAMPLE)])
        assert [one.sentence for one in rank(predictions)] == [1, 0]


WORDS = ["Ada", "of", "Rome", "met", "Eve", "."]
GOLD = Sentence(WORDS, [Entity(0, 1, "person", meta={"named": True}), Entity(2, 3, "person")], id="s1")
CHANGE = Suggestion("boundary", 0, GOLD.entities[0], Entity(0, 3, "person", 0.9), 0.8, 0.1)
REMOVE = Suggestion("spurious", 0, GOLD.entities[1], None, 0.3, 0.2)
ADD = Suggestion("missing", 1, None, Entity(4, 5, "person", 0.7), 0.5)
CORPUS = [GOLD, replace(GOLD, id="s2")]


def save(path, suggestions, **changes):
    lines = [{**one, "accept": True, **changes} for one in to_dicts(suggestions, CORPUS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class TestFixing:
    def test_accepted_suggestions_are_applied(self, tmp_path):
        accepted = read_accepted(save(tmp_path / "a.jsonl", [CHANGE, ADD, REMOVE]))
        first, second = apply_suggestions(CORPUS, accepted, "a.jsonl")
        assert [entity.key for entity in first.entities] == [(0, 3, "person")]
        assert first.entities[0].meta == {"named": True}
        assert [entity.key for entity in second.entities] == [
            (0, 1, "person"), (2, 3, "person"), (4, 5, "person")
        ]  # fmt: skip

    def test_reads_only_accepted_suggestions(self, tmp_path):
        path = save(tmp_path / "a.jsonl", [CHANGE])
        with path.open("a", encoding="utf-8") as stream:
            for accept in (None, False):
                stream.write(json.dumps({**ADD.to_dict(2, CORPUS[1]), "accept": accept}) + "\n")
        assert list(read_accepted(path)) == [0]

    @pytest.mark.parametrize("accept", [None, False])
    def test_refuses_a_file_without_accepted_suggestions(self, tmp_path, accept):
        with pytest.raises(DataError, match="no suggestion is accepted"):
            read_accepted(save(tmp_path / "a.jsonl", [CHANGE], accept=accept))

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"accept": "yes"}, "'accept' must be true, false or null"),
            ({"sentence": 0}, "'sentence' must be an integer of at least 1"),
            ({"gold": None, "suggested": None}, "both null"),
            ({"gold": {"start": 0, "end": 1}}, "'type' is missing"),
            ({"gold": {"start": 0, "end": 9, "type": "T"}}, "within the 6 words"),
            ({"gold": {"start": 2, "end": 1, "type": "T"}}, "start < end"),
            ({"suggested": 5}, "not a suggestion"),
        ],
    )
    def test_refuses_lines_that_are_not_suggestions(self, tmp_path, changes, reason):
        path = save(tmp_path / "a.jsonl", [CHANGE], **changes)
        with pytest.raises(DataError, match=reason) as caught:
            read_accepted(path)
        assert f"{path}:1" in str(caught.value)

    @pytest.mark.parametrize(
        ("corpus", "reason"),
        [
            (
                [replace(GOLD, words=["Eva", *WORDS[1:]])],
                "sentence 1 of the data has other words than in the audit",
            ),
            (
                [GOLD.with_entities(GOLD.entities[1:])],
                "sentence 1 of the data has no entity 'person' \\[0, 1\\)",
            ),
            ([], "sentence 1 does not exist; the data has 0 sentences"),
        ],
    )
    def test_refuses_other_data(self, tmp_path, corpus, reason):
        accepted = read_accepted(save(tmp_path / "a.jsonl", [CHANGE]))
        with pytest.raises(DataError, match=reason):
            list(apply_suggestions(corpus, accepted, "a.jsonl"))

    def test_suggestions_undo_artificial_errors(self, tmp_path):
        noisy, _ = put_errors(SAMPLE, 5)
        ranked = rank(judge(noisy, perfect(SAMPLE)))
        lines = ({**one, "accept": True} for one in to_dicts(ranked, noisy))
        path = tmp_path / "accepted.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        fixed = list(apply_suggestions(noisy, read_accepted(path), str(path)))
        assert [[e.key for e in s.entities] for s in fixed] == [
            sorted({e.key for e in s.entities}) for s in SAMPLE
        ]


class TestReview:
    def predictions(self):
        return judge(
            CORPUS, [GOLD.with_entities([Entity(0, 3, "person", 0.9), Entity(2, 3, "person", 0.2)])] * 2
        )

    def test_review_sentences_have_suggestions_and_scores_below_1(self):
        [one] = apply_for_review([CHANGE, REMOVE], self.predictions())
        assert [(entity.key, entity.score) for entity in one.entities] == [
            ((0, 3, "person"), 0.9), ((2, 3, "person"), 0.2)
        ]  # fmt: skip
        assert [note["rank"] for note in one.meta["audit"]] == [1, 2]
        assert one.meta["audit"][1] == {
            "rank": 2, "kind": "spurious", "suspicion": 0.3, "gold": [2, 3, "person"], "suggested": None
        }  # fmt: skip

    def test_label_studio_tasks_have_predictions(self, tmp_path):
        write(apply_for_review([ADD, REMOVE], self.predictions()), tmp_path / "r.json", "label-studio")
        tasks = json.loads((tmp_path / "r.json").read_text())
        assert [task["data"]["id"] for task in tasks] == ["s2", "s1"]
        assert all(set(task) == {"data", "predictions"} for task in tasks)
        assert tasks[0]["data"]["meta"]["audit"][0]["kind"] == "missing"
