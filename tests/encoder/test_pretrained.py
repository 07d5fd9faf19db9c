"""minilm as encoder, compared with a simple use of `transformers`: one sentence and word at a time."""

from dataclasses import replace

import pytest
import torch

from fencepost.data.entity import Sentence
from fencepost.encoder.embedder import to_tensors
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.inputs import InputReader
from fencepost.encoder.pretrained import Pretrained
from fencepost.encoder.settings import EncoderSettings
from fencepost.encoder.windows import group_blocks, join_blocks
from fencepost.errors import DataError, UsageError
from tests.encoder.tiny import cycled, same, sentences, words_of

MIXED = [
    Sentence(["The", "University", "of", "Toronto", "'s", "president", "met", "Ada", "Lovelace", "."]),
    Sentence(["5-lipoxygenase", "and", "NF-kappa", "B"]),
    Sentence(["北京", "São", "Paulo", "😀", "naïve"]),
    Sentence(["London"]),
    Sentence(["met", "\u200b", "", "London"]),  # two words without sub-words
    Sentence(cycled(60)),
    Sentence(cycled(130)),
]
POOLING = {
    "mean": lambda pieces: pieces.mean(dim=0),
    "max": lambda pieces: pieces.amax(dim=0),
    "first": lambda pieces: pieces[0],
}


def settings(**changes) -> EncoderSettings:
    return EncoderSettings(**{"lstm": {"size": 0}, **changes})


def with_settings(minilm: Pretrained, prompts: int = 0, **changes) -> Pretrained:
    """Return an encoder with the same weights and other settings."""
    return Pretrained(settings(**changes), minilm.transformer, minilm.subwords, prompts).eval()


def inputs_of(embedder: Pretrained) -> InputReader:
    return InputReader(embedder.settings, {}, embedder.subwords, embedder.room)


@torch.inference_mode()
def encoded(embedder: Pretrained, of: list[Sentence], prompts=None):
    words, of_prompts = embedder(to_tensors(inputs_of(embedder)(of)), prompts)
    assert words.shape == (len(of), max(map(len, of)), embedder.width)
    for vectors, sentence in zip(words, of, strict=True):
        assert not vectors[len(sentence) :].any()
    return words_of(words, of), of_prompts


@torch.inference_mode()
def slowly(bert, tokenizer, words, pooling="mean", layers=1, prompts=None):
    """Return vectors of words and prompts, computed as the documentation of `transformers` suggests."""
    known = [word if tokenizer.tokenize(word) else tokenizer.unk_token for word in words]
    encoding = tokenizer(known, is_split_into_words=True, return_tensors="pt")
    inputs = bert.get_input_embeddings()(encoding["input_ids"])
    extra = 0 if prompts is None else len(prompts)
    if extra:
        inputs = torch.cat((prompts[None], inputs), dim=1)
    states = bert(inputs_embeds=inputs, output_hidden_states=True).hidden_states
    vectors = sum(state[0] for state in states[len(states) - layers :]) / layers
    owners = [None] * extra + encoding.word_ids()
    of_words = [
        POOLING[pooling](vectors[[at for at, owner in enumerate(owners) if owner == word]])
        for word in range(len(words))
    ]
    return torch.stack(of_words), vectors[:extra]


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("pooling", POOLING)
def test_word_vectors_equal_those_of_transformers(minilm, bert, bert_tokenizer, pooling, layers):
    batch, none = encoded(with_settings(minilm, pooling=pooling, layers=layers), MIXED)
    assert none is None
    for vectors, sentence in zip(batch, MIXED, strict=True):
        assert same(vectors, slowly(bert, bert_tokenizer, sentence.words, pooling, layers)[0])


