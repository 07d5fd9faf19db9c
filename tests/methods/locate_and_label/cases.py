"""Shared by the tests of locate-and-label: random nested sentences, and all steps as slow loops."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fencepost.encoder.encoder import Words
from fencepost.methods.candidates import Candidates
from fencepost.methods.decoder import GoldArrays, WordArrays
from fencepost.methods.locate_and_label.decode import LocateAndLabelDecoder, Proposals
from fencepost.methods.locate_and_label.network import LocateAndLabel, SpanHead
from fencepost.methods.locate_and_label.settings import LocateAndLabelPredict, LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import Spans
from fencepost.methods.network import Gold
from fencepost.runtime.pytorch import ModuleGraph

TYPES = ("A", "B", "C")

WIDTH = 6  # of word vectors

Span = tuple[int, int]  # start, end

Key = tuple[int, int, int]  # start, end, type

Place = tuple[int, int, int]  # sentence, start, end


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def gold_of(batch: list[list[Key]], seed: int = 0) -> Gold:
    """Return the gold with sentences in random order; entities keep their order, which decides ties."""
    order = [index for index, keys in enumerate(batch) for _ in keys]
    seeded(seed).shuffle(order)
    left = [iter(keys) for keys in batch]
    rows = [(index, *next(left[index])) for index in order]
    return Gold.from_columns(torch.tensor(rows, dtype=torch.long).view(-1, 4))


def arrays_of(gold: Gold) -> GoldArrays:
    return GoldArrays(*(column.numpy() for column in (gold.sentence, gold.start, gold.end, gold.type)))


def spans_of(places: list[Place]) -> Spans:
    return Spans(*np.array(places, dtype=np.int64).reshape(-1, 3).T)


def places_of(spans: Spans) -> list[Place]:
    return list(zip(*(column.tolist() for column in spans), strict=True))


def network_of(**settings) -> LocateAndLabel:
    """Return a small network with random weights in double precision."""
    torch.manual_seed(0)
    settings = {
        "lengths": (1, 2, 3, 5),
        "filter": True,
        "regressor": True,
        "near": 0.6,
        "hit": 1.0,
        "eta": 1.0,
        "negatives": 2.5,
        "extra_negatives": 2,
        "sentence_vector": False,
        "size": 5,
        "dropout": 0.0,
        "gamma": 2.0,
        "classifier_gamma": 0.0,
        "filter_weight": 0.7,
        "regressor_weight": 0.3,
        "classifier_weight": 1.1,
    } | settings
    network = LocateAndLabel(LocateAndLabelSettings(**settings), WIDTH, TYPES).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=0.5)
    return network.eval()


@dataclass
class Prediction:
    """Prediction from word vectors, in PyTorch."""

    network: LocateAndLabel
    predict: LocateAndLabelPredict

    def __post_init__(self) -> None:
        self.settings = self.network.settings
        self.decoder = LocateAndLabelDecoder(self.settings, TYPES)

    def score(self, words: Words) -> Proposals:
        graphs = {name: ModuleGraph(graph) for name, graph in self.network.graphs(words).items()}
        prompts = None if words.prompts is None else words.prompts.numpy()
        arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy(), prompts)
        return self.decoder.score(arrays, graphs, self.predict)

    def candidates(self, scores: Proposals) -> Candidates:
        return self.decoder.candidates(scores, self.predict)

    def select(self, candidates: Candidates) -> Candidates:
        return self.predict.select_entities(candidates, TYPES)


def prediction_of(predict: dict | None = None, **settings) -> Prediction:
    predict = {
        "select": "keep-all",
        "lengths": "all",
        "filter": 0.8,
        "confidence": "class",
        "soft_nms": False,
        "overlap": 0.6,
        "decay": 0.9,
        "threshold": 0.0,
    } | (predict or {})
    return Prediction(network_of(**settings), LocateAndLabelPredict(**predict))


def words_of(lengths: list[int], prompts: int = 0, seed: int = 0) -> Words:
    """Return random vectors, also for padding, which must have no effect."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator, dtype=torch.float64)
    of_prompts = torch.randn(len(lengths), prompts, WIDTH, generator=generator, dtype=torch.float64)
    return Words(vectors, torch.tensor(lengths), of_prompts if prompts else None)


