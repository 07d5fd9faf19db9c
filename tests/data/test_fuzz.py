"""A short fuzz of every reader with a fixed seed, and tests of the checks of the fuzzer."""

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fuzz.campaign import FUZZED, distribute, examine, fuzz
from benchmarks.fuzz.checks import check_outcome, check_round_trip
from benchmarks.fuzz.mutations import Case, make_case
from benchmarks.fuzz.reading import Outcome, read_case
from benchmarks.fuzz.seeds import seeds
from fencepost.data import FORMATS, ReadOptions
from fencepost.data.entity import Entity, Sentence
from fencepost.data.source import ReadSentence

MUTATIONS = 600
"""Enough to reach every format; `make fuzz` has many more."""


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    result = fuzz(mutations=MUTATIONS, seed=1, jobs=2, failures=tmp_path)
    assert result["failures"] == {}
    assert result["mutations"] == MUTATIONS
    # If everything was refused, the fuzz would prove nothing.
    assert all(one["share_with_sentences"] > 0.1 for one in result["formats"].values())


def outcomes(name: str) -> list[Outcome]:
    cases = [Case(name, number, parts, ReadOptions()) for number, parts in enumerate(seeds(name))]
    return [outcome for case in cases for outcome in read_case(case)]


@pytest.mark.parametrize("name", FUZZED)
def test_seed_files_pass_all_checks(name: str, tmp_path: Path) -> None:
    for number, outcome in enumerate(outcomes(name)):
        assert outcome.sentences
        assert list(check_outcome(outcome)) == []
        if name != "brat":
            folder = tmp_path / str(number)
            folder.mkdir()
            assert list(check_round_trip(outcome, folder)) == []


def other_word(sentence: Sentence) -> Sentence:
    return replace(sentence, words=["Zz", *sentence.words[1:]])


def one_entity_less(sentence: Sentence) -> Sentence:
    return sentence.with_entities(sentence.entities[1:])


def other_type(sentence: Sentence) -> Sentence:
    return sentence.with_entities([replace(sentence.entities[0], type="Zz"), *sentence.entities[1:]])


def longer_entity(sentence: Sentence) -> Sentence:
    first, *others = sentence.entities
    end = first.end + 1 if first.end < len(sentence) else first.end - 1
    start = first.start if first.start < end else first.start - 1
    return sentence.with_entities([Entity(start, end, first.type, first.score, first.meta), *others])


CHANGES = (other_word, one_entity_less, other_type, longer_entity)
# A DocBin keeps its words as hashes, so that the naive reading of one sees no more than its strings.
UNSEEN = {("spacy", one_entity_less), ("spacy", longer_entity)}


@pytest.mark.parametrize(
    ("name", "change"), [pair for pair in itertools.product(FUZZED, CHANGES) if pair not in UNSEEN]
)
def test_checks_detect_wrong_data(name, change) -> None:
    noticed = 0
    for outcome in outcomes(name):
        # BRAT with a rejected sentence cannot tell whether an entity was in it.
        whole = len(outcome.sentences) == len(outcome.readings)
        for index, reading in enumerate(outcome.readings):
            if (
                not isinstance(reading, ReadSentence)
                or not reading.sentence.entities
                or len(reading.sentence) < 2
            ):
                continue
            if name == "brat" and not whole:
                continue
            readings = list(outcome.readings)
            readings[index] = replace(reading, sentence=change(reading.sentence))
            assert list(check_outcome(replace(outcome, readings=readings)))
            noticed += 1
    assert noticed


def test_case_depends_only_on_its_number() -> None:
    assert make_case("conll", 7, seed=3) == make_case("conll", 7, seed=3)
    assert make_case("conll", 7, seed=3) != make_case("conll", 8, seed=3)


def test_every_format_gets_mutations() -> None:
    split = distribute(1_000_000, list(FUZZED))
    assert sum(split.values()) == 1_000_000
    assert min(split.values()) >= 20_000
    assert set(split) == set(FUZZED)


def test_exception_is_a_failure(monkeypatch, tmp_path: Path) -> None:
    def broken(*_):
        raise KeyError("broken")

    monkeypatch.setitem(FORMATS, "conll", replace(FORMATS["conll"], read=broken))
    failure = examine(make_case("conll", 0, seed=0), Counter(), tmp_path)
    assert failure is not None
    assert (failure.kind, failure.format) == ("exception", "conll")
    assert "KeyError" in failure.signature
