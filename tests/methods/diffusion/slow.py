"""All steps of diffusion as simple loops to compare with: one sentence, span and word at a time."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fencepost.encoder.encoder import Words
from fencepost.methods.diffusion.denoiser import Attention, SpanLayer
from fencepost.methods.diffusion.network import Diffusion
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings
from tests.methods.diffusion.cases import Ends, Found, Key, Noised, Said


def slow_numbers(span: Ends, length: int, settings: DiffusionSettings) -> tuple[float, float]:
    """Return a span as two numbers from -scale to scale."""
    left, right = span
    pair = (left, right - left) if settings.coordinates == "left-width" else (left, right)
    first, second = (2 * number / max(length - 1, 1) - 1 for number in pair)
    return settings.scale * first, settings.scale * second


def slow_shares(pair: tuple[float, float], settings: DiffusionSettings) -> tuple[float, float]:
    """Return where a span begins and ends, from 0, the first word, to 1, the last one."""
    first, second = ((min(1.0, max(-1.0, number / settings.scale)) + 1) / 2 for number in pair)
    return first, min(1.0, first + second) if settings.coordinates == "left-width" else second


def slow_span(pair: tuple[float, float], length: int, settings: DiffusionSettings) -> Ends:
    left, right = sorted(round(share * (length - 1)) for share in slow_shares(pair, settings))
    return left, right


def slow_alpha_bar(schedule: str, times: int) -> list[float]:
    """Return alpha-bar by its definition: the product of 1 - beta."""
    alpha_bar, product = [], 1.0
    for time in range(times):
        if schedule == "linear":
            beta = 1e-4 + (0.02 - 1e-4) * time / (times - 1)
        else:
            before, after = (
                math.cos((at / times + 0.008) / 1.008 * math.pi / 2) ** 2 for at in (time, time + 1)
            )
            beta = min(0.999, 1 - after / before)
        product *= 1 - beta
        alpha_bar.append(product)
    return alpha_bar


def slow_times(times: int, steps: int) -> list[int]:
    """Return evenly spaced points from the last time to -1, without the end."""
    return [round(times - 1 - point * times / steps) for point in range(steps)]


def slow_code(number: int, size: int) -> Tensor:
    """Return sines, then cosines."""
    angles = [number / 10_000 ** (index / (size // 2)) for index in range(size // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def slow_attention(
    attention: Attention, queries: list[Tensor], keys: list[Tensor], values: list[Tensor]
) -> list[Tensor]:
    """Compute each query and head separately."""
    made_keys, made_values = (
        [attention.key(key) for key in keys],
        [attention.value(value) for value in values],
    )
    size = len(made_keys[0]) // attention.heads
    results = []
    for query in map(attention.query, queries):
        parts = []
        for head in range(attention.heads):
            own = slice(head * size, (head + 1) * size)
            fits = [torch.exp((query[own] * key[own]).sum() / math.sqrt(size)) for key in made_keys]
            total = sum(fit * value[own] for fit, value in zip(fits, made_values, strict=True))
            parts.append(total / sum(fits))
        results.append(attention.output(torch.cat(parts)))
    return results


class SlowDenoiser:
    """Network for one sentence that computes each vector separately."""

    def __init__(self, method: Diffusion, words: Words, index: int) -> None:
        self.network = method.denoiser
        self.settings = method.settings
        self.length = int(words.lengths[index])
        self.words = [self.network.of_words(words.vectors[index, word]) for word in range(self.length)]
        self.placed = self.words
        if self.settings.positions:
            self.placed = [
                vector + slow_code(place, self.settings.size) for place, vector in enumerate(self.words)
            ]

    def pooled(self, span: Ends) -> Tensor:
        if self.settings.pooling == "first+last":
            return self.network.of_ends(torch.cat((self.words[span[0]], self.words[span[1]])))
        inside = self.words[span[0] : span[1] + 1]
        return sum(inside[1:], inside[0]) / len(inside)

    def place_code(self, span: Ends) -> Tensor:
        size = self.settings.size
        if not self.settings.positions:
            return torch.zeros(size, dtype=torch.float64)
        return self.network.of_places(torch.cat((slow_code(span[0], size), slow_code(span[1], size))))

    def index_code(self, index: int) -> Tensor:
        size = self.settings.size
        if not self.settings.proposal_codes:
            return torch.zeros(size, dtype=torch.float64)
        return self.network.of_index(slow_code(index, size))

    def layer(self, layer: SpanLayer, spans: list[Tensor], codes: list[Tensor]) -> list[Tensor]:
        """Apply a layer; a part that is switched off has no norm either."""

        def coded() -> list[Tensor]:
            return [span + code for span, code in zip(spans, codes, strict=True)]

        def added(norm: torch.nn.Module, news: list[Tensor]) -> list[Tensor]:
            return [norm(span + new) for span, new in zip(spans, news, strict=True)]

        if self.settings.self_attention:
            spans = added(layer.norm_among, slow_attention(layer.among, coded(), coded(), spans))
        if self.settings.cross_attention:
            spans = added(layer.norm_across, slow_attention(layer.across, coded(), self.placed, self.words))
        return added(layer.norm, [layer.feed_forward(span) for span in spans])

    def __call__(self, ends: list[Ends], time: int) -> tuple[Tensor, Tensor]:
        """Return logits of types, `[K, C + 1]`, and of boundaries, `[2, K, T]`."""
        places = [self.place_code(span) for span in ends]
        codes = [place + self.index_code(index) for index, place in enumerate(places)]
        spans = [self.pooled(span) for span in ends]
        for layer in self.network.layers:
            spans = self.layer(layer, spans, codes)
        of_time = self.network.of_time(slow_code(time, self.settings.size))
        spans = [span + place + of_time for span, place in zip(spans, places, strict=True)]
        types = [self.network.classifier(span) for span in spans]
        boundaries = []
        for pointer in self.network.pointers:
            logits = [
                [
                    pointer.output(torch.relu(pointer.of_word(word) + pointer.of_span(span)))
                    for word in self.placed
                ]
                for span in spans
            ]
            boundaries.append(torch.stack([torch.cat(row) for row in logits]))
        return torch.stack(types), torch.stack(boundaries)


def slow_learnt(method: Diffusion, words: Words, sample: Noised) -> dict[tuple[int, int], Said]:
    """Return the results of the network for noised spans."""
    result = {}
    for index in range(len(words.lengths)):
        denoiser = SlowDenoiser(method, words, index)
        for draw, time in enumerate(sample.time[index].tolist()):
            lefts, rights = sample.left[index, draw].tolist(), sample.right[index, draw].tolist()
            result[index, draw] = denoiser(list(zip(lefts, rights, strict=True)), time)
    return result


def slow_profit(scores: Said, span: int, key: Key) -> float:
    types, (lefts, rights) = scores
    start, end, type_ = key
    parts = (types[span].softmax(0)[type_ + 1], lefts[span, start].sigmoid(), rights[span, end - 1].sigmoid())
    return sum(part.item() for part in parts)


def slow_way(noisy: Ends, key: Key, length: int) -> float:
    """Return how far both ends are from those of the entity, as a share of the sentence."""
    return (abs(noisy[0] - key[0]) + abs(noisy[1] - (key[1] - 1))) / max(1, length - 1)


def slow_matches(
    settings: DiffusionSettings, scores: Said, noisy: list[Ends], keys: list[Key]
) -> dict[int, Key]:
    """Return the entity of each span in the best of all assignments."""
    spans, length = len(scores[0]), scores[1].shape[2]
    if settings.targets == "repeat":
        targets: list[Key | None] = [keys[place % len(keys)] for place in range(spans)] if keys else []
    else:
        targets = [*keys]
    targets += [None] * (spans - len(targets))
    profits = {
        (span, key): 0.0
        if key is None
        else slow_profit(scores, span, key) - settings.distance * slow_way(noisy[span], key, length)
        for span in range(spans)
        for key in set(targets)
    }
    ways = itertools.permutations(targets)
    best = max(ways, key=lambda way: sum(profits[span, key] for span, key in enumerate(way)))
    return {span: key for span, key in enumerate(best) if key is not None}


def slow_loss(
    settings: DiffusionSettings,
    scores: dict[tuple[int, int], Said],
    noisy: dict[tuple[int, int], list[Ends]],
    batch: list[list[Key]],
) -> dict[str, Tensor]:
    """Compute the loss type by type and word by word."""
    of_entities, of_none, of_words = [], [], []
    for place, (types, boundaries) in scores.items():
        matches = slow_matches(settings, scores[place], noisy[place], batch[place[0]])
        for span in range(len(types)):
            probabilities = types[span].softmax(0)
            if span not in matches:
                of_none.append(-probabilities[0].log())
                continue
            start, end, type_ = matches[span]
            of_entities.append(-probabilities[type_ + 1].log())
            for logits, boundary in zip(boundaries, (start, end - 1), strict=True):
                for word, p in enumerate(logits[span].sigmoid()):
                    of_words.append(-(p if word == boundary else 1 - p).log())
    zero = torch.zeros((), dtype=torch.float64)
    mean = [sum(losses, zero) / max(1, len(losses)) for losses in (of_entities, of_none)]
    return {
        "type_loss": mean[0] + settings.none_weight * mean[1],
        "boundary_loss": settings.boundary_weight * sum(of_words, zero) / max(1, len(of_entities)),
    }


def slow_move(
    noisy: float, clean: float, alpha_bar: float, next_alpha_bar: float, eta: float, fresh: float
) -> float:
    """Song et al., 2021, Eq. 12 and 16; with eta 0 the paper's Eq. 6 and 7."""
    noise = (noisy - math.sqrt(alpha_bar) * clean) / math.sqrt(1 - alpha_bar)
    sigma = (
        eta * math.sqrt((1 - next_alpha_bar) / (1 - alpha_bar)) * math.sqrt(1 - alpha_bar / next_alpha_bar)
    )
    direction = math.sqrt(max(0.0, 1 - next_alpha_bar - sigma**2)) * noise
    return math.sqrt(next_alpha_bar) * clean + direction + sigma * fresh