def words_for(method: LocateAndLabel | Prediction, lengths: list[int], seed: int = 0) -> Words:
    return words_of(lengths, method.settings.prompts(TYPES), seed)


def alone(words: Words, index: int) -> Words:
    """Return one sentence of a batch, without padding."""
    one = slice(index, index + 1)
    prompts = None if words.prompts is None else words.prompts[one]
    return Words(words.vectors[one, : int(words.lengths[index])], words.lengths[one], prompts)


def random_keys(chance: random.Random, length: int) -> list[Key]:
    """Draw entities that nest, cross, touch, and share boundaries and whole spans, in random order."""
    keys = set()
    for _ in range(chance.randint(0, 5)):
        start, last = sorted((chance.randrange(length), chance.randrange(length)))
        keys.add((start, last + 1, chance.randrange(len(TYPES))))
        if chance.random() < 0.3:
            inner = sorted(chance.choices(range(start, last + 1), k=2))
            keys.add((inner[0], inner[1] + 1, chance.randrange(len(TYPES))))
    return chance.sample(sorted(keys), len(keys))


def random_batch(chance: random.Random, longest: int = 12) -> tuple[list[int], list[list[Key]]]:
    lengths = [chance.randint(1, longest) for _ in range(chance.randint(1, 5))]
    return lengths, [random_keys(chance, length) for length in lengths]


def slow_iou(one: Span, other: Span) -> float:
    ours, theirs = set(range(*one)), set(range(*other))
    return len(ours & theirs) / len(ours | theirs)


def slow_seeds(of_lengths: tuple[int, ...] | range, length: int) -> list[Span]:
    return [
        (start, start + long)
        for start in range(length)
        for long in sorted(of_lengths)
        if start + long <= length
    ]


def slow_pair(span: Span, keys: list[Key]) -> tuple[Key | None, float]:
    """Return the entity with the highest IoU, the first of several."""
    best, highest = None, -1.0
    for key in keys:
        iou = slow_iou(span, key[:2])
        if iou > highest:
            best, highest = key, iou
    return best, max(0.0, highest)


class SlowExample(NamedTuple):
    span: Span
    entity: Key | None
    iou: float
    positive: bool


def slow_examples(settings: LocateAndLabelSettings, keys: list[Key], length: int) -> list[SlowExample]:
    """Return the entities of a sentence, each paired with itself, and all seeds that are not entities."""
    examples = [SlowExample(key[:2], key, 1.0, True) for key in keys]
    entities = {key[:2] for key in keys}
    for span in slow_seeds(settings.lengths, length):
        if span not in entities:
            entity, iou = slow_pair(span, keys)
            examples.append(SlowExample(span, entity, iou, iou > settings.near))
    return examples


def slow_wanted(settings: LocateAndLabelSettings, examples: list[SlowExample]) -> int:
    """Return the number of negative seeds of a sentence that are examples."""
    positives = sum(example.positive for example in examples)
    return min(len(examples) - positives, int(settings.negatives * positives) + settings.extra_negatives)


def slow_adjusted(span: Span, offsets: tuple[float, float], length: int) -> Span:
    """Return the moved span (Eq. 6, 7, half-open)."""
    start = max(0, span[0] + math.floor(offsets[0] + 0.5))
    end = min(length, span[1] + math.floor(offsets[1] + 0.5))
    return (start, end) if start < end else span


