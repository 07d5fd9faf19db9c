"""Word vectors from text files of GloVe and word2vec, with all their oddities, and in little memory."""

import gzip
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.encoder.vectors import read_vectors
from fencepost.errors import DataError

GLOVE = "the 0.5 -1 2e-1\n. 1 2 3\nthe dog 4 5 6\n北京 7 8 9\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "vectors.txt"


def read(path, text=None, limit=1000, needed=()):
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    words, vectors = read_vectors(path, limit, needed)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == len(words)
    return words, vectors.tolist()


def test_reads_glove_with_spaces_in_words(path):
    words, vectors = read(path, GLOVE)
    assert words == ["the", ".", "the dog", "北京"]
    assert np.allclose(vectors, [[0.5, -1, 0.2], [1, 2, 3], [4, 5, 6], [7, 8, 9]])


@pytest.mark.parametrize("end", ["\n", " \n", "\r\n", " \r\n"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("header", ["", "4 3"])
def test_line_ends_and_a_header_have_no_effect(path, end, last, header):
    lines = ([header] if header else []) + GLOVE.splitlines()
    text = end.join(lines) + (end if last else "")
    assert read(path, text) == read(path, GLOVE)


def test_first_word_after_a_header_may_have_spaces(path):
    assert read(path, "1 2\nNew York 1 2\n") == (["New York"], [[1, 2]])


def test_first_word_that_is_a_number_is_not_a_header(path):
    assert read(path, "1 2 3\n4 5 6\n") == (["1", "4"], [[2, 3], [5, 6]])


def test_only_a_line_feed_ends_a_line(path):
    words, _ = read(path, "a\x85b 1 2\nc\u2028d 3 4\n\x0c 5 6\n\xa0 7 8\n")
    assert words == ["a\x85b", "c\u2028d", "\x0c", "\xa0"]


def test_first_vector_of_a_repeated_word_is_used(path):
    assert read(path, "a 1\nb 2\na 3\n") == (["a", "b"], [[1], [2]])


def test_reads_the_first_lines_and_needed_words(path):
    text = "".join(f"w{number} {number} 0\n" for number in range(20))
    assert read(path, text, limit=2)[0] == ["w0", "w1"]
    assert read(path, text, limit=2, needed={"w1", "w7", "w19", "x"})[0] == ["w0", "w1", "w7", "w19"]
    assert read(path, text, limit=0, needed={"w5"}) == (["w5"], [[5, 0]])
    assert read(path, f"20 2\n{text}", limit=2)[0] == ["w0", "w1"]


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), min_size=1).filter(
            lambda word: word.strip(" \r") == word
        ),
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        min_size=1,
        max_size=6,
    ).filter(lambda rows: " " not in next(iter(rows)))
)
def test_reads_written_vectors(tmp_path, rows):
    path = tmp_path / "vectors.txt"
    lines = [" ".join([word, *map(repr, values)]) + "\n" for word, values in rows.items()]
    words, vectors = read(path, "".join(lines))
    assert words == list(rows)
    assert vectors == list(rows.values())


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a 1 2\nb 1\n", 2, "1 numbers after the word, but 2 are needed"),
        ("a 1 2\n\nb 1 2\n", 2, "0 numbers after the word, but 2 are needed"),
        ("a 1 2\nb\n", 2, "0 numbers after the word, but 2 are needed"),
        ("a\nb 1\n", 1, "0 numbers after the word, but 1 are needed"),
        ("\n", 1, "0 numbers"),
        ("2 3\na 1 2\n", 2, "2 numbers after the word, but 3 are needed"),
        ("a\t1\t2\n", 1, "0 numbers"),
        ("a 1 2\nb 1 x\n", 2, "the vector of 'b' does not consist of numbers"),
        ("a 1 2\nb 1  2\n", 2, "does not consist of numbers"),
        ("a 1 nan\n", 1, "the vector of 'a' is not finite"),
        ("a 1 2\nb inf 2\n", 2, "the vector of 'b' is not finite"),
        ("a 1 1e39\n", 1, "not finite"),  # beyond 32 bits
        ("a 1 1e999\n", 1, "not finite"),
        ("² ³\nb 1\n", 1, "does not consist of numbers"),
        ("New York 1 2\nb 1 2\n", 1, "does not consist of numbers"),
    ],
)
def test_names_an_invalid_line(path, text, line, message):
    with pytest.raises(DataError, match=message) as caught:
        read(path, text)
    assert caught.value.place == f"{path}:{line}"


def test_ignores_invalid_values_of_skipped_lines(path):
    assert read(path, "a 1 2\nb 1 x\n", limit=1)[0] == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no word vectors"),
        (b"400000 100\n", "no word vectors"),
        (b"a 1 2\n\xff\xfe 1 2\n", "text file in UTF-8"),
        (gzip.compress(b"a 1 2\n" * 50, mtime=0), "text file in UTF-8"),
    ],
)
def test_refuses_a_file_without_vectors(path, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read(path, text)
    assert caught.value.source == str(path)


def test_refuses_a_missing_file(path, tmp_path):
    with pytest.raises(DataError, match=r"vectors.txt: word vectors cannot be read: No such file"):
        read(path)
    with pytest.raises(DataError, match="word vectors cannot be read"):
        read(tmp_path)


def test_large_file_needs_memory_only_for_kept_vectors(path):
    line = " ".join(["0.123456789"] * 50)
    path.write_text("".join(f"w{number} {line}\n" for number in range(6000)))
    assert path.stat().st_size > 3_000_000
    tracemalloc.start()
    try:
        words, _ = read(path, limit=5, needed={"w5999"})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert words == ["w0", "w1", "w2", "w3", "w4", "w5999"]
    assert peak < 500_000