class SlowStep(NamedTuple):
    time: int
    spans: list[Ends]
    scores: Said


@torch.no_grad()
def slow_steps(method: Diffusion, predict: DiffusionPredict, words: Words, index: int) -> list[SlowStep]:
    """Go from noise to entities; return the inputs and results of each step."""
    settings = method.settings
    denoiser = SlowDenoiser(method, words, index)
    length = denoiser.length
    chance = np.random.default_rng((predict.seed, length))
    noisy = chance.standard_normal((predict.spans, 2), dtype=np.float32).tolist()
    alpha_bar, times = (
        slow_alpha_bar(settings.schedule, settings.times),
        slow_times(settings.times, predict.steps),
    )
    steps = []
    for time, then in itertools.zip_longest(times, times[1:]):
        spans = [slow_span(pair, length, settings) for pair in noisy]
        scores = denoiser(spans, time)
        steps.append(SlowStep(time, spans, scores))
        if then is None:
            return steps
        ends = zip(*(logits.argmax(dim=1).tolist() for logits in scores[1]), strict=True)
        fresh = chance.standard_normal((predict.spans, 2), dtype=np.float32).tolist()
        for span, pair in enumerate(ends):
            clean = [
                min(settings.scale, max(-settings.scale, number))
                for number in slow_numbers(pair, length, settings)
            ]
            noisy[span] = [
                slow_move(old, new, alpha_bar[time], alpha_bar[then], predict.eta, more)
                for old, new, more in zip(noisy[span], clean, fresh[span], strict=True)
            ]
    raise AssertionError


def slow_candidates(scores: Said, offset: int = 0) -> Found:
    """Return spans with their most probable types; of duplicates, the most confident one."""
    types, (lefts, rights) = scores
    best: Found = {}
    for span, logits in enumerate(types):
        of_type, type_ = (part.item() for part in logits.softmax(0)[1:].max(dim=0))
        of_left, left = (part.item() for part in lefts[span].sigmoid().max(dim=0))
        of_right, right = (part.item() for part in rights[span].sigmoid().max(dim=0))
        if left <= right:
            key = (offset + left, offset + right + 1, type_)
            best[key] = max(best.get(key, 0.0), of_type * of_left * of_right)
    return best