def slow_class(moved: Span, entity: Key | None, keys: list[Key], hit: float) -> tuple[int, float]:
    """Return the gold class of a moved span, 0 for none, and its IoU with the entity that decides."""
    own = 0.0 if entity is None else slow_iou(moved, entity[:2])
    if entity is not None and own >= hit:
        return entity[2] + 1, own
    for start, end, type_ in keys:
        if (start, end) == moved:
            return type_ + 1, 1.0
    return 0, own


def slow_weight(iou: float, positive: bool, eta: float) -> float:
    """Return the weight of an example (Eq. 11)."""
    return (iou if positive else 1 - iou) ** eta


def slow_smooth_l1(difference: Tensor) -> Tensor:
    size = difference.abs()
    return 0.5 * size * size if float(size.detach()) < 1 else size - 0.5


def slow_regression(span: Span, offsets: Tensor, entity: Span) -> Tensor:
    """Return the loss of one span (Eq. 13-15); `offsets` are `[2]`."""
    start, end = span[0] + offsets[0], span[1] + offsets[1]
    true_start, true_end = (torch.tensor(float(at), dtype=offsets.dtype) for at in entity)
    of_boundaries = slow_smooth_l1((entity[0] - span[0]) - offsets[0]) + slow_smooth_l1(
        (entity[1] - span[1]) - offsets[1]
    )
    shared = min(end, true_end) - max(start, true_start)
    together = max(end, true_end) - min(start, true_start)
    return of_boundaries + (1 - shared / together)


def slow_gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def slow_head(head: SpanHead, *parts: Tensor) -> Tensor:
    """Apply two linear layers to a concatenation."""
    return head.output(slow_gelu(head.hidden(torch.cat(parts))))


class SlowNetwork:
    """Filter, regressor and classifier for one sentence, span by span."""

    def __init__(self, network: LocateAndLabel, words: Words, index: int) -> None:
        self.network = network
        self.length = int(words.lengths[index])
        self.words = [words.vectors[index, word] for word in range(self.length)]
        self.sentence = [] if words.prompts is None else [words.prompts[index, 0]]

    def pooled(self, span: Span) -> Tensor:
        return torch.stack(self.words[slice(*span)]).amax(dim=0)

    def inner(self, span: Span) -> list[Tensor]:
        """Return `[max ; first ; last]`."""
        return [self.pooled(span), self.words[span[0]], self.words[span[1] - 1], *self.sentence]

    def near(self, span: Span) -> Tensor:
        return slow_head(self.network.filter, *self.inner(span))[0]

    def offsets(self, span: Span) -> Tensor:
        if self.network.regressor is None:
            return torch.zeros(2, dtype=torch.float64)
        before = self.words[span[0] - 1] if span[0] > 0 else self.network.outside
        after = self.words[span[1]] if span[1] < self.length else self.network.outside
        return slow_head(self.network.regressor, self.pooled(span), before, after, *self.sentence)

    def moved(self, span: Span) -> Span:
        return slow_adjusted(span, tuple(self.offsets(span).tolist()), self.length)

    def labels(self, span: Span) -> Tensor:
        return slow_head(self.network.classifier, *self.inner(span))


def averaged(losses: list[Tensor]) -> Tensor:
    """Divide the weighted losses of a batch by the number of examples."""
    return torch.stack(losses).sum() / len(losses) if losses else torch.zeros((), dtype=torch.float64)


