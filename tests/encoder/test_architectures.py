"""Tiny random transformers other than BERT, each with its own limit, layers and embeddings."""

from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import PreTrainedTokenizerFast

from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.pretrained import Pretrained
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError
from tests.encoder import tiny

KINDS = tuple(tiny.CONFIGS)
ROOM = dict.fromkeys(KINDS, 38) | {"roberta": 40 - 1 - 1 - 2, "modernbert": 510, "t5": 510}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, tuple[Path, torch.nn.Module]]:
    encoders = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        encoders[kind] = folder, tiny.save_encoder(kind, folder)
    return encoders


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


def build(folder: Path, prompts: int = 0, **changes) -> Encoder:
    settings = EncoderSettings(**{"name": str(folder), "lstm": {"size": 0}, **changes})
    return Encoder.build(settings, [], prompts).eval()


@torch.inference_mode()
def encoded(encoder: Encoder, of: list[Sentence]):
    words = encoder(encoder.collate(of))
    return tiny.words_of(words.vectors, of), words.prompts


@torch.inference_mode()
def slowly(transformer, words, prompts=None):
    """Return the mean over the sub-words of each word from `transformers`; every word follows a space."""
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tiny.byte_level(add_prefix_space=True), **tiny.SPECIAL
    )
    encoding = tokenizer(words, is_split_into_words=True, return_tensors="pt")
    inputs = {"input_ids": encoding["input_ids"]}
    extra = 0
    if prompts is not None:
        extra = len(prompts)
        embedded = transformer.get_input_embeddings()(encoding["input_ids"])
        inputs = {"inputs_embeds": torch.cat((prompts[None], embedded), dim=1)}
    mask = torch.ones(1, extra + encoding["input_ids"].shape[1], dtype=torch.long)
    vectors = transformer(**inputs, attention_mask=mask).last_hidden_state[0]
    owners = [None] * extra + encoding.word_ids()
    return torch.stack(
        [
            vectors[[at for at, owner in enumerate(owners) if owner == word]].mean(dim=0)
            for word in range(len(words))
        ]
    ), vectors[:extra]


@pytest.mark.parametrize("prompts", [0, 3])
def test_word_vectors_equal_those_of_transformers(folders, kind, prompts):
    folder, transformer = folders[kind]
    encoder = build(folder, prompts)
    assert encoder.embedder.room == ROOM[kind] - prompts
    of = tiny.sentences(1, 3, 7, 2)
    vectors, of_prompts = encoded(encoder, of)
    for index, sentence in enumerate(of):
        words, its_prompts = slowly(transformer, sentence.words, encoder.prompts)
        assert tiny.same(vectors[index], words)
        assert prompts == 0 or tiny.same(of_prompts[index], its_prompts)


@pytest.mark.parametrize("prompts", [0, 3])
def test_windows_of_long_sentences_do_not_depend_on_the_batch(folders, kind, prompts):
    encoder = build(folders[kind][0], prompts, pooling="max", layers=2)
    parts = encoder.inputs.split(Sentence(tiny.cycled(300)))
    assert len(parts) > 1 or encoder.inputs.room >= 300
    of = [*tiny.sentences(2, 10, 1, 8), *(part.sentence for part in parts)]
    batch, _ = encoded(encoder, of)
    for vectors, sentence in zip(batch, of, strict=True):
        (alone,), _ = encoded(encoder, [sentence])
        assert tiny.same(vectors, alone)
        assert vectors.isfinite().all()
        assert vectors.any(dim=1).all()


@pytest.mark.parametrize("prompts", [0, 2])
def test_loaded_encoder_gives_the_same_vectors(folders, kind, prompts, tmp_path):
    encoder = build(folders[kind][0], prompts)
    encoder.save(tmp_path)
    assert str(folders[kind][0]) not in (tmp_path / "encoder.json").read_text()  # the path is not saved
    loaded = Encoder.read(encoder.settings, tmp_path, prompts)().eval()
    loaded.load_state_dict(encoder.state_dict())
    of = tiny.sentences(4, 9)
    for one, other in zip(encoded(encoder, of)[0], encoded(loaded, of)[0], strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "albert"])
def test_frozen_weights_have_no_gradient(folders, kind):
    encoder = build(folders[kind][0], frozen_layers=1, freeze_embeddings=True, prompts=2)
    encoder(encoder.collate(tiny.sentences(5, 3))).vectors.square().sum().backward()
    assert encoder.prompts.grad.any()
    learning = [name for name, one in encoder.embedder.named_parameters() if one.grad is not None]
    layers = {next((part for part in name.split(".") if part.isdigit()), None) for name in learning}
    assert layers - {None} == {"1"}
    assert not any("word_embeddings" in name or "embed_tokens" in name for name in learning)


def test_refuses_to_freeze_shared_layers(folders):
    with pytest.raises(UsageError, match=r"frozen_layers: cannot find the layers of .*; leave out"):
        build(folders["albert"][0], frozen_layers=1)


