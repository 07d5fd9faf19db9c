"""The features of words, compared with those of each word alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import (
    LONGEST,
    NAMED,
    PAD,
    UNKNOWN,
    number_forms,
    number_letters,
    number_names,
    number_tags,
)
from fencepost.encoder.embedder import Batch, to_tensors
from fencepost.encoder.features import (
    Characters,
    NamedEmbedding,
    WordVectors,
    build_vocabulary,
    make_features,
    sort_by_frequency,
)
from fencepost.encoder.settings import EncoderSettings
from tests import strategies
from tests.encoder.tiny import same

LETTERS = list("abcdeLon北")
words = st.lists(strategies.odd_words | st.text(LETTERS, max_size=8), min_size=1, max_size=5)
batches = st.lists(words.map(Sentence), min_size=1, max_size=4)


def letters_of(word: str) -> list[int]:
    numbers = [NAMED + LETTERS.index(letter) if letter in LETTERS else UNKNOWN for letter in word[:LONGEST]]
    return numbers or [UNKNOWN]


def by_convolution(reader: nn.Conv1d, letters: torch.Tensor) -> torch.Tensor:
    """Convolve three letters at a time, with zeros around the word, and return the maximum."""
    nothing = torch.zeros(1, letters.shape[1])
    padded = torch.cat((nothing, letters, nothing))
    at_each = [
        torch.einsum("osk,ks->o", reader.weight, padded[at : at + 3]) + reader.bias
        for at in range(len(letters))
    ]
    return torch.stack(at_each).amax(dim=0).tanh()


def by_lstm(reader: nn.LSTM, letters: torch.Tensor) -> torch.Tensor:
    """Return the states of both directions after the whole word."""
    output, _ = reader(letters[None])
    half = output.shape[2] // 2
    return torch.cat((output[0, -1, :half], output[0, 0, half:]))


def spelt(sentences: list[Sentence]) -> Batch:
    return to_tensors(number_letters(sentences, number_names(LETTERS)))


torch.manual_seed(0)
READERS = {kind: Characters(kind, size=5, width=6, names=LETTERS) for kind in ("cnn", "lstm")}


@pytest.mark.parametrize(("kind", "alone"), [("cnn", by_convolution), ("lstm", by_lstm)])
@settings(max_examples=60)
@given(sentences=batches)
def test_characters_of_a_batch_equal_those_of_single_words(kind, alone, sentences):
    feature = READERS[kind]
    with torch.inference_mode():
        vectors = feature(spelt(sentences))
        assert vectors.shape == (len(sentences), max(map(len, sentences)), 6)
        for rows, sentence in zip(vectors, sentences, strict=True):
            for vector, word in zip(rows, sentence.words, strict=False):
                letters = feature.embedding(torch.tensor(letters_of(word)))
                assert same(vector, alone(feature.reader, letters))


@pytest.mark.parametrize("kind", READERS)
def test_characters_beyond_the_longest_word_are_not_read(kind):
    feature = READERS[kind]
    long = "ab" * LONGEST
    batch = spelt([Sentence([long, long[:LONGEST] + "c", long[: LONGEST - 1]])])
    assert batch["letters_of"].tolist() == [[0, 0, 1]]
    assert batch["letter_counts"].tolist() == [LONGEST, LONGEST - 1]
    assert feature(batch).isfinite().all()


@pytest.mark.parametrize("kind", READERS)
def test_unknown_letters_are_equal_and_differ_from_padding(kind):
    vectors = READERS[kind](spelt([Sentence(["ж", "π", "", "жπ", "a"])]))[0]
    assert torch.equal(vectors[0], vectors[1])
    assert torch.equal(vectors[0], vectors[2])  # a word without letters has an unknown one
    assert not torch.equal(vectors[0], vectors[3])
    assert not torch.equal(vectors[0], vectors[4])


@pytest.mark.parametrize("kind", READERS)
def test_repeated_words_are_read_once_per_batch(kind):
    batch = spelt([Sentence(["a", "b", "a"]), Sentence(["b"] * 9)])
    assert batch["letters"].tolist() == [letters_of("a"), letters_of("b")]


def test_parts_of_speech_are_embedded():
    feature = NamedEmbedding("pos", 4, ["NN", "VB"])
    of = [
        Sentence(["a", "b", "c"], pos=["VB", "NN", "XX"]),
        Sentence(["a", "b"]),
        Sentence(["a"], pos=["NN"]),
    ]
    batch = to_tensors(number_tags(of, number_names(["NN", "VB"])))
    assert batch["pos"].tolist() == [[3, 2, UNKNOWN], [UNKNOWN, UNKNOWN, PAD], [2, PAD, PAD]]
    vectors = feature(batch)
    assert vectors.shape == (3, 3, 4)
    assert torch.equal(vectors[0, 0], feature.embedding.weight[3])
    assert not vectors[1, 2].any()


def test_word_vectors_fall_back_to_lower_case_and_zeros():
    feature = WordVectors(2, ["london", "London", "the", ""], trained=False)
    feature.embedding.weight.data[NAMED:] = torch.tensor([[1.0, 1], [2, 2], [3, 3], [4, 4]])
    of = [Sentence(["London", "LONDON", "The", "Toronto", ""]), Sentence(["the"])]
    batch = to_tensors(number_forms(of, number_names(["london", "London", "the", ""])))
    vectors = feature(batch)
    assert vectors[0].tolist() == [[2, 2], [1, 1], [3, 3], [0, 0], [4, 4]]
    assert vectors[1].tolist() == [[3, 3], [0, 0], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("trained", [True, False])
def test_word_vectors_are_trained_only_if_set(trained):
    feature = WordVectors(2, ["a"], trained=trained)
    assert feature.embedding.weight.requires_grad is trained


def test_names_are_sorted_by_frequency_and_spelling():
    assert sort_by_frequency("banana") == ["a", "n", "b"]
    assert sort_by_frequency("nab") == ["a", "b", "n"]
    assert sort_by_frequency("banana", min_count=2) == ["a", "n"]
    assert sort_by_frequency("") == []


@given(st.lists(strategies.odd_words, max_size=20), st.randoms())
def test_order_of_the_training_data_has_no_effect(names, random):
    shuffled = list(names)
    random.shuffle(shuffled)
    order = sort_by_frequency(names)
    assert sort_by_frequency(shuffled) == order
    assert sorted(order) == sorted(set(names))
    assert [names.count(name) for name in order] == sorted(map(names.count, set(names)), reverse=True)


SENTENCES = [Sentence(["b", "ab"], pos=["NN", "VB"]), Sentence(["b", "c"], pos=["NN", "NN"]), Sentence(["c"])]


@pytest.mark.parametrize(
    ("changes", "known"),
    [
        ({}, {}),
        ({"features": {"characters": 4}}, {"characters": ["b", "c", "a"]}),
        ({"features": {"pos": 4}}, {"pos": ["NN", "VB"]}),
        ({"name": "scratch"}, {"words": ["b", "c", "ab"], "characters": ["b", "c", "a"]}),
        ({"name": "scratch", "scratch": {"min_count": 2, "characters": "none"}}, {"words": ["b", "c"]}),
        ({"name": "scratch", "scratch": {"word_size": 0}}, {"characters": ["b", "c", "a"]}),
    ],
)
def test_vocabulary_has_only_what_the_settings_use(changes, known):
    assert build_vocabulary(EncoderSettings(**changes), SENTENCES) == known


def test_features_are_off_by_default(tmp_path):
    assert make_features(EncoderSettings(), {}, 0) == []
    every = {"characters": 6, "pos": 3, "vectors": tmp_path / "no such file"}
    known = {"characters": ["a"], "pos": ["NN"], "vectors": ["a", "b"]}
    features = make_features(EncoderSettings(features=every), known, vector_width=7)
    assert [type(one) for one in features] == [Characters, NamedEmbedding, WordVectors]
    assert [one.width for one in features] == [6, 3, 7]