def slow_loss(
    trained: LocateAndLabel, words: Words, batch: list[list[Key]], seeds: set[Place]
) -> dict[str, Tensor]:
    """Return the terms of the loss (Eq. 11-17), example by example; `seeds` are the examples."""
    settings = trained.settings
    of_filter, of_regressor, of_classifier = [], [], []
    for index, keys in enumerate(batch):
        network = SlowNetwork(trained, words, index)
        for span, entity, iou, positive in slow_examples(settings, keys, network.length):
            if (index, *span) not in seeds:
                continue
            weight = slow_weight(iou, positive, settings.eta)
            if trained.filter is not None:
                p = torch.sigmoid(network.near(span))
                right = p if positive else 1 - p
                of_filter.append(-weight * (1 - right) ** settings.gamma * right.log())
            if trained.regressor is not None and positive:
                assert entity is not None
                of_regressor.append(weight * slow_regression(span, network.offsets(span), entity[:2]))
            moved = network.moved(span)
            class_, deciding = slow_class(moved, entity, keys, settings.hit)
            weight = slow_weight(deciding, class_ > 0, settings.eta)
            p = network.labels(moved).softmax(dim=0)[class_]
            of_classifier.append(-weight * (1 - p) ** settings.classifier_gamma * p.log())
    terms = {"classifier_loss": settings.classifier_weight * averaged(of_classifier)}
    if trained.filter is not None:
        terms["filter_loss"] = settings.filter_weight * averaged(of_filter)
    if trained.regressor is not None:
        terms["regressor_loss"] = settings.regressor_weight * averaged(of_regressor)
    return terms


class SlowProposal(NamedTuple):
    near: float
    offsets: tuple[float, float]
    moved: Span
    labels: list[float]


@torch.no_grad()
def slow_proposals(method: Prediction, words: Words) -> dict[Place, SlowProposal]:
    """Return the prediction of each seed that passes the filter."""
    trained = method.settings.lengths
    lengths = trained if method.predict.lengths == "trained" else range(1, max(trained) + 1)
    proposals = {}
    for index, length in enumerate(words.lengths.tolist()):
        network = SlowNetwork(method.network, words, index)
        for span in slow_seeds(lengths, length):
            near = 0.0 if method.network.filter is None else network.near(span).item()
            if method.network.filter is not None and 1 / (1 + math.exp(-near)) < method.predict.filter:
                continue
            moved = network.moved(span)
            offsets = network.offsets(span).tolist()
            proposals[index, *span] = SlowProposal(
                near, tuple(offsets), moved, network.labels(moved).tolist()
            )
    return proposals


def proposals_of(scores: Proposals) -> dict[Place, SlowProposal]:
    """Return the predictions in the result of `score`, in which each seed must be unique."""
    seeds = places_of(scores.seeds)
    assert len(set(seeds)) == len(seeds)
    assert scores.moved.sentence.tolist() == scores.seeds.sentence.tolist()
    columns = (
        scores.near.tolist(),
        map(tuple, scores.offsets.tolist()),
        [place[1:] for place in places_of(scores.moved)],
        scores.labels.tolist(),
    )
    return {place: SlowProposal(*row) for place, *row in zip(seeds, *columns, strict=True)}


def assert_same(proposals: dict[Place, SlowProposal], expected: dict[Place, SlowProposal]) -> None:
    """Compare spans exactly and numbers up to a tolerance: ours are in single precision."""
    assert proposals.keys() == expected.keys()
    for place, proposal in expected.items():
        ours = proposals[place]
        assert ours.moved == proposal.moved, place
        theirs = [proposal.near, *proposal.offsets, *proposal.labels]
        torch.testing.assert_close(
            torch.tensor([ours.near, *ours.offsets, *ours.labels]), torch.tensor(theirs), rtol=1e-4, atol=1e-5
        )


def gradients_of(network: LocateAndLabel, loss: Tensor) -> dict[str, Tensor]:
    """Return all gradients, with 0 for weights that have none, and the loss."""
    network.zero_grad()
    loss.backward()
    return {"loss": loss.detach()} | {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in network.named_parameters()
    }


LENGTHS = [9, 1, 12, 4, 6]

BATCH: list[list[Key]] = [
    [(1, 4, 0), (0, 6, 1), (0, 6, 2), (5, 8, 0), (2, 3, 2)],
    [(0, 1, 1)],
    [(0, 12, 0), (2, 9, 2), (3, 9, 2), (10, 12, 1)],
    [],
    [(4, 6, 0), (2, 5, 1)],
]