def test_every_weight_has_a_gradient(folders, kind):
    """The transformer has no unused parts."""
    encoder = build(folders[kind][0])
    encoder(encoder.collate(tiny.sentences(5, 3))).vectors.square().sum().backward()
    without = [name for name, one in encoder.named_parameters() if one.grad is None]
    assert without == []


def test_window_can_be_set_up_to_the_limit(folders):
    folder, _ = folders["modernbert"]
    assert build(folder, window=1000).embedder.room == 998
    with pytest.raises(UsageError, match=r"encoder.window is 1001, but .* reads at most 1000 sub-words"):
        build(folder, window=1001)


def test_relative_positions_have_no_limit(folders):
    encoder = build(folders["t5"][0], window=2000)
    assert encoder.embedder.room == 1998
    of = [Sentence(tiny.cycled(400))]
    assert len(encoder.inputs.split(of[0])) == 1
    assert encoded(encoder, of)[0][0].any(dim=1).all()


def test_limit_of_roberta_excludes_positions_of_padding(folders):
    """The table of positions has no row for one more sub-word."""
    folder, transformer = folders["roberta"]
    encoder = build(folder)
    word = next(word for word in tiny.WORDS if len(encoder.embedder.subwords([word])[0]) == 1)
    of = [Sentence([word] * encoder.embedder.room)]
    lengths = encoder.collate(of)["piece_counts"].tolist()
    assert lengths == [transformer.config.max_position_embeddings - transformer.config.pad_token_id - 1]
    assert encoded(encoder, of)[0][0].any(dim=1).all()
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        transformer(input_ids=torch.full((1, lengths[0] + 1), 9))


def test_words_without_subwords_keep_their_place(tmp_path):
    tiny.save_encoder("roberta", tmp_path, tiny.wordpiece())
    encoder = build(tmp_path)
    (plain,), _ = encoded(encoder, [Sentence(["met", tiny.UNKNOWN, "London"])])
    (odd,), _ = encoded(encoder, [Sentence(["met", "\u200b", "London"])])
    assert torch.equal(plain, odd)


@pytest.mark.parametrize("tokenizer", [tiny.unigram, tiny.wordpiece])
def test_finds_special_tokens_of_any_tokenizer(tmp_path, tokenizer):
    tiny.save_encoder("distilbert", tmp_path, tokenizer())
    subwords = Pretrained.fetch(EncoderSettings(name=str(tmp_path)), prompts=0).subwords
    assert (subwords.first, subwords.last, subwords.pad, subwords.unknown) == ((0,), (2,), 1, 3)


def test_works_without_special_tokens(tmp_path):
    transformer = tiny.save_encoder("distilbert", tmp_path)
    tokenizer = tiny.byte_level(add_prefix_space=False)
    tokenizer.post_processor = None
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    encoder = build(tmp_path)
    subwords = encoder.embedder.subwords
    assert (subwords.first, subwords.last, subwords.pad, subwords.unknown) == ((), (), 0, 0)
    of = tiny.sentences(1, 9)
    (short, _), _ = encoded(encoder, of)
    pieces = torch.tensor([subwords(of[0].words)[0]])
    assert tiny.same(short, transformer(input_ids=pieces).last_hidden_state.mean(dim=1))


def attention_dropouts(encoder: Encoder) -> set[float]:
    config = encoder.embedder.transformer.config
    names = ("attention_probs_dropout_prob", "attention_dropout")
    return {getattr(config, name) for name in names if hasattr(config, name)}


def drops_attention(encoder: Encoder) -> bool:
    """Return whether two outputs in training differ, without dropout elsewhere."""
    transformer = encoder.embedder.transformer.train()
    for name, module in transformer.named_modules():
        if isinstance(module, torch.nn.Dropout) and "attention.self" not in name:
            module.p = 0.0
    ids, mask = torch.arange(5, 15)[None], torch.ones(1, 10, dtype=torch.long)
    outputs = [transformer(input_ids=ids, attention_mask=mask).last_hidden_state for _ in range(2)]
    return not torch.equal(*outputs)


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_attention_dropout_is_that_of_the_settings(folders, kind, share, tmp_path):
    settings = EncoderSettings(name=str(folders[kind][0]), attention_dropout=share, lstm={"size": 0})
    encoder = Encoder.build(settings, [])
    encoder.save(tmp_path)
    for one in (encoder, Encoder.read(settings, tmp_path)()):
        assert attention_dropouts(one) <= {share}
        if kind == "roberta":
            assert drops_attention(one) == (share > 0)


class AttentionTypes(TorchDispatchMode):
    """Collects the number formats of the queries of attention."""

    def __init__(self):
        super().__init__()
        self.types = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "scaled_dot_product" in func.name():
            self.types.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


def test_attention_is_computed_in_single_precision_in_training(folders):
    encoder = build(folders["roberta"][0]).train()
    batch = encoder.collate([Sentence(words=("Ada", "Lovelace"))])
    with torch.autocast("cpu", torch.bfloat16), AttentionTypes() as mode:
        encoder(batch)
    assert mode.types == {torch.float32}
