"""Methods that a test may register: settings, a network, a decoder and a line in the registry.

They predict entities of one word and differ in what they need from the rest of the program:
nothing, prompts, gold entities in training, or a loop in prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import Decoder, Graphs, WordArrays, sigmoid
from fencepost.methods.network import Gold, Graph, Network, word_axes
from fencepost.methods.registry import METHODS, Method
from fencepost.methods.settings import MethodSettings, PredictSettings

DEFAULTS = {
    "encoder": {"name": "scratch", "lstm": {"size": 12, "dropout": 0.0}},
    "training": {"epochs": 3},
}


def one_word_gold(gold: Gold, like: Tensor) -> Tensor:
    """Return 1 where a word is an entity of the type: `[B, T, C]`."""
    targets = torch.zeros_like(like)
    alone = gold.end == gold.start + 1
    targets[gold.sentence[alone], gold.start[alone], gold.type[alone]] = 1
    return targets


class Threshold(PredictSettings):
    threshold: float = Field(0.5, ge=0, le=1)


class LogitsGraph(nn.Module):
    """Logits of the network as a graph."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, vectors: Tensor, prompts: Tensor | None = None) -> Tensor:
        return self.network.logits(vectors, prompts)


class TaggerSettings(MethodSettings):
    name: Literal["tagger"] = "tagger"
    bias: bool = True


class Tagger(Network[tuple[Tensor, Tensor]]):
    """Linear layer that decides whether a word is an entity of a type."""

    def __init__(self, settings: Any, width: int, types: Sequence[str]) -> None:
        super().__init__(settings, width, types)
        self.layer = nn.Linear(width, len(types), bias=getattr(settings, "bias", True))

    def logits(self, vectors: Tensor, prompts: Tensor | None = None) -> Tensor:
        return self.layer(vectors)

    def score(self, words: Words, gold: Gold) -> tuple[Tensor, Tensor]:
        return self.logits(words.vectors, words.prompts), words.lengths

    def loss(self, scores: tuple[Tensor, Tensor], gold: Gold) -> dict[str, Tensor]:
        logits, lengths = scores
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits, one_word_gold(gold, logits), reduction="none"
        )
        inside = torch.arange(logits.shape[1]) < lengths[:, None]
        size = sum(parameter.square().sum() for parameter in self.parameters())
        return {"word_loss": (loss.sum(2) * inside).sum() / len(lengths), "size_loss": 1e-4 * size}

    def graphs(self, words: Words) -> dict[str, Graph]:
        inputs, axes = word_axes(words)
        axes["logits"] = ("sentences", "words", None)
        return {"words": Graph(LogitsGraph(self), inputs, axes)}


class TaggerDecoder(Decoder[tuple[np.ndarray, np.ndarray]]):
    """Decoder that returns every word and type whose probability is above the threshold."""

    def score(self, words: WordArrays, graphs: Graphs, predict: Any) -> tuple[np.ndarray, np.ndarray]:
        (logits,) = graphs["words"](**words.inputs())
        return logits, words.lengths

    def candidates(self, scores: tuple[np.ndarray, np.ndarray], predict: Any) -> Candidates:
        logits, lengths = scores
        probability = sigmoid(logits)
        inside = np.arange(logits.shape[1]) < lengths[:, None]
        sentence, start, type_ = np.nonzero((probability > predict.threshold) & inside[..., None])
        offset = sentence * logits.shape[1]
        return Candidates(
            offset + start, offset + start + 1, type_, probability[sentence, start, type_].astype(float)
        )


class PromptedSettings(MethodSettings):
    name: Literal["prompted"] = "prompted"

    def prompts(self, types: Sequence[str]) -> int:
        return len(types)


class Prompted(Tagger):
    """Tagger that compares words with the prompts of types from the encoder."""

    def __init__(self, settings: Any, width: int, types: Sequence[str]) -> None:
        Network.__init__(self, settings, width, types)
        self.layer = nn.Linear(width, width)

    def logits(self, vectors: Tensor, prompts: Tensor | None = None) -> Tensor:
        batch, _, width = vectors.shape
        assert prompts is not None
        assert prompts.shape == (batch, len(self.types), width)
        return self.layer(vectors) @ prompts.transpose(1, 2)


class TwoStageSettings(MethodSettings):
    name: Literal["two-stage"] = "two-stage"


class TwoStage(Tagger):
    """Filter that proposes words and layer that labels them; in training, gold words are proposed too."""

    def __init__(self, settings: Any, width: int, types: Sequence[str]) -> None:
        super().__init__(settings, width, types)
        self.filter = nn.Linear(width, 1)

    def logits(self, vectors: Tensor, prompts: Tensor | None = None) -> Tensor:
        return self.layer(vectors).masked_fill(self.filter(vectors) <= 0, -100.0)

    def score(self, words: Words, gold: Gold) -> dict[str, Tensor]:
        passed = self.filter(words.vectors)[..., 0]  # [B, T]
        proposed = (words.mask & (passed > 0)).index_put((gold.sentence, gold.start), torch.tensor(True))
        sentence, word = proposed.nonzero(as_tuple=True)  # [N]
        return {
            "filter": passed,
            "mask": words.mask,
            "sentence": sentence,
            "word": word,
            "logits": self.layer(words.vectors[sentence, word]),  # [N, C]
        }

    def loss(self, scores: dict[str, Tensor], gold: Gold) -> dict[str, Tensor]:
        batch, length = scores["filter"].shape
        targets = one_word_gold(gold, torch.zeros(batch, length, len(self.types)))
        each = nn.functional.binary_cross_entropy_with_logits(
            scores["filter"], targets.amax(2), reduction="none"
        )
        labels = nn.functional.binary_cross_entropy_with_logits(
            scores["logits"], targets[scores["sentence"], scores["word"]], reduction="sum"
        )
        return {"filter_loss": (each * scores["mask"]).sum() / batch, "label_loss": labels / batch}


class IteratingSettings(MethodSettings):
    name: Literal["iterating"] = "iterating"


class IteratingPredict(PredictSettings):
    steps: int = Field(4, ge=1)
    threshold: float = 0.5


class IteratingDecoder(TaggerDecoder):
    """Decoder that goes from noise to the logits in a number of steps, which is set when predicting."""

    def score(self, words: WordArrays, graphs: Graphs, predict: IteratingPredict) -> Any:
        target, lengths = super().score(words, graphs, predict)
        noise = np.random.default_rng(0).standard_normal(target.shape[2]).astype(np.float32)
        state = np.broadcast_to(noise, target.shape)
        for _ in range(predict.steps):
            state = (state + target) / 2
        return state, lengths


def _method(settings: type[MethodSettings], network: str, **more: Any) -> Method:
    more = {"decoder": TaggerDecoder, "predict": Threshold} | more
    return Method(settings, network=f"tests.methods.doubles:{network}", defaults=DEFAULTS, **more)


DOUBLES = {
    "tagger": _method(TaggerSettings, "Tagger"),
    "prompted": _method(PromptedSettings, "Prompted"),
    "two-stage": _method(TwoStageSettings, "TwoStage"),
    "iterating": _method(IteratingSettings, "Tagger", decoder=IteratingDecoder, predict=IteratingPredict),
}


def register(monkeypatch) -> None:
    """Add the line to the registry that another method needs, for the duration of a test."""
    for name, method in DOUBLES.items():
        monkeypatch.setitem(METHODS, name, method)