@pytest.mark.parametrize("prompts", [0, 3])
@pytest.mark.parametrize("pooling", POOLING)
def test_sentences_of_a_block_have_the_vectors_of_the_whole_block(
    minilm, bert, bert_tokenizer, pooling, prompts
):
    embedder = with_settings(minilm, prompts, block=100, pooling=pooling)
    vectors_of_prompts = torch.randn(prompts, embedder.width) if prompts else None
    documents = [replace(one, doc="1" if number < 3 else "2") for number, one in enumerate(MIXED)]
    parts = (part for one in documents for part in inputs_of(embedder).split(one))
    of = [part.sentence for part in join_blocks(parts, 100)]
    blocks = [[of[index] for index in block] for block in group_blocks(of)]
    assert [len(block) for block in blocks] == [3, 3, 1]
    expected = []
    for block in blocks:
        vectors, of_prompts = slowly(
            bert, bert_tokenizer, [w for one in block for w in one.words], pooling, prompts=vectors_of_prompts
        )
        expected += [(own, of_prompts) for own in vectors.split([len(one) for one in block])]
    order = torch.randperm(len(of)).tolist()
    vectors, of_prompts = encoded(embedder, [of[index] for index in order], vectors_of_prompts)
    for number, index in enumerate(order):
        assert same(vectors[number], expected[index][0])
        if prompts:
            assert same(of_prompts[number], expected[index][1])


def test_vectors_do_not_depend_on_the_batch(minilm):
    """The other sentences of the batch have one word, or are short or long."""
    of = [*MIXED, *sentences(1, 2, 17, 40), Sentence(cycled(300))]
    alone = [encoded(minilm, [sentence])[0][0] for sentence in of]
    for size in (2, 3, 5, len(of)):
        order = torch.randperm(len(of))[:size].tolist()
        batch, _ = encoded(minilm, [of[index] for index in order])
        for vectors, index in zip(batch, order, strict=True):
            assert same(vectors, alone[index])


@pytest.mark.parametrize(("length", "window"), [(600, None), (70, 24), (70, 25), (15, 16)])
def test_long_sentences_are_split_into_windows(minilm, bert, bert_tokenizer, length, window):
    """Each word belongs to the window that has the most context around it."""
    embedder = with_settings(minilm, window=window)
    assert embedder.room == (window or 512) - 2
    words = cycled(length)
    sizes = [len(bert_tokenizer.tokenize(word)) for word in words]
    assert sum(sizes) > embedder.room
    parts = inputs_of(embedder).split(Sentence(words))
    assert len(parts) > 1
    assert [word for part in parts for word in range(part.own_start, part.own_end)] == list(range(length))
    windows = [range(part.start, part.start + len(part.sentence)) for part in parts]
    for part in parts:
        assert part.size == sum(inputs_of(embedder).sizes(part.sentence.words)) <= embedder.room
        assert same(
            encoded(embedder, [part.sentence])[0][0], slowly(bert, bert_tokenizer, part.sentence.words)[0]
        )
        for word in range(part.own_start, part.own_end):
            around = [
                min(sum(sizes[of.start : word]), sum(sizes[word + 1 : of.stop]))
                for of in windows
                if word in of
            ]
            start, end = part.start, part.start + len(part.sentence)
            own = min(sum(sizes[start:word]), sum(sizes[word + 1 : end]))
            assert own >= max(around) - max(sizes)  # the border is between words


def test_sentence_that_just_fits_is_one_window(minilm):
    inputs = inputs_of(minilm)
    for words, parts in ((["a"] * 510, 1), (["a"] * 511, 5)):
        assert len(inputs.split(Sentence(words))) == parts
    assert inputs([Sentence(["a"] * 510)])["piece_counts"].tolist() == [512]
    assert len(encoded(minilm, [Sentence(["a"] * 510)])[0][0]) == 510


def test_word_longer_than_the_window_is_truncated(minilm):
    embedder = with_settings(minilm, window=16)
    inputs = inputs_of(embedder)
    for part in inputs.split(Sentence(["met", "x," * 40, "1." * 40, "London"])):
        (vectors,), _ = encoded(embedder, [part.sentence])
        assert vectors.any(dim=1).all()
    assert inputs([Sentence(["x," * 40])])["piece_counts"].tolist() == [16]


def test_splits_5000_words_into_windows(minilm):
    inputs = inputs_of(minilm)
    parts = inputs.split(Sentence(cycled(5000)))
    assert max(inputs([part.sentence for part in parts])["piece_counts"]) <= 512
    assert [word for part in parts for word in range(part.own_start, part.own_end)] == list(range(5000))


def test_size_is_in_subwords(minilm, bert_tokenizer):
    for sentence in MIXED[:4]:
        size = sum(inputs_of(minilm).sizes(sentence.words))
        assert size == len(bert_tokenizer.tokenize(" ".join(sentence.words)))


