"""The arrays that an encoder reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import (
    AXES,
    PAD,
    UNKNOWN,
    number_blocks,
    number_letters,
    number_names,
    number_subwords,
    pad_rows,
)
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.settings import EncoderSettings
from tests import strategies
from tests.runtime import models


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> str:
    return str(models.save_bert(tmp_path_factory.mktemp("bert")))


def test_arrays_have_their_declared_axes(folder) -> None:
    features = {"pos": 2, "characters": 2}
    for tree in (models.SCRATCH, {"name": folder, "lstm": {"size": 0}}):
        encoder = Encoder.build(EncoderSettings(**tree, features=features), models.NESTED)
        arrays = encoder.inputs([s for s in models.sentences() if s.words])
        sizes: dict[str, int] = {}
        for name, array in arrays.items():
            assert array.dtype == np.int64
            assert array.ndim == len(AXES[name])
            for axis, size in zip(AXES[name], array.shape, strict=True):
                assert sizes.setdefault(axis, size) == size
        assert sizes["sentences"] == 23


@pytest.mark.parametrize("first_only", [False, True])
def test_subwords_are_assigned_to_their_words(first_only: bool, folder) -> None:
    encoder = Encoder.build(EncoderSettings(name=folder, lstm={"size": 0}), [])
    subwords, room = encoder.embedder.subwords, encoder.embedder.room
    words = ["Lovelace", "x" * 300, "\x00", "", "Zürich"]
    for chosen in (words[:1], words[2:], [words[1]]):
        arrays = number_subwords([Sentence(chosen)], subwords, room, context=False, first_only=first_only)
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


@pytest.mark.parametrize("first_only", [False, True])
def test_subwords_of_blocks_are_assigned_to_their_sentences(first_only: bool, folder) -> None:
    encoder = Encoder.build(EncoderSettings(name=folder, lstm={"size": 0}), [])
    subwords, room = encoder.embedder.subwords, encoder.embedder.room
    whole = ["Lovelace", "met", "x" * 300, "\x00", "", "Zürich", "again"]
    parts = [
        Sentence(whole[start:end], left=whole[:start], right=whole[end:]) for start, end in [(0, 2), (3, 7)]
    ]
    sentences = [parts[1], Sentence(["alone"]), parts[0]]
    arrays = number_blocks(sentences, subwords, room, first_only=first_only)
    assert [len(row) for row in arrays["ids"]] == [arrays["piece_counts"].max()] * 2
    for sentence, places, owners in zip(
        sentences, arrays["piece_places"], arrays["piece_words"], strict=True
    ):
        for word, text in enumerate(sentence.words):
            own = arrays["ids"].flatten()[places[: len(owners)][owners == word]]
            of_word = subwords([text])[0][:room]
            assert tuple(own) == (of_word[:1] if first_only else of_word)


def test_a_block_that_does_not_fit_is_left_out(folder) -> None:
    encoder = Encoder.build(EncoderSettings(name=folder, lstm={"size": 0}), [])
    subwords, room = encoder.embedder.subwords, encoder.embedder.room
    sentence = Sentence(["Zürich"], left=["Lovelace"] * room)
    arrays = number_blocks([sentence], subwords, room, first_only=False)
    alone = number_subwords([Sentence(["Zürich"])], subwords, room, context=False, first_only=False)
    assert arrays["ids"].tolist() == alone["ids"].tolist()


@given(st.lists(st.lists(strategies.odd_words, min_size=1, max_size=6), min_size=1, max_size=4))
def test_letters_of_any_words_are_numbered(batch: list[list[str]]) -> None:
    sentences = [Sentence(words) for words in batch]
    known = number_names(["a", "b", "é"])
    arrays = number_letters(sentences, known)
    assert len(arrays["letters"]) == len(arrays["letter_counts"])
    for row, words in zip(arrays["letters_of"], batch, strict=True):
        for at, word in zip(row, words, strict=False):
            count = arrays["letter_counts"][at]
            expected = [known.get(letter, UNKNOWN) for letter in word] or [UNKNOWN]
            assert arrays["letters"][at, :count].tolist() == expected
            assert (arrays["letters"][at, count:] == PAD).all()


def test_long_words_are_limited_to_64_letters() -> None:
    arrays = number_letters([Sentence(["a" * 1000, "a" * 64, "a" * 63])], number_names(["a"]))
    assert arrays["letters_of"].tolist() == [[0, 0, 1]]
    assert arrays["letter_counts"].tolist() == [64, 63]


def test_rows_are_padded() -> None:
    assert pad_rows([[1], [2, 3, 4], []], -1).tolist() == [[1, -1, -1], [2, 3, 4], [-1, -1, -1]]


def test_sizes_are_in_subwords_or_words(folder) -> None:
    scratch = Encoder.build(EncoderSettings(**models.SCRATCH), models.NESTED).inputs
    words = ["Lovelace", "x" * 300, "", "\u200b"]
    assert scratch.sizes(words) == [1] * 4
    assert (scratch.room, scratch.sizes([])) == (None, [])
    encoder = Encoder.build(EncoderSettings(name=folder, lstm={"size": 0}), [])
    assert encoder.inputs.sizes(words) == [len(of) for of in encoder.embedder.subwords(words)]
    assert min(encoder.inputs.sizes(words)) == 1
    assert encoder.inputs.room == encoder.embedder.room
