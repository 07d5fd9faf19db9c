"""Texts that are computed together."""

from __future__ import annotations

from itertools import chain, count, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.runtime.chunks import CHARACTERS, TEXTS, chunk_texts
from tests.runtime import models


def cut(sizes: list[int]) -> list[list[int]]:
    return list(chunk_texts(sizes, lambda size: size))


@given(
    st.lists(st.sampled_from([0, 1, 100, 125, 126, CHARACTERS // 3, CHARACTERS, CHARACTERS + 1]), max_size=40)
)
def test_chunks_have_limited_size_and_are_independent(sizes):
    chunks = cut(sizes)
    assert list(chain.from_iterable(chunks)) == sizes
    for chunk in chunks:
        assert len(chunk) == 1 or (len(chunk) <= TEXTS and sum(chunk) <= CHARACTERS)
        assert cut(chunk) == [chunk]
    for first in range(len(chunks)):
        assert cut(list(chain.from_iterable(chunks[first:]))) == chunks[first:]


def test_chunks_of_short_texts_are_limited_by_their_number():
    assert [len(chunk) for chunk in cut([10] * (2 * TEXTS + 5))] == [TEXTS, TEXTS, 5]
    assert [len(chunk) for chunk in cut([0] * (TEXTS + 1))] == [TEXTS, 1]


def test_reads_only_the_texts_of_the_first_chunk():
    numbers = count()
    first = next(chunk_texts(numbers, lambda _: 1))
    assert len(first) == TEXTS
    assert next(numbers) == TEXTS


@pytest.mark.parametrize("engine", ["int8", "onnx"])
def test_chunks_predict_the_same_bits_with_any_number_of_threads(folder, engine, monkeypatch):
    from fencepost.runtime.loading import load

    monkeypatch.setattr("fencepost.runtime.chunks.CHARACTERS", 400)
    texts = [" ".join(sentence.words) for sentence in models.sentences(60)]
    one, other = load(folder, engine=engine, threads=1), load(folder, engine=engine, threads=2)
    whole = one.pipe(texts)
    parts = list(chunk_texts(texts, len))
    assert len(parts) > 3
    for part in parts:
        assert list(other.pipe(part)) == list(islice(whole, len(part)))