def test_prompts_are_read_before_the_sentence(minilm, bert, bert_tokenizer):
    prompts = torch.randn(3, 384) / 10
    embedder = with_settings(minilm, prompts=3)
    assert embedder.room == 507
    batch, of_prompts = encoded(embedder, MIXED, prompts)
    assert of_prompts.shape == (len(MIXED), 3, 384)
    without, _ = encoded(minilm, MIXED)
    for index, sentence in enumerate(MIXED):
        words, its_prompts = slowly(bert, bert_tokenizer, sentence.words, prompts=prompts)
        assert same(batch[index], words)
        assert same(of_prompts[index], its_prompts)
        assert not same(batch[index], without[index], atol=1e-3)


def test_prompts_reduce_the_room_for_words(minilm):
    embedder = with_settings(minilm, prompts=20)
    of = [Sentence(["a"] * 490), Sentence(["b"])]
    assert inputs_of(embedder)(of)["piece_counts"].tolist() == [512 - 20, 3]
    assert len(inputs_of(embedder).split(Sentence(["a"] * 491))) > 1
    batch, of_prompts = encoded(embedder, of, torch.randn(20, 384))
    assert of_prompts.shape == (2, 20, 384)
    assert all(vectors.any(dim=1).all() for vectors in batch)


def test_prompts_are_initialised_with_names_or_at_random(minilm_folder, bert, bert_tokenizer):
    names = ["cell line", "5-lipoxygenase", ""]
    encoder = Encoder.build(settings(), [], prompts=4, prompt_names=names)
    table = bert.get_input_embeddings().weight
    for prompt, name in zip(encoder.prompts[:2], names, strict=False):
        ids = bert_tokenizer(name, add_special_tokens=False)["input_ids"]
        assert len(ids) > 1
        assert same(prompt, table[ids].mean(dim=0))
    assert (encoder.prompts[2:].std(dim=1) > 0.8).all()  # no name: standard normal
    assert encoder.prompts.requires_grad


def test_prompts_and_transformer_have_gradients(minilm_folder):
    encoder = Encoder.build(settings(window=64), [], prompts=4)
    words = encoder(encoder.collate(sentences(30, 2)))
    words.vectors[0, -1].sum().backward()
    assert encoder.prompts.grad.any(dim=1).all()
    missing = [name for name, one in encoder.named_parameters() if one.grad is None]
    assert missing == []


def test_context_changes_vectors_but_has_none(minilm, bert, bert_tokenizer):
    left, words, right = ["She", "was", "born", "in"], ["Toronto", "'s"], ["suburbs", ",", "long", "ago"]
    of = [Sentence(words, left=left, right=right), Sentence(words), Sentence(words, right=right)]
    batch, _ = encoded(with_settings(minilm, context=1), of)
    for vectors, sentence in zip(batch, of, strict=True):
        everything = [*sentence.left, *words, *sentence.right]
        slow, _ = slowly(bert, bert_tokenizer, everything)
        assert same(vectors, slow[len(sentence.left) :][: len(words)])
    assert not same(batch[0], batch[1], atol=1e-3)
    assert not same(batch[0], batch[2], atol=1e-3)


def test_context_is_ignored_by_default(minilm):
    of = [Sentence(["Toronto"], left=["in"], right=["suburbs"]), Sentence(["Toronto"])]
    (one, other), _ = encoded(minilm, of)
    assert same(one, other)


