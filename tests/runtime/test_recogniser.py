"""The options of the recogniser, its stream, and its calls of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import Temperature
from fencepost.runtime import chunks
from fencepost.runtime import recogniser as recogniser_module
from fencepost.runtime.document import Span
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import load_model, save_model
from fencepost.runtime.recogniser import Recogniser
from tests.methods.running import predict, recogniser_of
from tests.runtime import models
from tests.runtime.doubles import TYPES, Double, everything, marking

TEXT = "Ada met Charles. The rain fell in London all day long!"


def flat(spans: list[Span]) -> bool:
    return all(one.end <= other.start for one, other in pairwise(spans))


# Entities


def test_entities_have_offsets_types_scores_and_text() -> None:
    ner = Recogniser(Double(marking(("Ada", "Lovelace"), ("London",))))
    text = "  Ada  Lovelace was\tborn in London."
    assert ner(text) == [
        Span(2, 15, "LOC", 0.5, "Ada  Lovelace"),
        Span(28, 34, "ORG", 0.5, "London"),
    ]
    assert (ner.types, ner.engine, ner.language) == (TYPES, "double", "en")


def test_model_predicts_the_learnt_entities(pytorch, onnx) -> None:
    text = "Ada met Charles in London\n\nthe University of Toronto opened"
    for ner in (pytorch, onnx):
        assert [(span.text, span.type) for span in ner(text)] == [
            ("Ada", "PER"),
            ("Charles", "PER"),
            ("London", "LOC"),
            ("the University of Toronto", "ORG"),
            ("University of Toronto", "ORG"),
            ("Toronto", "LOC"),
        ]
    assert pytorch.types == onnx.types == ("LOC", "ORG", "PER")


def test_calibration_changes_only_scores(pytorch, tmp_path) -> None:
    save_model(models.trained(), tmp_path)
    model = load_model(tmp_path)
    model.calibration = Temperature(2.5, -0.3)
    calibrated = load(models.saved(model, tmp_path), engine="onnx")
    for plain, ours in zip(pytorch(TEXT), calibrated(TEXT), strict=True):
        assert replace(ours, score=0) == replace(plain, score=0)
        assert ours.score != pytest.approx(plain.score, abs=1e-3)
        [expected] = model.calibration.apply([plain.score])
        assert ours.score == pytest.approx(expected, abs=1e-4)


# Options


def test_min_confidence_and_types_filter_entities() -> None:
    ner = Recogniser(Double(everything))
    every = ner(TEXT)
    assert {span.type for span in every} == set(TYPES)
    for least in (0.0, 0.3, 0.5, 1.0):
        spans = [span for span in every if span.score >= least]
        assert spans
        assert Recogniser(Double(everything), min_confidence=least)(TEXT) == spans
        assert ner.with_options(min_confidence=least)(TEXT) == spans
    for types in (["PER"], ("LOC", "PER"), {"ORG"}, [], TYPES):
        spans = [span for span in every if span.type in types]
        assert Recogniser(Double(everything), types=types)(TEXT) == spans
        assert ner.with_options(types=types)(TEXT) == spans
        assert list(ner.with_options(types=types).pipe([TEXT, TEXT])) == [spans, spans]
    both = ner.with_options(types=["PER"]).with_options(min_confidence=0.5)
    assert both(TEXT) == [span for span in every if span.type == "PER" and span.score >= 0.5]


def test_with_options_does_not_change_the_recogniser(pytorch, onnx) -> None:
    text = "the University of Toronto opened"
    for ner in (pytorch, onnx):
        before, settings = ner(text), ner.settings
        assert not flat(before)
        other = ner.with_options(select="flat", batch_size=1, min_confidence=0.1, types=["ORG", "LOC"])
        assert flat(other(text))
        assert other.settings == settings | {"select": "flat", "batch_size": 1}
        assert (ner(text), ner.settings) == (before, settings)
        assert other.with_options(select="nested").settings["batch_size"] == 1
        assert other.with_options(select="nested")(text) == [s for s in before if s.type in ("ORG", "LOC")]
        assert ner.with_options()(text) == before


@pytest.mark.parametrize("engine", ["pytorch", "onnx"])
def test_names_wrong_settings(engine: str, request) -> None:
    ner = request.getfixturevalue(engine)
    with pytest.raises(UsageError, match=r"^predict\.selekt: .* did you mean predict\.select\?"):
        ner.with_options(selekt="flat")
    with pytest.raises(UsageError, match=r"^predict\.steps: there is no such key"):
        ner.with_options(steps=3)  # diffusion has it
    with pytest.raises(
        UsageError, match=r"^predict\.batch_size: should be greater than or equal to 1, not 0"
    ):
        ner.with_options(batch_size=0)
    with pytest.raises(UsageError, match=r"^predict\.select: .*'flat'"):
        ner.with_options(select="flatt")


def test_names_wrong_types_and_confidences() -> None:
    ner = Recogniser(Double(everything))
    makers: list[Callable] = [ner.with_options, lambda **options: Recogniser(Double(everything), **options)]
    for make in makers:
        with pytest.raises(
            UsageError, match=r"there is no type 'PERS'; did you mean PER\? there are LOC, ORG, PER"
        ):
            make(types=["PER", "PERS"])
        with pytest.raises(UsageError, match="types are a list of names, not the string 'PER'"):
            make(types="PER")
        for least in (-0.1, 1.1, float("nan")):
            with pytest.raises(UsageError, match=r"min_confidence is .* between 0 and 1"):
                make(min_confidence=least)


@pytest.mark.parametrize("text", [None, b"Ada", 3, ["Ada"], ("Ada", 1)])
def test_refuses_texts_that_are_not_strings(text) -> None:
    ner = Recogniser(Double(everything))
    with pytest.raises(UsageError, match=f"a text is a string, not {type(text).__name__}"):
        ner(text)
    stream = ner.pipe(iter(["Ada", text]))
    with pytest.raises(UsageError, match="a text is a string"):
        list(stream)
    with pytest.raises(UsageError, match="a text is a string"):
        list(ner.pipe([(text, 1)], as_tuples=True))


def test_refuses_one_string_as_a_list_of_texts() -> None:
    ner = Recogniser(Double(everything))
    for read in (ner.pipe, ner.annotate):
        with pytest.raises(UsageError, match="texts are a list of strings"):
            list(read("Ada met Charles."))


# The stream


class Counted:
    """Texts that count how many of them were read."""

    def __init__(self, count: int) -> None:
        self.count, self.read = count, 0

    def __iter__(self) -> Iterator[str]:
        for self.read in range(1, self.count + 1):  # noqa: B020
            yield f"Ada{self.read} rests."


def test_few_texts_are_read_ahead(monkeypatch) -> None:
    monkeypatch.setattr(chunks, "TEXTS", 4)
    ner = Recogniser(Double(everything))
    for texts in (Counted(50), Counted(51)):
        stream = ner.pipe(texts)
        assert texts.read == 0
        for number in range(1, texts.count + 1):
            assert next(stream)[0].text == f"Ada{number}"
            assert texts.read <= number + 4
        assert next(stream, None) is None


def test_fewer_long_texts_are_read_ahead(monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHARACTERS", 30)
    texts = Counted(50)
    stream = Recogniser(Double(everything)).pipe(texts)
    next(stream)
    assert texts.read <= 4


def test_empty_texts_count_when_reading_ahead(monkeypatch) -> None:
    monkeypatch.setattr(chunks, "TEXTS", 4)
    read = []
    stream = Recogniser(Double(everything)).pipe(read.append(1) or "" for _ in range(50))
    assert next(stream) == []
    assert len(read) <= 5


def test_as_tuples_keeps_the_context_of_texts(monkeypatch) -> None:
    monkeypatch.setattr(chunks, "TEXTS", 4)
    ner = Recogniser(Double(everything))
    texts = Counted(20)
    marks = [object() for _ in range(20)]
    stream = ner.pipe(zip(texts, marks, strict=False), as_tuples=True)
    assert texts.read == 0
    for number, mark in enumerate(marks, start=1):
        spans, same = next(stream)
        assert same is mark
        assert spans == ner(f"Ada{number} rests.")
        assert texts.read <= number + 5
    assert next(stream, None) is None
    assert list(ner.pipe([], as_tuples=True)) == list(ner.pipe([])) == []


def test_order_is_kept_for_texts_of_any_length(pytorch, onnx) -> None:
    texts = [" ".join(s.words) + "." for s in models.sentences(40)]
    for ner in (pytorch.with_options(batch_size=3), onnx.with_options(batch_size=3)):
        together = list(ner.pipe(texts))
        alone = [ner(text) for text in texts]
        assert sum(map(len, alone)) > 20
        assert [[(s.start, s.end, s.type) for s in spans] for spans in together] == [
            [(s.start, s.end, s.type) for s in spans] for spans in alone
        ]


# Sentences whose words are known


def test_sentences_are_predicted_like_the_model_does(pytorch, onnx) -> None:
    sentences = models.sentences(40)
    expected = predict(models.trained(), sentences)
    assert sum(len(sentence.entities) for sentence in expected) > 20
    assert list(pytorch.predict(sentences)) == expected
    predicted = list(onnx.predict(iter(sentences)))
    assert [[e.key for e in s.entities] for s in predicted] == [[e.key for e in s.entities] for s in expected]
    assert [s.with_entities(()) for s in predicted] == sentences


def test_prediction_changes_only_the_entities() -> None:
    sentence = Sentence(
        ["Ada", "met"],
        [Entity(1, 2, "ORG")],
        id="7",
        doc="d",
        left=["So"],
        right=["him"],
        pos=["NN", "VB"],
        space_after=[True, False],
        meta={"a": 1},
    )
    engine = Double(marking(("Ada",)), context=2)
    [predicted] = Recogniser(engine).predict([sentence])
    assert predicted == sentence.with_entities([Entity(0, 1, "LOC", 0.5)])
    assert (engine.sentences[0].left, engine.sentences[0].right) == (("So",), ("him",))


def test_few_sentences_are_read_ahead(monkeypatch) -> None:
    monkeypatch.setattr(recogniser_module, "LOOK_AHEAD", 4)
    for context in (0, 2):
        texts = Counted(30)
        sentences = (Sentence(text.split(), doc="d") for text in texts)
        stream = Recogniser(Double(everything, context=context)).predict(sentences)
        for number in range(1, 31):
            assert next(stream).words[0] == f"Ada{number}"
            assert texts.read <= number + 4 + context + 1


# Neighbours


@pytest.mark.parametrize("context", [0, 1, 2])
def test_engine_sees_only_neighbours_of_the_same_text(context: int) -> None:
    texts = ["One sat. Two sat. Three sat.", "", "Four sat. Five sat.", "Six sat."]
    engine = Double(everything, context=context)
    documents = list(Recogniser(engine).annotate(texts))
    neighbours = {sentence.words[0]: (sentence.left, sentence.right) for sentence in engine.sentences}
    order = [["One", "Two", "Three"], ["Four", "Five"], ["Six"]]
    assert set(neighbours) == {name for names in order for name in names}
    for names in order:
        for at, name in enumerate(names):
            left = [(other, "sat", ".") for other in names[max(0, at - context) : at]]
            right = [(other, "sat", ".") for other in names[at + 1 : at + 1 + context]]
            assert neighbours[name] == (sum(left, ()), sum(right, ()))
    for document in documents:
        assert all(not (sentence.left or sentence.right) for sentence in document.sentences)


def test_context_changes_scores_only_within_a_text(tmp_path) -> None:
    encoder = {"name": str(models.save_bert(tmp_path)), "lstm": {"size": 0}, "context": 1}
    model = models.random_model("boundary-smoothing", encoder, predict={"select": "keep-all"})
    ner = recogniser_of(model)
    one, other = "Ada met Charles in London.", "The University of Toronto opened."
    alone = ner(one)
    assert alone
    for spans, expected in zip(ner.pipe([one, other, one]), (alone, ner(other), alone), strict=True):
        assert [replace(span, score=0.0) for span in spans] == [replace(span, score=0.0) for span in expected]
        assert [span.score for span in spans] == pytest.approx([span.score for span in expected], abs=1e-6)
    together = [span for span in ner(f"{one} {other}") if span.end <= len(one)]
    assert [span.score for span in together] != pytest.approx([span.score for span in alone], abs=1e-6)
