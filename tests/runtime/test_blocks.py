"""Sentences of a text or a document are read together, but predicted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.settings import BLOCK, EncoderSettings
from fencepost.errors import UsageError
from fencepost.runtime.document import Document
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import save_model
from fencepost.runtime.recogniser import Recogniser
from fencepost.training.combining import combine
from fencepost.training.start import Start
from tests.methods.running import recogniser_of
from tests.runtime import models
from tests.runtime.doubles import Double, everything

TEXT = (
    "Ada met Charles. The rain fell in London all day long! Nobody met him. The University of Toronto opened."
)
DOCUMENT = [replace(sentence, doc="1") for sentence in models.NESTED]


def assert_alike(ours: Document, theirs: Document) -> None:
    assert [replace(span, score=0) for span in ours] == [replace(span, score=0) for span in theirs]
    assert [span.score for span in ours] == pytest.approx([span.score for span in theirs], abs=1e-4)


@pytest.fixture(scope="module")
def bert(tmp_path_factory) -> dict[str, Any]:
    return {"name": str(models.save_bert(tmp_path_factory.mktemp("bert"))), "lstm": {"size": 0}}


@pytest.fixture(scope="module")
def ner(bert: dict[str, Any]) -> Recogniser:
    return recogniser_of(models.random_model("boundary-smoothing", bert | {"block": 30}))


# The default


@pytest.mark.parametrize(
    ("changes", "sentences", "expected"),
    [
        ({}, DOCUMENT, BLOCK),
        ({}, models.NESTED, 0),
        ({}, [replace(one, doc=str(number)) for number, one in enumerate(models.NESTED)], 0),
        ({"context": 1}, DOCUMENT, 0),
        ({"block": 0}, DOCUMENT, 0),
        ({"block": 50}, models.NESTED, 50),
    ],
)
def test_default_depends_on_the_training_data(
    changes: dict[str, int], sentences: list[Sentence], expected: int, bert: dict[str, Any]
) -> None:
    encoder = Encoder.build(EncoderSettings(**bert | changes), sentences)
    assert encoder.settings.block == expected
    assert encoder.inputs.block == min(expected, encoder.embedder.room)


def test_encoders_from_scratch_have_no_blocks() -> None:
    assert Encoder.build(EncoderSettings(**models.SCRATCH), DOCUMENT).settings.block == 0


def test_blocks_and_context_exclude_each_other(bert: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"encoder\.block and encoder\.context"):
        EncoderSettings(**bert, block=50, context=1)
    save_model(models.random_model("boundary-smoothing", bert | {"block": 30}), tmp_path / "model")
    settings = Start(tmp_path / "model").read_settings()
    with pytest.raises(UsageError, match="set one of them to 0"):
        Config.compose(changes=["encoder.context=1"], base=settings)
    assert Config.compose(changes=["encoder.context=1", "encoder.block=0"], base=settings)


# Prediction


def test_sentences_of_a_text_are_read_together() -> None:
    double = Double(everything, block=13)
    Recogniser(double)(TEXT)
    assert [(len(one.left), len(one), len(one.right)) for one in double.sentences] == [
        (0, 4, 9),
        (4, 9, 0),
        (0, 4, 6),
        (4, 6, 0),
    ]


@given(st.lists(st.sampled_from(["Ada met Charles. ", "London! ", "Nobody met him at all. "]), max_size=9))
def test_texts_are_independent(ner: Recogniser, pieces: list[str]) -> None:
    texts = ["".join(pieces[:3]), "".join(pieces[3:]), "", "".join(pieces)]
    for text, document in zip(texts, ner.pipe(texts), strict=True):
        assert_alike(document, ner(text))


def test_text_is_read_like_a_document_of_its_sentences(ner: Recogniser) -> None:
    document = ner(TEXT)
    sentences = [Sentence(one.words, doc="1") for one in document.sentences]
    assert [one.entities for one in ner.predict(sentences)] == [one.entities for one in document.sentences]
    alone = [entities for one in sentences for entities in ner.predict([one])]
    assert [one.entities for one in alone] != [one.entities for one in document.sentences]


def test_sentences_keep_what_they_were_given_with(ner: Recogniser) -> None:
    sentences = models.sentences()
    for original, predicted in zip(sentences, ner.predict(sentences), strict=True):
        assert predicted.with_entities(()) == original.with_entities(())


def test_predictions_do_not_depend_on_the_batch_size(ner: Recogniser) -> None:
    sentences = [one for one in models.sentences(60) if one.words]
    expected = list(ner.with_options(batch_size=100).predict(sentences))
    for size in (1, 2, 7):
        for ours, theirs in zip(ner.with_options(batch_size=size).predict(sentences), expected, strict=True):
            assert [entity.key for entity in ours.entities] == [entity.key for entity in theirs.entities]


def test_an_endless_document_is_predicted_as_it_comes(ner: Recogniser) -> None:
    numbers = []

    def stream() -> Iterator[Sentence]:
        for number in count():
            numbers.append(number)
            yield Sentence(["Ada", "met", "Charles"], doc="1")

    assert len(list(islice(ner.predict(stream()), 3))) == 3
    assert len(numbers) < 5000


def test_each_block_is_in_one_batch(bert: dict[str, Any]) -> None:
    ner = recogniser_of(models.random_model("boundary-smoothing", bert | {"block": 30}))
    sentences = [
        part.sentence for split in ner.prepare_sentences(models.sentences(80)) for part in split.parts
    ]
    batches = ner._predictor.make_batches(sentences)
    places = {index: number for number, batch in enumerate(batches) for index in batch}
    assert sorted(places) == [index for index, one in enumerate(sentences) if one.words]
    together = 0
    for first, second in pairwise(sorted(places)):
        one, other = sentences[first], sentences[second]
        if other.left and one.left + one.words + one.right == other.left + other.words + other.right:
            together += 1
            assert places[first] == places[second]
    assert together > 10


def test_members_of_a_combination_read_blocks_or_not(bert: dict[str, Any], ner: Recogniser, tmp_path) -> None:
    blocks, single = ({"block": 30}, {"block": 0})
    for name, members in {"same": (blocks, blocks), "mixed": (blocks, single)}.items():
        folders = [tmp_path / name / str(number) for number in range(2)]
        for folder, changes in zip(folders, members, strict=True):
            save_model(models.random_model("boundary-smoothing", bert | changes), folder)
        combine(folders, tmp_path / name / "both")
    same, mixed = (load(tmp_path / name / "both", engine="pytorch") for name in ("same", "mixed"))
    assert_alike(same(TEXT), ner(TEXT))
    assert [span.score for span in mixed(TEXT)] != pytest.approx([span.score for span in ner(TEXT)], abs=1e-4)
    assert_alike(mixed("Ada met Charles in London"), ner("Ada met Charles in London"))


def test_saved_model_keeps_its_blocks(bert: dict[str, Any], tmp_path) -> None:
    model = models.random_model("boundary-smoothing", bert | {"block": 30})
    ner = load(models.saved(model, tmp_path), engine="onnx")
    assert ner._predictor.block == 30
    assert_alike(ner(TEXT), recogniser_of(model)(TEXT))