@pytest.mark.parametrize("length", [1, 13, 14])
def test_context_uses_only_the_remaining_room(minilm, bert, bert_tokenizer, length):
    embedder = with_settings(minilm, context=2, window=16)
    sentence = Sentence(["a"] * length, left=["b"] * 1000 + ["c"], right=["d"] + ["e"] * 1000)
    assert inputs_of(embedder)([sentence])["piece_counts"].max() <= 16
    (vectors,), _ = encoded(embedder, [sentence])
    assert vectors.any(dim=1).all()
    room = 14 - length
    context = [*sentence.left[1001 - room // 2 :], *sentence.words, *sentence.right[: room - room // 2]]
    slow, _ = slowly(bert, bert_tokenizer, context)
    assert same(vectors, slow[room // 2 :][:length])


def with_gradient(encoder: Encoder) -> set[str]:
    encoder(encoder.collate(sentences(3))).vectors.sum().backward()
    return {name for name, one in encoder.named_parameters() if one.grad is not None and one.grad.any()}


@pytest.mark.parametrize(("layers", "embeddings"), [(0, False), (2, False), (0, True), (6, True), (3, True)])
def test_only_frozen_weights_have_no_gradient(layers, embeddings):
    encoder = Encoder.build(
        settings(frozen_layers=layers, freeze_embeddings=embeddings, lstm={"size": 4}), []
    )
    # all other weights have a gradient; that of the bias of a key is zero in theory
    everything = {name for name, _ in encoder.named_parameters() if "key.bias" not in name}
    frozen = tuple(f"embedder.transformer.encoder.layer.{layer}." for layer in range(layers))
    if embeddings:
        frozen += ("embedder.transformer.embeddings.",)
    expected = {name for name in everything if not name.startswith(frozen)}
    names = with_gradient(encoder)
    assert {name for name in names if "key.bias" not in name} == expected
    assert not any(name.startswith(frozen) for name in names)


def test_pretrained_weights_are_those_of_the_transformer():
    encoder = Encoder.build(settings(lstm={"size": 4}, features={"pos": 3}), sentences(2), prompts=2)
    lower = {id(one) for one in encoder.pretrained_weights()}
    for name, one in encoder.named_parameters():
        assert (id(one) in lower) == name.startswith("embedder.transformer.")


def test_pooler_is_removed(minilm):
    assert not any("pooler" in name for name, _ in minilm.named_parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window": 513}, "encoder.window is 513, but minilm reads at most 512 sub-words"),
        ({"layers": 7}, "encoder.layers is 7, but minilm has 6 layers"),
        ({"frozen_layers": 7}, "encoder.frozen_layers is 7, but there are 6 layers"),
    ],
)
def test_refuses_settings_beyond_the_encoder(minilm, changes, message):
    with pytest.raises(UsageError, match=message):
        with_settings(minilm, **changes)


def test_refuses_prompts_that_leave_no_room(minilm):
    assert with_settings(minilm, prompts=13, window=16).room == 1
    with pytest.raises(
        UsageError, match="reads 16 sub-words at once, but special tokens and prompts take 16"
    ):
        with_settings(minilm, prompts=14, window=16)
    with pytest.raises(UsageError, match=r"increase encoder\.window"):
        with_settings(minilm, prompts=510)


def test_loaded_encoder_gives_the_same_vectors(tmp_path):
    changes = {"window": 256, "layers": 2, "lstm": {"size": 8}, "features": {"characters": 6, "pos": 3}}
    encoder = Encoder.build(settings(**changes), MIXED, prompts=2).eval()
    encoder.save(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "encoder.json",
        "special_tokens.json",
        "tokenizer.json",
        "vocabulary.json",
    }
    torch.manual_seed(1)
    loaded = Encoder.read(encoder.settings, tmp_path, prompts=2)().eval()
    loaded.load_state_dict(encoder.state_dict())
    batch, again = encoder.collate(MIXED), loaded.collate(MIXED)
    assert batch.keys() == again.keys()
    assert all(torch.equal(batch[name], again[name]) for name in batch)
    with torch.inference_mode():
        expected, result = encoder(batch), loaded(again)
    assert torch.equal(expected.vectors, result.vectors)
    assert torch.equal(expected.prompts, result.prompts)


@pytest.mark.parametrize(
    "config",
    [
        "",
        "[]",
        "{}",
        '{"model_type": "no-such-type"}',
        '{"model_type": "bert", "hidden_size": "wide"}',
        '{"model_type": "bert", "hidden_size": 7, "num_attention_heads": 2}',
    ],
)
def test_refuses_a_damaged_saved_encoder(minilm, tmp_path, config):
    minilm.save(tmp_path)
    (tmp_path / Pretrained.CONFIG_FILE).write_text(config)
    with pytest.raises(
        DataError, match=r"encoder.json: (the encoder's config cannot be read|this file )"
    ) as caught:
        Pretrained.read(minilm.settings, tmp_path, prompts=0)()
    assert "\n" not in str(caught.value)
