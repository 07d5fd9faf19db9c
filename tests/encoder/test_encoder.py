"""The encoder as a whole, from scratch: features, prompts and BiLSTM, compared with single sentences."""

import json
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fencepost.data.entity import Sentence
from fencepost.encoder.arrays import NAMED, PAD, UNKNOWN
from fencepost.encoder.encoder import Encoder, Words
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import DataError, UsageError
from tests import strategies
from tests.encoder.tiny import same, sentences, words_of

TRAINING = [
    Sentence(["Ada", "Lovelace", "met", "the", "President"], pos=["NNP", "NNP", "VBD", "DT", "NN"]),
    Sentence(["the", "London", "of", "Ada"], pos=["DT", "NNP", "IN", "NNP"]),
    Sentence(["北", "京", "的"]),
]
SMALL = {"word_size": 6, "character_size": 4, "character_output": 6}


def build(prompts=0, training=TRAINING, scratch=(), **changes) -> Encoder:
    chosen = {"name": "scratch", "lstm": {"size": 0}, **changes, "scratch": SMALL | dict(scratch)}
    return Encoder.build(EncoderSettings(**chosen), training, prompts).eval()


@torch.inference_mode()
def encoded(encoder: Encoder, of: list[Sentence]) -> Words:
    words = encoder(encoder.collate(of))
    assert words.vectors.shape == (len(of), max(map(len, of)), encoder.width)
    return words


