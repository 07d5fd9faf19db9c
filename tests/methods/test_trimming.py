"""Trimming of possessive endings, quotes and brackets, unless training entities have them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data.entity import Entity, Sentence
from fencepost.evaluation import evaluate
from fencepost.methods.candidates import Candidates
from fencepost.methods.registry import METHODS
from fencepost.methods.settings import PredictSettings
from fencepost.methods.trimming import TRIM_KINDS, TrimmableWords, find_trims
from fencepost.runtime.loading import load
from tests.methods.running import recogniser_of
from tests.runtime import models

WORDS = st.lists(
    st.sampled_from(["Ada", "the", "boys", "'s", "’s", "'", '"', "“", "”", "(", ")", "[", "]"]), max_size=12
)


def candidates_of(*spans):
    rows = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return Candidates(rows[:, 0], rows[:, 1], np.zeros(len(rows), dtype=np.int64), np.full(len(rows), 0.5))


def trim(text, start, end, *kinds):
    """Return the words of a span after trimming."""
    words = text.split()
    trimmable = TrimmableWords.find([Sentence(words)], len(words), kinds or TRIM_KINDS)
    candidates = (
        candidates_of((start, end)) if trimmable is None else trimmable.trim(candidates_of((start, end)))
    )
    return [" ".join(words[a:b]) for a, b in zip(candidates.start, candidates.end, strict=True)]


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("Ada 's engine", (0, 2), "Ada"),
        ("Ada ’s engine", (0, 2), "Ada"),
        ("the boys ' school", (0, 3), "the boys"),
        ("Ada 's engine", (0, 3), "Ada 's engine"),
        ("she saw ( Ada ) there", (2, 4), "Ada"),
        ("she saw ( Ada ) there", (2, 5), "Ada"),
        ("she saw ( Ada ) there", (3, 5), "Ada"),
        ("the Bank ( London ) failed", (0, 5), "the Bank ( London )"),
        ("( New ) York", (0, 4), "( New ) York"),
        ('read " Hamlet " again', (1, 3), "Hamlet"),
        ('read " Hamlet " again', (1, 4), "Hamlet"),
        ('" Hamlet " by " Ada "', (0, 7), '" Hamlet " by " Ada "'),
        ("read “ Hamlet ” 's end", (1, 5), "Hamlet"),
        ("read `` Hamlet '' again", (1, 4), "Hamlet"),
        ("„ Hamlet “ ist", (0, 3), "Hamlet"),
        ("( [ Ada ] )", (0, 5), "Ada"),
        ("Ada ) (", (0, 3), "Ada"),
    ],
)
def test_endings_quotes_and_brackets_are_trimmed(text, span, expected):
    assert trim(text, *span) == [expected]


def test_only_the_given_kinds_are_trimmed():
    assert trim("( Ada 's", 0, 3, "possessive") == ["( Ada"]
    assert trim("( Ada 's", 0, 3, "brackets") == ["Ada 's"]
    assert trim("( Ada 's", 0, 3, "quotes") == ["( Ada 's"]
    assert trim("( 's", 0, 2) == []


@given(words=WORDS.filter(len), kinds=st.sets(st.sampled_from(TRIM_KINDS), min_size=1), data=st.data())
@settings(max_examples=300)
def test_trimming_a_batch_equals_a_simple_loop(words, kinds, data):
    """Padding and other sentences have no effect."""
    batch = [Sentence(["x"]), Sentence(words), Sentence(["(", "'s"])]
    length = max(map(len, batch))
    places = st.integers(0, len(words) - 1)
    spans = data.draw(
        st.lists(st.tuples(places, places).map(lambda two: (min(two), max(two) + 1)), max_size=6)
    )
    alone, together = (
        TrimmableWords.find([batch[1]], len(words), kinds),
        TrimmableWords.find(batch, length, kinds),
    )
    if alone is None:
        assert together is not None
        return
    expected = []
    for start, end in spans:
        first, last = start, end - 1
        while first <= last:
            before = first, last
            if alone.kind[last] and not first <= alone.partner[last] < last + (alone.partner[last] != first):
                last -= 1
            if before[0] <= before[1] and alone.kind[first] > 1:
                partner = alone.partner[first]
                if not before[0] <= partner <= before[1] or partner == before[1]:
                    first += 1
            if before == (first, last):
                break
        expected += [(first, last + 1)] if first <= last else []
    candidates = together.trim(candidates_of(*[(length + a, length + b) for a, b in spans]))
    assert list(zip(candidates.start - length, candidates.end - length, strict=True)) == expected


def test_trims_a_sentence_of_60000_brackets():
    words = ["[", "("] * 20_000 + [")"] * 20_000
    assert TrimmableWords.find([Sentence(words)], len(words)) is not None


# The kinds found in training data


def read_sentences(*texts):
    """Return sentences in which the words between < and > are an entity."""
    sentences = []
    for text in texts:
        words = text.split()
        start, end = words.index("<"), words.index(">") - 1
        sentences.append(Sentence([word for word in words if word not in "<>"], [Entity(start, end, "PER")]))
    return sentences


def test_trims_the_kinds_that_training_entities_do_not_have():
    assert find_trims([]) == TRIM_KINDS
    assert find_trims(read_sentences("< Ada > 's engine", "< Ada > met him")) == TRIM_KINDS
    assert find_trims(read_sentences("< Ada 's > engine", "( < Ada > ) met him")) == ("quotes", "brackets")
    assert find_trims(read_sentences('" < Hamlet > " was read', 'the play < " Hamlet " >')) == (
        "possessive",
        "brackets",
    )
    assert find_trims(read_sentences("< ( Ada > )")) == ("possessive", "quotes")
    assert find_trims(read_sentences("< the Bank ( London ) >", "< “ Hamlet ” by Ada >")) == TRIM_KINDS
    slips = read_sentences(*["< Ada > 's engine"] * 99, "< Ada 's > engine")
    assert find_trims(slips) == TRIM_KINDS
    assert "possessive" not in find_trims([*slips, *read_sentences(*["< Ada 's > engine"] * 9)])


def test_explicit_trim_is_kept():
    data = read_sentences("< Ada 's > engine")
    assert PredictSettings().fit_to(data).trim == ("quotes", "brackets")
    assert PredictSettings(trim=()).fit_to(data).trim == ()
    assert PredictSettings(trim=["possessive"]).fit_to(data).trim == ("possessive",)
    assert models.config("diffusion").predict.trim is None


def test_candidates_equal_after_trimming_count_once():
    sentence = Sentence(["Ada", "'s", "engine"])
    candidates = Candidates(np.array([0, 0]), np.array([1, 2]), np.array([0, 0]), np.array([0.6, 0.9]))
    settings = PredictSettings(select="nested", trim=["possessive"], threshold=0.5)
    selection = settings.select_entities(candidates, ["PER"], [sentence])
    assert [selection.start.tolist(), selection.end.tolist(), selection.confidence.tolist()] == [
        [0],
        [1],
        [0.9],
    ]
    both = settings.with_changes({"trim": []}).select_entities(candidates, ["PER"], [sentence])
    assert len(both) == 2


# Every method, on both engines


@pytest.mark.parametrize("method", METHODS)
def test_models_trim_the_kinds_of_their_settings(method, tmp_path):
    dice = random.Random(1)  # noqa: S311
    words = ["Ada", "met", "Charles", "'s", "(", ")", '"', "London"]
    batch = [Sentence(dice.choices(words, k=dice.randint(1, 9))) for _ in range(40)]
    model = models.random_model(method)
    assert model.config.predict.trim == TRIM_KINDS  # the training data has no such words
    for ner in (recogniser_of(model), load(models.saved(model, tmp_path), engine="onnx")):
        edges = [_edges(sentence) for sentence in ner.predict(batch)]
        before = [_edges(sentence) for sentence in ner.with_options(trim=[]).predict(batch)]
        assert sum(map(len, edges)) > 10
        assert any(last == "'s" for of in before for _, last in of)
        assert any(first == "(" for of in before for first, _ in of)
        for first, last in (pair for of in edges for pair in of):
            assert last != "'s"
            assert first not in '()"' or last not in '()"' or first == last == '"'
        assert any(
            last == "'s"
            for of in map(_edges, ner.with_options(trim=["quotes"]).predict(batch))
            for _, last in of
        )


def _edges(sentence):
    return [(sentence.words[entity.start], sentence.words[entity.end - 1]) for entity in sentence.entities]


@pytest.mark.corpora
def test_kinds_of_real_corpora_are_known(shared_data):
    from fencepost.data import read

    assert find_trims(list(read(shared_data / "gum" / "train.jsonl"))) == ("quotes", "brackets")
    assert find_trims(list(read(shared_data / "genia" / "train.jsonl"))) == TRIM_KINDS


@pytest.mark.corpora
def test_trimming_does_not_harm_the_shipped_model(shared_data):
    from fencepost.data import read

    gold = list(read(shared_data / "gum" / "test.jsonl"))[:400]
    ner = load()
    with_trim, without = (
        evaluate(gold, list(one.predict(gold))).overall.f1 for one in (ner, ner.with_options(trim=[]))
    )
    assert with_trim >= without
