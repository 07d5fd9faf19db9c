"""Make small models of every method, saved and exported, for `benchmarks.fuzz_models`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, BertConfig, PreTrainedTokenizerFast

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.methods.model import Model
from fencepost.methods.registry import METHODS
from fencepost.runtime.export import export
from fencepost.runtime.pytorch import save_model
from fencepost.settings import Tree, merge_trees

TEXT = "Ada Lovelace met Charles Babbage at the University of London."
TRAINING = [
    Sentence(
        ["the", "University", "of", "London", "opened"],
        [Entity(0, 4, "ORG"), Entity(3, 4, "LOC")],
        pos=["DT", "NN", "IN", "NN", "VB"],
    ),
    Sentence(["Ada", "met", "Charles", "in", "London"], [Entity(0, 1, "PER"), Entity(4, 5, "LOC")]),
]
SCRATCH: Tree = {
    "name": "scratch",
    "lstm": {"size": 12},
    "scratch": {"word_size": 8, "character_size": 4, "character_output": 4},
    "features": {"pos": 4},
}
SIZES: dict[str, Tree] = {
    "boundary-smoothing": {"method": {"size": 6, "width_size": 3}},
    "boundary-offset": {"method": {"size": 6, "region_size": 3}},
    "locate-and-label": {"method": {"size": 6, "lengths": [1, 2, 4]}, "predict": {"filter": 0.1}},
    "diffusion": {
        "method": {"size": 8, "heads": 2, "feed_forward": 8, "pointer_size": 6},
        "predict": {"spans": 12, "threshold": 0},
    },
}


def make_models(folder: Path) -> list[Path]:
    """Save and export a model of each method from scratch, and one with a transformer; return all folders."""
    transformer = {"name": str(_save_transformer(folder / "transformer")), "lstm": {"size": 0}}
    kinds: list[tuple[str, str, Tree]] = [(method, method, SCRATCH) for method in METHODS if method in SIZES]
    kinds.append(("with-transformer", "boundary-offset", transformer))
    folders = []
    for name, method, encoder in kinds:
        torch.manual_seed(0)
        tree = merge_trees({"encoder": encoder, "method": {"name": method}}, SIZES[method])
        model = Model.build(Config.parse(tree), TRAINING).eval()
        with torch.no_grad():  # otherwise most models predict no entities
            for weight in model.network.parameters():
                weight.copy_(torch.randn_like(weight) * 0.5)
        save_model(model, folder / name)
        export(model, folder / name)
        folders.append(folder / name)
    return folders


def _save_transformer(folder: Path) -> Path:
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokenizer = Tokenizer(models.WordPiece(unk_token=special[3]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([TEXT] * 3, trainer)
    around = [("<s>", 0), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=around)
    options: dict[str, Any] = {"pad_token": "<pad>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, **options
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        pad_token_id=1,
    )
    AutoModel.from_config(config).save_pretrained(folder)  # type: ignore[no-untyped-call]
    return folder