@pytest.fixture
def glove(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("the 1 2\nada 3 4\nLondon 5 6\nToronto 7 8\nZürich 9 10\n", encoding="utf-8")
    return path


def test_scratch_concatenates_word_and_characters():
    encoder = build()
    embedder = encoder.embedder
    of = [TRAINING[0], Sentence(["unheard", "Ada"])]
    vectors = encoded(encoder, of).vectors
    numbers = encoder.collate(of)["words"]
    assert numbers[1].tolist()[:2] == [UNKNOWN, NAMED + encoder.known["words"].index("Ada")]
    assert numbers[1].tolist()[2:] == [PAD] * 3
    assert same(vectors[..., :6], embedder.words.weight[numbers])
    assert same(vectors[..., 6:], embedder.characters(encoder.collate(of)))


@pytest.mark.parametrize(
    ("scratch", "width"),
    [
        ({}, 12),
        ({"characters": "lstm"}, 12),
        ({"characters": "none"}, 6),
        ({"word_size": 0}, 6),
        ({"word_size": 0, "characters": "lstm", "character_output": 8}, 8),
    ],
)
def test_scratch_works_with_words_or_characters_or_both(scratch, width):
    encoder = build(scratch=scratch)
    assert encoder.width == encoder.embedder.prompt_width == width
    assert encoded(encoder, TRAINING).vectors.isfinite().all()


def test_refuses_scratch_without_words_and_characters():
    with pytest.raises(UsageError, match=r"encoder\.scratch: .*enable one of them"):
        build(scratch={"word_size": 0, "characters": "none"})


def test_scratch_without_training_data_knows_no_words():
    encoder = build(training=[])
    vectors = encoded(encoder, TRAINING).vectors
    assert torch.equal(vectors[0, 0, :6], vectors[1, 1, :6])


def test_rare_words_are_unknown():
    encoder = build(scratch={"min_count": 2})
    assert encoder.known["words"] == ["Ada", "the"]


def test_word_dropout_is_only_used_in_training():
    encoder = build(scratch={"word_dropout": 0.5, "characters": "none"})
    of = [Sentence(["Ada", "the"] * 200), Sentence(["London"])]
    batch = encoder.collate(of)
    unknown = encoder.embedder.words.weight[UNKNOWN]
    with torch.no_grad():
        for training in (True, False):
            encoder.train(training)
            vectors = encoder(batch).vectors
            forgotten = (vectors == unknown).all(dim=2)
            assert not vectors[1, 1:].any()  # padding is never treated as a word
            assert (100 < forgotten[0].sum() < 300) == training
            assert training or not forgotten.any()
    assert batch["words"].ne(UNKNOWN).all()  # the batch is not changed


def test_word_dropout_of_0_keeps_all_words():
    encoder = build(scratch={"word_dropout": 0.0, "characters": "none"})
    with torch.no_grad():
        expected = encoder(encoder.collate(TRAINING)).vectors
        assert torch.equal(encoder.train()(encoder.collate(TRAINING)).vectors, expected)


odd_batches = st.lists(
    st.lists(strategies.odd_words, min_size=1, max_size=6).map(Sentence), min_size=1, max_size=4
)
torch.manual_seed(0)
EVERYTHING = {
    (characters, size, prompts): build(
        prompts,
        scratch={"characters": characters},
        lstm={"size": size, "layers": 2},
        features={"characters": 4, "pos": 3},
    )
    for characters, size, prompts in product(["cnn", "lstm"], [0, 8], [0, 2])
}


@pytest.mark.parametrize("kind", EVERYTHING, ids=str)
@settings(max_examples=25)
@given(of=odd_batches)
def test_vectors_do_not_depend_on_the_batch(kind, of):
    encoder = EVERYTHING[kind]
    together = encoded(encoder, of)
    for index, sentence in enumerate(of):
        alone = encoded(encoder, [sentence])
        assert same(together.vectors[index, : len(sentence)], alone.vectors[0])
        assert together.prompts is None or same(together.prompts[index], alone.prompts[0])


@torch.inference_mode()
def by_one_lstm(lstm: nn.LSTM, *parts: torch.Tensor) -> torch.Tensor:
    return lstm(torch.cat(parts)[None])[0][0]


@pytest.mark.parametrize("layers", [1, 2])
def test_lstm_reads_each_sentence_without_padding(layers):
    encoder = build(lstm={"size": 8, "layers": layers})
    assert encoder.width == 8
    of = sentences(3, 1, 7, 2)
    result = encoded(encoder, of)
    without, _ = encoder.embedder(encoder.collate(of))
    for index, sentence in enumerate(of):
        expected = by_one_lstm(encoder.lstm.lstm, without[index, : len(sentence)])
        assert same(result.vectors[index, : len(sentence)], expected)
        assert not result.vectors[index, len(sentence) :].any()


def test_vectors_without_lstm_are_those_of_the_embedder():
    encoder = build()
    assert encoder.lstm is None
    without, _ = encoder.embedder(encoder.collate(TRAINING))
    assert torch.equal(encoded(encoder, TRAINING).vectors, without)


def test_lstm_dropout_is_only_used_in_training():
    encoder = build(lstm={"size": 8, "dropout": 0.5}, scratch={"word_dropout": 0.0})
    batch = encoder.collate(TRAINING)
    with torch.no_grad():
        assert torch.equal(encoder(batch).vectors, encoder(batch).vectors)
        encoder.train()
        assert not torch.equal(encoder(batch).vectors, encoder(batch).vectors)


def test_lstm_reads_prompts_and_words_as_one_sequence():
    encoder = build(prompts=3, lstm={"size": 8})
    of = sentences(4, 1, 6)
    result = encoded(encoder, of)
    assert result.prompts.shape == (3, 3, 8)
    without, _ = encoder.embedder(encoder.collate(of))
    for index, sentence in enumerate(of):
        expected = by_one_lstm(encoder.lstm.lstm, encoder.prompts, without[index, : len(sentence)])
        assert same(result.prompts[index], expected[:3])
        assert same(result.vectors[index, : len(sentence)], expected[3:])


def test_prompts_have_no_features():
    plain = build(prompts=3)
    assert torch.equal(encoded(plain, TRAINING).prompts, plain.prompts.expand(3, -1, -1))
    encoder = build(prompts=3, features={"pos": 5})
    result = encoded(encoder, TRAINING)
    assert result.prompts.shape == (3, 3, 12 + 5)
    assert torch.equal(result.prompts[0, :, :12], encoder.prompts)
    assert not result.prompts[..., 12:].any()


def test_lstm_reads_features_and_prompts():
    encoder = build(prompts=2, lstm={"size": 8}, features={"pos": 5})
    result = encoded(encoder, TRAINING)
    batch = encoder.collate(TRAINING)
    words, _ = encoder.embedder(batch)
    tags = encoder.features[0](batch)
    prompts = torch.cat((encoder.prompts, torch.zeros(2, 5)), dim=1)
    for index, sentence in enumerate(TRAINING):
        both = torch.cat((words[index], tags[index]), dim=1)[: len(sentence)]
        expected = by_one_lstm(encoder.lstm.lstm, prompts, both)
        assert same(result.prompts[index], expected[:2])
        assert same(result.vectors[index, : len(sentence)], expected[2:])


def test_every_weight_has_a_gradient():
    every = {"characters": 4, "pos": 5}
    encoder = build(prompts=2, lstm={"size": 8, "layers": 2}, features=every).train()
    words = encoder(encoder.collate(TRAINING))
    (words.vectors.sum() + words.prompts.sum()).backward()
    assert [name for name, one in encoder.named_parameters() if one.grad is None] == []
    assert encoder.prompts.grad.any(dim=1).all()
    assert list(encoder.pretrained_weights()) == []


def test_mask_marks_words():
    words = encoded(build(), TRAINING)
    assert words.lengths.tolist() == [5, 4, 3]
    assert words.mask.tolist() == [[True] * 5, [True] * 4 + [False], [True] * 3 + [False] * 2]


def test_size_of_scratch_is_in_words():
    assert build().inputs.sizes(TRAINING[0].words) == [1] * 5


def test_word_vectors_are_read_from_a_file(glove):
    encoder = build(features={"vectors": glove, "vectors_limit": 1})
    # the first line, and what the training data has, as it is or in lower case
    assert encoder.known["vectors"] == ["the", "ada", "London"]
    of = [Sentence(["THE", "Ada", "London", "london", "Zürich"])]
    vectors = encoded(encoder, of).vectors[0, :, 12:]
    assert vectors.tolist() == [[1, 2], [3, 4], [5, 6], [0, 0], [0, 0]]
    frozen = [name for name, one in encoder.named_parameters() if not one.requires_grad]
    assert frozen == ["features.0.embedding.weight"]


def test_word_vectors_can_be_trained(glove):
    encoder = build(features={"vectors": glove, "train_vectors": True})
    assert all(one.requires_grad for one in encoder.parameters())
    words_of(encoder(encoder.collate(TRAINING)).vectors, TRAINING)[0].sum().backward()
    assert encoder.features[0].embedding.weight.grad.any()


def test_loaded_encoder_needs_no_file_of_vectors(glove, tmp_path):
    every = {"characters": 4, "pos": 3, "vectors": glove}
    encoder = build(prompts=2, lstm={"size": 8}, features=every)
    folder = tmp_path / "saved"
    folder.mkdir()
    encoder.save(folder)
    assert [path.name for path in folder.iterdir()] == ["vocabulary.json"]
    glove.unlink()
    loaded = Encoder.read(encoder.settings, folder, prompts=2)().eval()
    loaded.load_state_dict(encoder.state_dict())
    of = [*TRAINING, Sentence(["Toronto", "", "ж", "Zürich", "unheard"])]
    expected, result = encoded(encoder, of), encoded(loaded, of)
    assert torch.equal(expected.vectors, result.vectors)
    assert torch.equal(expected.prompts, result.prompts)
    frozen = [one.requires_grad for one in encoder.parameters()]
    assert [one.requires_grad for one in loaded.parameters()] == frozen


@given(st.lists(st.lists(strategies.odd_words, max_size=4).map(Sentence), max_size=4))
def test_vocabulary_of_any_words_is_saved_and_loaded(tmp_path, training):
    encoder = build(training=[*training, Sentence(["\ud800"])])  # half a surrogate pair, too
    encoder.save(tmp_path)
    loaded = Encoder.read(encoder.settings, tmp_path)()
    assert loaded.known == encoder.known
    assert loaded.known == encoder.known


def without(kind):
    def damage(saved):
        del saved["known"][kind]
        return saved

    return damage


DAMAGE = {
    "a list": lambda saved: [],
    "no names": lambda saved: {"vector_width": 0},
    "no width": lambda saved: {"known": saved["known"]},
    "names of another kind": lambda saved: saved | {"known": ["a"]},
    "no words": without("words"),
    "no characters": without("characters"),
    "a number": lambda saved: saved | {"known": saved["known"] | {"words": 3}},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_refuses_a_damaged_vocabulary(tmp_path, damage):
    encoder = build()
    encoder.save(tmp_path)
    path = tmp_path / Encoder.VOCABULARY_FILE
    path.write_text(json.dumps(DAMAGE[damage](json.loads(path.read_text()))))
    with pytest.raises(DataError, match=r"vocabulary.json: (the vocabulary of this model|this file) "):
        Encoder.read(encoder.settings, tmp_path)()


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe"])
def test_refuses_a_vocabulary_that_is_not_json(tmp_path, content):
    if content is not None:
        (tmp_path / Encoder.VOCABULARY_FILE).write_bytes(content)
    with pytest.raises(DataError, match=r"vocabulary.json: (the vocabulary of|this file|cannot be read)"):
        Encoder.read(build().settings, tmp_path)()


def test_refuses_invalid_settings():
    for changes in (
        {"lstm": {"size": 5}},
        {"scratch": {"character_output": 3}},
        {"scratch": {"word_dropout": 1.0}},
        {"features": {"characters": 3}},
        {"window": 15},
        {"layers": 0},
        {"pooling": "sum"},
        {"poling": "mean"},
        {"name": ""},
    ):
        with pytest.raises(ValueError, match=next(iter(changes))):
            EncoderSettings(**changes)
