"""Arrays for an exported encoder: what the encoder itself collates, as rectangles."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import AXES, PAD, UNKNOWN, grid, letters, numbered, rectangle
from fencepost.encoder.embedder import as_batch
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.inputs import InputReader
from fencepost.encoder.settings import EncoderSettings
from tests import strategies
from tests.runtime import models


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(models.save_bert(tmp_path_factory.mktemp("bert")))


def reader_of(encoder: Encoder) -> InputReader:
    embedder = encoder.embedder
    return InputReader(encoder.settings, encoder.known, getattr(embedder, "subwords", None), embedder.room)


def test_arrays_have_the_axes_that_they_are_said_to_have(folder) -> None:
    features = {"pos": 2, "characters": 2}
    for tree in (models.SCRATCH, {"name": folder, "lstm": {"size": 0}}):
        encoder = Encoder.build(EncoderSettings(**tree, features=features), models.NESTED)
        arrays = reader_of(encoder)([s for s in models.sentences() if s.words])
        sizes: dict[str, int] = {}
        for name, array in arrays.items():
            assert array.dtype == np.int64
            assert array.ndim == len(AXES[name])
            for axis, size in zip(AXES[name], array.shape, strict=True):
                assert sizes.setdefault(axis, size) == size
        assert sizes["sentences"] == 23


@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
@pytest.mark.parametrize("context", [0, 1])
@torch.inference_mode()
def test_rectangles_and_rows_are_the_same_to_a_transformer(pooling: str, context: int, folder) -> None:
    settings = EncoderSettings(name=folder, pooling=pooling, context=context, lstm={"size": 0})
    encoder = Encoder.build(settings, [], prompts=2).eval()
    room = encoder.embedder.room
    sentences = [
        Sentence(s.words, left=["Ada", "met"] * index, right=["in", "London"] * 20)
        for index, s in enumerate(models.sentences())
        if s.words and sum(encoder.embedder.sizes(s.words)) <= room
    ]
    ours, theirs = encoder(as_batch(reader_of(encoder)(sentences))), encoder(encoder.collate(sentences))
    mask = theirs.mask
    torch.testing.assert_close(ours.vectors[mask], theirs.vectors[mask], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.prompts, theirs.prompts, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("first_only", [False, True])
def test_pieces_know_their_words(first_only: bool, folder) -> None:
    encoder = Encoder.build(EncoderSettings(name=folder, lstm={"size": 0}), [])
    subwords, room = encoder.embedder.subwords, encoder.embedder.room
    words = ["Lovelace", "x" * 300, "\x00", "", "Zürich"]
    for chosen in (words[:1], words[2:], [words[1]]):
        arrays = rectangle([Sentence(chosen)], subwords, room, context=False, first_only=first_only)
        pieces = [of_word[:room] for of_word in subwords(chosen)]
        assert arrays["piece_counts"].tolist() == [sum(map(len, pieces)) + 2]
        assert arrays["ids"][0].tolist() == [
            *subwords.first,
            *(p for of in pieces for p in of),
            *subwords.last,
        ]
        for word, of_word in enumerate(pieces):
            own = arrays["ids"][0][arrays["piece_words"][0] == word]
            assert tuple(own) == (of_word[:1] if first_only else of_word)
        assert arrays["piece_words"][0, [0, -1]].tolist() == [-1, -1]


@given(st.lists(st.lists(strategies.odd_words, min_size=1, max_size=6), min_size=1, max_size=4))
def test_letters_of_any_words(batch: list[list[str]]) -> None:
    sentences = [Sentence(words) for words in batch]
    known = numbered(["a", "b", "é"])
    arrays = letters(sentences, known)
    assert len(arrays["letters"]) == len(arrays["letter_counts"])
    for row, words in zip(arrays["letters_of"], batch, strict=True):
        for at, word in zip(row, words, strict=False):
            count = arrays["letter_counts"][at]
            expected = [known.get(letter, UNKNOWN) for letter in word] or [UNKNOWN]
            assert arrays["letters"][at, :count].tolist() == expected
            assert (arrays["letters"][at, count:] == PAD).all()


def test_a_long_word_is_known_by_its_beginning() -> None:
    arrays = letters([Sentence(["a" * 1000, "a" * 64, "a" * 63])], numbered(["a"]))
    assert arrays["letters_of"].tolist() == [[0, 0, 1]]
    assert arrays["letter_counts"].tolist() == [64, 63]


def test_rows_are_filled_up() -> None:
    assert grid([[1], [2, 3, 4], []], -1).tolist() == [[1, -1, -1], [2, 3, 4], [-1, -1, -1]]


def test_sizes_are_pieces_or_words(folder) -> None:
    scratch = reader_of(Encoder.build(EncoderSettings(**models.SCRATCH), models.NESTED))
    words = ["Lovelace", "x" * 300, "", "\u200b"]
    assert scratch.sizes(words) == [1] * 4
    assert (scratch.room, scratch.sizes([])) == (None, [])
    encoder = Encoder.build(EncoderSettings(name=folder, lstm={"size": 0}), [])
    assert reader_of(encoder).sizes(words) == encoder.embedder.sizes(words)
    assert min(reader_of(encoder).sizes(words)) == 1
    assert reader_of(encoder).room == encoder.embedder.room
