"""Methods that a test may register: each is one class, as a real one would be.

They find entities of one word. What they differ in is what they ask of the rest of the program:
nothing, prompts, gold entities to learn from, or a loop inside `score`.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from fencepost.encoder.encoder import Words
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import PredictSettings
from fencepost.methods.network import Gold, Method, MethodSettings, as_candidates
from fencepost.methods.networks import METHODS


def one_word_each(probabilities: Tensor, lengths: Tensor, threshold: float = 0.5) -> Candidates:
    """Every word and type `[B, T, C]` whose probability is above the threshold."""
    words = torch.arange(probabilities.shape[1]) < lengths[:, None]  # [B, T]
    sentence, start, type_ = ((probabilities > threshold) & words[..., None]).nonzero(as_tuple=True)
    confidence = probabilities[sentence, start, type_]
    return as_candidates(sentence, start, start + 1, type_, confidence, probabilities.shape[1])


def one_word_gold(gold: Gold, like: Tensor) -> Tensor:
    """1 where a word is an entity of the type: `[B, T, C]`."""
    targets = torch.zeros_like(like)
    alone = gold.end == gold.start + 1
    targets[gold.sentence[alone], gold.start[alone], gold.type[alone]] = 1
    return targets


class Tagger(Method[tuple[Tensor, Tensor]]):
    """Is this word an entity of this type? A linear layer tells."""

    class Settings(MethodSettings):
        name: Literal["tagger"] = "tagger"
        bias: bool = True

    class Predict(PredictSettings):
        threshold: float = Field(0.5, ge=0, le=1)

    defaults: ClassVar = {
        "encoder": {"name": "scratch", "lstm": {"size": 12, "dropout": 0.0}},
        "training": {"epochs": 3},
    }

    def __init__(self, settings: Settings, predict: Predict, width: int, types) -> None:
        super().__init__(settings, predict, width, types)
        self.layer = nn.Linear(width, len(types), bias=settings.bias)

    def score(self, words: Words, gold: Gold | None = None) -> tuple[Tensor, Tensor]:
        return self.layer(words.vectors), words.lengths

    def loss(self, scores: tuple[Tensor, Tensor], gold: Gold) -> dict[str, Tensor]:
        logits, lengths = scores
        loss = nn.functional.binary_cross_entropy_with_logits(
            logits, one_word_gold(gold, logits), reduction="none"
        )
        inside = torch.arange(logits.shape[1]) < lengths[:, None]
        size = sum(parameter.square().sum() for parameter in self.parameters())
        return {"word_loss": (loss.sum(2) * inside).sum() / len(lengths), "size_loss": 1e-4 * size}

    def candidates(self, scores: tuple[Tensor, Tensor]) -> Candidates:
        logits, lengths = scores
        return one_word_each(logits.sigmoid(), lengths, self.predict.threshold)


class Prompted(Tagger):
    """A word is of the type whose prompt it is most like: the prompts come from the encoder."""

    class Settings(MethodSettings):
        name: Literal["prompted"] = "prompted"

    def __init__(self, settings: Settings, predict: Tagger.Predict, width: int, types) -> None:
        Method.__init__(self, settings, predict, width, types)
        self.layer = nn.Linear(width, width)

    @classmethod
    def prompts(cls, settings: MethodSettings, types) -> int:
        return len(types)

    def score(self, words: Words, gold: Gold | None = None) -> tuple[Tensor, Tensor]:
        batch, _, width = words.vectors.shape
        assert words.prompts is not None
        assert words.prompts.shape == (batch, len(self.types), width)
        return self.layer(words.vectors) @ words.prompts.transpose(1, 2), words.lengths


class TwoStage(Tagger):
    """A filter proposes words, a second layer labels them; in training gold words are proposed too."""

    learns_from_gold = True
    seen: list[bool]
    """Whether gold was given, call by call."""

    class Settings(MethodSettings):
        name: Literal["two-stage"] = "two-stage"

    def __init__(self, settings: Settings, predict: Tagger.Predict, width: int, types) -> None:
        Method.__init__(self, settings, predict, width, types)
        self.filter = nn.Linear(width, 1)
        self.layer = nn.Linear(width, len(types))
        self.seen = []

    def score(self, words: Words, gold: Gold | None = None) -> dict[str, Tensor]:
        self.seen.append(gold is not None)
        passed = self.filter(words.vectors)[..., 0]  # [B, T]
        proposed = words.mask & (passed > 0)
        if gold is not None:
            proposed = proposed.index_put((gold.sentence, gold.start), torch.tensor(True))
        sentence, word = proposed.nonzero(as_tuple=True)  # [N]
        return {
            "filter": passed,
            "mask": words.mask,
            "sentence": sentence,
            "word": word,
            "logits": self.layer(words.vectors[sentence, word]),  # [N, C]
            "with_gold": torch.tensor(gold is not None),
        }

    def loss(self, scores: dict[str, Tensor], gold: Gold) -> dict[str, Tensor]:
        assert scores["with_gold"], "the loss of proposals that were made without gold"
        batch, length = scores["filter"].shape
        targets = one_word_gold(gold, torch.zeros(batch, length, len(self.types)))
        each = nn.functional.binary_cross_entropy_with_logits(
            scores["filter"], targets.amax(2), reduction="none"
        )
        labels = nn.functional.binary_cross_entropy_with_logits(
            scores["logits"], targets[scores["sentence"], scores["word"]], reduction="sum"
        )
        return {"filter_loss": (each * scores["mask"]).sum() / batch, "label_loss": labels / batch}

    def candidates(self, scores: dict[str, Tensor]) -> Candidates:
        which, type_ = (scores["logits"] > 0).nonzero(as_tuple=True)
        confidence = scores["logits"].sigmoid()[which, type_]
        sentence, start = scores["sentence"][which], scores["word"][which]
        return as_candidates(sentence, start, start + 1, type_, confidence, scores["filter"].shape[1])


class Iterating(Tagger):
    """Starts from noise and comes nearer to the answer step by step; how many is told when predicting."""

    class Settings(MethodSettings):
        name: Literal["iterating"] = "iterating"

    class Predict(PredictSettings):
        steps: int = Field(4, ge=1)
        threshold: float = 0.5

    learns_from_gold = True

    def score(self, words: Words, gold: Gold | None = None) -> tuple[Tensor, Tensor]:
        target = self.layer(words.vectors)  # [B, T, C]
        if gold is not None:
            return target, words.lengths
        noise = torch.randn(target.shape[2], generator=torch.Generator().manual_seed(0))
        state = noise.expand_as(target)
        for _ in range(self.predict.steps):
            state = (state + target) / 2
        return state, words.lengths

    def __init__(self, settings: Settings, predict: Predict, width: int, types) -> None:
        Method.__init__(self, settings, predict, width, types)
        self.layer = nn.Linear(width, len(types))


DOUBLES = {
    "tagger": Tagger,
    "prompted": Prompted,
    "two-stage": TwoStage,
    "iterating": Iterating,
}


def register(monkeypatch) -> None:
    """The one line in the registry that a fifth method needs; here for the time of a test."""
    for name, method in DOUBLES.items():
        monkeypatch.setitem(METHODS, name, method)
