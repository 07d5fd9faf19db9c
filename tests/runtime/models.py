"""Tiny models that predict entities: trained in a second, or random with a bias towards entities."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModel, BertConfig

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.methods.boundary_offset.labels import CENTRE
from fencepost.methods.model import Model
from fencepost.runtime.export import export
from fencepost.runtime.pytorch import save_model
from fencepost.settings import merge_trees
from tests.encoder import tiny

torch.set_num_threads(1)

NESTED = [
    Sentence(
        ["the", "University", "of", "Toronto", "opened"],
        [Entity(0, 4, "ORG"), Entity(1, 4, "ORG"), Entity(3, 4, "LOC")],
        pos=["DT", "NN", "IN", "NN", "VB"],
    ),
    Sentence(
        ["Ada", "met", "Charles", "in", "London"],
        [Entity(0, 1, "PER"), Entity(2, 3, "PER"), Entity(4, 5, "LOC")],
        pos=["NN", "VB", "NN", "IN", "NN"],
    ),
    Sentence(["nobody", "met", "him"]),
    Sentence(["Ada"], [Entity(0, 1, "PER")], pos=["NN"]),
]
SCRATCH: dict[str, Any] = {
    "name": "scratch",
    "lstm": {"size": 12, "dropout": 0},
    "scratch": {"word_size": 8, "character_size": 4, "character_output": 4, "word_dropout": 0},
}
METHODS: dict[str, dict[str, Any]] = {
    "boundary-smoothing": {"method": {"size": 6, "width_size": 3, "dropout": 0}},
    "boundary-offset": {"method": {"size": 6, "region_size": 3, "dropout": 0}},
    "locate-and-label": {
        "method": {"size": 6, "lengths": [1, 2, 4], "dropout": 0},
        "predict": {"filter": 0.1, "threshold": 0.01},
    },
    "diffusion": {
        "method": {"size": 8, "heads": 2, "feed_forward": 8, "pointer_size": 6, "dropout": 0},
        "predict": {"spans": 12, "threshold": 0},
    },
}
"""Small settings with low thresholds."""


def config(name: str, encoder: dict[str, Any] = SCRATCH, **changes: Any) -> Config:
    tree = merge_trees({"encoder": encoder}, merge_trees(METHODS[name], {"method": {"name": name}}))
    return Config.parse(merge_trees(tree, changes))


def random_model(name: str, encoder: dict[str, Any] = SCRATCH, seed: int = 0, **changes: Any) -> Model:
    """Return a model whose method has random weights and a bias towards entities."""
    torch.manual_seed(seed)
    model = Model.build(config(name, encoder, **changes), NESTED).eval()
    method: Any = model.network
    with torch.no_grad():
        for weight in method.parameters():
            weight.copy_(torch.randn_like(weight) * (0.5 if weight.ndim > 1 else 0.3))
        if name == "boundary-smoothing":
            method.b[0] -= 2
        elif name == "boundary-offset":
            method.b[CENTRE] += 2
        elif name == "locate-and-label":
            method.classifier.output.bias[0] -= 2
        elif name == "diffusion":
            method.denoiser.classifier[-1].bias[0] -= 3
    return model


@cache
def trained() -> Model:
    torch.manual_seed(0)
    model = Model.build(config("boundary-smoothing"), NESTED).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(80):
        optimizer.zero_grad()
        model(model.collate(NESTED))["loss"].backward()
        optimizer.step()
    return model.eval()


def saved(model: Model, folder: Path, *, int8: bool = False) -> Path:
    """Save and export a model and return its folder."""
    save_model(model, folder)
    export(model, folder, int8=int8)
    return folder


def save_bert(folder: Path, tokenizer: Tokenizer | None = None, **changes: Any) -> Path:
    """Save a random BERT like a downloaded one."""
    torch.manual_seed(0)
    AutoModel.from_config(BertConfig(**{**tiny.SMALL, **changes})).save_pretrained(folder)
    tiny.save_tokenizer(folder, tokenizer or tiny.wordpiece())
    return folder


def sentences(count: int = 24, longest: int = 12, seed: int = 0) -> list[Sentence]:
    """Return sentences of known and unknown words, in documents, some empty, some with parts of speech."""
    dice = random.Random(seed)  # noqa: S311
    known = sorted({word for sentence in NESTED for word in sentence.words})
    words = [*known, "London's", "unseen", "ß", "日本", "x" * 70, "Ada\u0301", "LONDON"]
    result = []
    for index, length in enumerate(
        [0, 1, 1, 2, longest, *(dice.randint(1, longest) for _ in range(count - 5))]
    ):
        pos = dice.choices(["NN", "VB", "XX"], k=length) if index % 2 else None
        result.append(Sentence(dice.choices(words, k=length), id=str(index), doc=str(index // 5), pos=pos))
    return result
