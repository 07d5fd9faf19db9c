"""Section 4.1: training, which adds noise to the entities and trains the denoiser to remove it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from fencepost.encoder.encoder import Words
from fencepost.methods.diffusion.denoiser import Denoiser, Verifier
from fencepost.methods.diffusion.loss import (
    DenoisedScores,
    VerifiedSpans,
    collect_spans,
    compute_losses,
    compute_verifier_loss,
    match_proposals,
)
from fencepost.methods.diffusion.process import compute_alpha_bar, decode_spans, encode_spans
from fencepost.methods.diffusion.settings import DiffusionSettings
from fencepost.methods.network import Gold, Graph, Network

_MOST_PROPOSALS = 300
"""Maximum K for a sentence with more than K entities; if it has even more, each step trains on some."""


class Diffusion(Network[DenoisedScores]):
    """Denoiser and verifier of spans. Class 0 is "no entity"; type t is class t + 1."""

    settings: DiffusionSettings
    alpha_bar: Tensor  # [times]

    def __init__(self, settings: DiffusionSettings, width: int, types: Sequence[str]) -> None:
        super().__init__(settings, width, types)
        self.denoiser = Denoiser(settings, width, 1 + len(types))
        self.verifier = Verifier(settings, width, 1 + len(types)) if settings.verifier else None
        alpha_bar = torch.from_numpy(compute_alpha_bar(settings.schedule, settings.times)).float()
        self.register_buffer("alpha_bar", alpha_bar, persistent=False)

    def score(self, words: Words, gold: Gold) -> DenoisedScores:
        """Algorithm 1: add noise to the entities (Eq. 4) and return the predictions of the denoiser.

        With several draws, each sentence is repeated.
        """
        settings, draws, vectors = self.settings, self.settings.draws, words.vectors
        words = Words(words.vectors.repeat_interleave(draws, 0), words.lengths.repeat_interleave(draws))
        batch, device, last = len(words.lengths), words.lengths.device, (words.lengths - 1)[:, None]
        generator = None if self.training else torch.Generator(device).manual_seed(0)
        x_0 = self._expand(_repeat(gold, draws), last, generator)  # [B, K, 2]
        time = torch.randint(settings.times, (batch,), generator=generator, device=device)
        epsilon = torch.randn(x_0.shape, generator=generator, device=device)
        alpha_bar = self.alpha_bar[time][:, None, None]
        x_t = alpha_bar.sqrt() * x_0 + (1 - alpha_bar).sqrt() * epsilon
        left, right = (word.long() for word in decode_spans(x_t, last, settings))
        types, boundaries = self.denoiser(left, right, time, *self.denoiser.read(words))
        scores = DenoisedScores(types, boundaries, (left, right), words.lengths)
        if self.verifier is None:
            return scores
        spans, is_span = collect_spans(scores, gold, draws)
        return replace(scores, verified=VerifiedSpans(spans, is_span, self.verifier(vectors, *spans)))

    def _expand(self, gold: Gold, last: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return x_0, `[B, K, 2]`: a sentence's entities repeated equally often, or once with random spans.

        In a sentence without entities, the whole sentence is used in place of an entity.
        """
        settings, device, batch = self.settings, last.device, len(last)
        entities = gold.group_by_sentence(batch)  # [B, G]
        shape = (batch, max(settings.spans, min(entities.shape[1], _MOST_PROPOSALS)))
        count = (entities < len(gold.start)).sum(dim=1, keepdim=True)
        order = torch.rand(shape, generator=generator, device=device).argsort(dim=1)  # a permutation
        first = torch.randint(2**30, (batch, 1), generator=generator, device=device)
        # which entities get one repeat more is random
        chosen = entities.gather(1, (order + first) % count.clamp(min=1))
        left = functional.pad(gold.start, (0, 1))[chosen]
        right = functional.pad(gold.end, (0, 1))[chosen] - 1
        right = torch.where(count == 0, last, right)
        x_0 = torch.stack(encode_spans(left, right, last, settings), dim=2)
        if settings.expansion == "repeat":
            return x_0
        random = torch.randn(x_0.shape, generator=generator, device=device) / 6 + 0.5
        is_entity = order < count.clamp(min=1)
        return torch.where(is_entity[..., None], x_0, settings.scale * (2 * random.clamp(0, 1) - 1))

    def loss(self, scores: DenoisedScores, gold: Gold) -> dict[str, Tensor]:
        repeated = _repeat(gold, self.settings.draws)
        turn = int(torch.randint(2**30, ())) if self.training else 0
        matches = match_proposals(scores, repeated, self.settings, turn)
        losses = compute_losses(scores, repeated, matches, self.settings, self.mean_count)
        if scores.verified is not None:
            losses["verifier_loss"] = compute_verifier_loss(scores.verified, gold, self.mean_count)
        return losses

    def graphs(self, words: Words) -> dict[str, Graph]:
        """Return `read`, which prepares the words for all steps, `step`, one step, and maybe `verify`."""
        settings, of_spans = self.settings, ("sentences", "spans")
        of_words: Sequence[str | None] = ("sentences", "words", None)
        of_source = [("sentences", None, None, "words"), ("sentences", None, "words", None)]
        sources = of_source * (settings.layers * settings.cross_attention)
        places = [("words", None)] * (2 * settings.positions)
        of_context = [of_words, ("sentences", "words"), *places, *sources, of_words, of_words]
        context = {f"context_{number}": part for number, part in enumerate(self.denoiser.read(words))}
        context_axes = dict(zip(context, of_context, strict=True))
        read = {"vectors": words.vectors, "lengths": words.lengths}
        read_axes = {"vectors": of_words, "lengths": ("sentences",), **context_axes}
        spans = words.lengths.new_zeros((len(words.lengths), 3))
        step = {"left": spans, "right": spans, "time": spans[:, 0], **context}
        step_axes = {"left": of_spans, "right": of_spans, "time": ("sentences",), **context_axes}
        step_axes |= {"types": (*of_spans, None), "boundaries": (None, *of_spans, "words")}
        graphs = {
            "read": Graph(ReadGraph(self.denoiser), read, read_axes),
            "step": Graph(self.denoiser, step, step_axes),
        }
        if self.verifier is not None:
            verify = {"vectors": words.vectors, "left": spans, "right": spans}
            verify_axes = {
                "vectors": of_words,
                "left": of_spans,
                "right": of_spans,
                "types": (*of_spans, None),
            }
            graphs["verify"] = Graph(self.verifier, verify, verify_axes)
        return graphs


class ReadGraph(nn.Module):
    """Graph from word vectors to the context of all steps."""

    def __init__(self, denoiser: Denoiser) -> None:
        super().__init__()
        self.denoiser = denoiser

    def forward(self, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return self.denoiser.read(Words(vectors, lengths))


def _repeat(gold: Gold, times: int) -> Gold:
    """Return the entities of a batch in which each sentence is repeated `times` times."""
    copies = torch.arange(times, device=gold.sentence.device)
    start, end, type_ = (column.repeat_interleave(times) for column in (gold.start, gold.end, gold.type))
    annotated = None if gold.annotated is None else gold.annotated.repeat_interleave(times, dim=0)
    return Gold((gold.sentence[:, None] * times + copies).flatten(), start, end, type_, annotated)
