"""Tokenizers trained in an instant and transformers of width 16, so that no test needs a download."""

from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn
from transformers import (
    AlbertConfig,
    AutoModel,
    BartConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ModernBertConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    T5Config,
)

from fencepost.data.entity import Sentence

TEXT = [
    "The University of Toronto's president met Ada Lovelace in London, on 10 December 1815.",
    "Expression of the IL-2 gene in human T cells requires NF-kappa B.",
    "Zürich liegt in der Schweiz; São Paulo não.",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9",
] * 3
SPECIAL = {
    "bos_token": "<s>",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
UNKNOWN = SPECIAL["unk_token"]
WORDS = ["The", "University", "of", "Toronto's", "president", "met", "Ada", "Lovelace", "in", "London", "."]
VOCABULARY = 360


def byte_level(*, add_prefix_space: bool) -> Tokenizer:
    """Return a tokenizer like that of RoBERTa and GPT-2: a word includes the space before it."""
    tokenizer = _trained("byte level")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    return tokenizer


def byte_level_in_a_sequence() -> Tokenizer:
    """Return a tokenizer like newer ones, in which splitting by bytes is one of several steps."""
    tokenizer = _trained("byte level")
    inner = pre_tokenizers.Sequence([pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), inner])
    return tokenizer


def unigram(prepend_scheme: str = "always") -> Tokenizer:
    """Return a tokenizer like SentencePiece for XLM-R, ALBERT and T5: a mark stands for the space."""
    tokenizer = _trained("unigram")
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    return tokenizer


def wordpiece() -> Tokenizer:
    """Return a tokenizer like that of BERT: a sub-word that continues a word is marked."""
    return _trained("wordpiece")


def _trained(kind: str) -> Tokenizer:
    return Tokenizer.from_str(_training(kind))


@cache  # two training runs on the same text may number sub-words differently
def _training(kind: str) -> str:
    options = {"vocab_size": VOCABULARY, "special_tokens": list(SPECIAL.values()), "show_progress": False}
    if kind == "byte level":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(initial_alphabet=alphabet, **options))
    elif kind == "unigram":
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.train_from_iterator(TEXT, trainers.UnigramTrainer(unk_token=UNKNOWN, **options))
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.train_from_iterator(TEXT, trainers.WordPieceTrainer(**options))
    around = [("<s>", 0), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=around)
    return tokenizer.to_str()


SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
RELATIVE = {
    "relative_attention": True,
    "position_biased_input": False,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
CONFIGS: dict[str, PretrainedConfig] = {
    "roberta": RobertaConfig(**SMALL),  # two of its positions are kept for padding
    "deberta": DebertaV2Config(**SMALL, **RELATIVE),  # without positions in the input
    "distilbert": DistilBertConfig(
        vocab_size=VOCABULARY, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=40
    ),
    "albert": AlbertConfig(**SMALL, embedding_size=8),  # narrow embeddings, one layer used twice
    "electra": ElectraConfig(**SMALL, embedding_size=8),
    "modernbert": ModernBertConfig(
        **SMALL | {"max_position_embeddings": 1000}, cls_token_id=0, sep_token_id=2, reference_compile=False
    ),
    "t5": T5Config(vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2),
    "bart": BartConfig(
        vocab_size=VOCABULARY,
        d_model=16,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=40,
    ),
}


def save_encoder(kind: str, folder: Path, tokenizer: Tokenizer | None = None) -> nn.Module:
    """Save a random transformer of this kind like a downloaded one, and return its encoder."""
    torch.manual_seed(0)
    config = deepcopy(CONFIGS[kind])
    transformer = AutoModel.from_config(config).eval()
    transformer.save_pretrained(folder)
    save_tokenizer(folder, tokenizer or byte_level(add_prefix_space=False))
    return transformer.get_encoder() if config.is_encoder_decoder else transformer


def save_tokenizer(folder: Path, tokenizer: Tokenizer) -> None:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder)


def sentences(*lengths: int) -> list[Sentence]:
    """Return different sentences of these lengths."""
    return [Sentence(cycled(length, index)) for index, length in enumerate(lengths)]


def cycled(length: int, first: int = 0) -> list[str]:
    return [WORDS[(first + index) % len(WORDS)] for index in range(length)]


def same(one: torch.Tensor, other: torch.Tensor, atol: float = 1e-5) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=atol)


def words_of(batch_of_vectors: torch.Tensor, of: Sequence[Sentence]) -> list[torch.Tensor]:
    """Return the vectors of the words of each sentence, without padding."""
    return [vectors[: len(sentence)] for vectors, sentence in zip(batch_of_vectors, of, strict=True)]
