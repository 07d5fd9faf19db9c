"""Shared by the tests of boundary offsets: random batches, and slow references of labels and scores."""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn

from fencepost.data.entity import Entity, Sentence
from fencepost.encoder.encoder import Words
from fencepost.methods.boundary_offset.blocks import Block
from fencepost.methods.boundary_offset.labels import CENTRE, Labels
from fencepost.methods.boundary_offset.layers import ConditionalNorm, PlaceEmbedding
from fencepost.methods.boundary_offset.network import BoundaryOffset
from fencepost.methods.boundary_offset.settings import BoundaryOffsetSettings
from fencepost.methods.network import Gold

TYPES = ("A", "B", "C")


WIDTH = 6  # of word vectors


OUT = "out of range"


OFFSETS = ("both", "start", "end")


Key = tuple[int, int, int]  # start, end, type


Picture = dict[tuple[int, int, int, int], str]  # sentence, type, start, last word: the label's name


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def labels_of(reach: int, offsets: str = "both") -> Labels:
    return Labels(BoundaryOffsetSettings(max_offset=reach, offsets=offsets))


def gold_of(batch: list[set[Key]], seed: int = 0) -> Gold:
    """Return the gold in random order, since a batch may have any."""
    rows = [(index, *key) for index, keys in enumerate(batch) for key in sorted(keys)]
    seeded(seed).shuffle(rows)
    return Gold.from_columns(torch.tensor(rows, dtype=torch.long).view(-1, 4))


def whole(lengths: list[int]) -> Block:
    return Block(list(range(len(lengths))), 0, max(lengths), max(lengths))


def method_of(types: tuple[str, ...] = TYPES, **settings) -> BoundaryOffset:
    """Return a small method with random weights in double precision."""
    torch.manual_seed(0)
    settings = {"size": 4, "region_size": 2, "dropout": 0.0, "max_offset": 1} | settings
    method = BoundaryOffset(BoundaryOffsetSettings(**settings), WIDTH, types).double()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.normal_(std=0.5)
    return method.eval()


def words_of(lengths: list[int], types: int = len(TYPES), seed: int = 0) -> Words:
    """Return random vectors, also for padding, which must have no effect."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator, dtype=torch.float64)
    prompts = torch.randn(len(lengths), types, WIDTH, generator=generator, dtype=torch.float64)
    return Words(vectors, torch.tensor(lengths), prompts if types else None)


def random_keys(chance: random.Random, length: int) -> set[Key]:
    """Draw entities that nest, cross, touch, and share boundaries and whole spans."""
    keys = set()
    for _ in range(chance.randint(0, 6)):
        start, last = sorted((chance.randrange(length), chance.randrange(length)))
        keys.add((start, last + 1, chance.randrange(len(TYPES))))
    return keys


def random_batch(chance: random.Random, longest: int = 9) -> tuple[list[int], list[set[Key]]]:
    lengths = [chance.randint(1, longest) for _ in range(chance.randint(1, 4))]
    return lengths, [random_keys(chance, length) for length in lengths]


def slow_label(spans: list[tuple[int, int]], i: int, j: int, reach: int, offsets: str) -> str:
    """Return the label of the span from word `i` to word `j`, given the entities of one type (start, end)."""
    if (i, j + 1) in spans:
        return "0"
    best, name = reach + 1, OUT
    for start, end in sorted(spans):
        if end == j + 1 and offsets != "end" and abs(i - start) < best:
            best, name = abs(i - start), f"{i - start}S"
        if start == i and offsets != "start" and abs(j + 1 - end) < best:
            best, name = abs(j + 1 - end), f"{j + 1 - end}E"
    return name


def slow_targets(keys: set[Key], length: int, reach: int, offsets: str) -> dict[Key, str]:
    """Return labels by start, last word and type; the lower triangle mirrors the upper."""
    grid = {}
    for type_ in range(len(TYPES)):
        spans = [(start, end) for start, end, of in keys if of == type_]
        for i in range(length):
            for j in range(i, length):
                grid[i, j, type_] = grid[j, i, type_] = slow_label(spans, i, j, reach, offsets)
    return grid


# After Figure 2: eight words, two proteins and a cell type, S = 2. Rows are starts, columns last words.
FIGURE_2 = Sentence(
    ["the", "HMG", "box", "of", "LEF-1", "in", "T", "cells"],
    [Entity(1, 3, "protein"), Entity(1, 5, "protein"), Entity(6, 8, "cell type")],
)


Found = dict[tuple[int, int, int, int], float]  # sentence, start, end, type: confidence


def offset_of(name: str) -> tuple[int, int]:
    """Return the offsets of start and end."""
    k = int(name[:-1])
    return (k, 0) if name.endswith("S") else (0, k)


def is_nearest(picture: Picture, cell: tuple[int, int, int, int], labels: Labels) -> bool:
    """First rule of the paper: a cell within reach of centres must point at one of the nearest."""
    sentence, type_, i, j = cell
    distances = {}
    for name in labels.names[CENTRE + 1 :]:
        by_start, by_end = offset_of(name)
        if picture.get((sentence, type_, i - by_start, j - by_end)) == "0":
            distances[name] = abs(by_start) + abs(by_end)
    return not distances or distances.get(picture[cell]) == min(distances.values())


def is_in_order(picture: Picture, cell: tuple[int, int, int, int]) -> bool:
    """Second rule of the paper: from the cell to the span it points at, the offsets count down."""
    sentence, type_, i, j = cell
    name = picture[cell]
    k, side = int(name[:-1]), name[-1]
    step = 1 if k > 0 else -1
    for nearer in range(k - step, 0, -step):
        away = k - nearer
        between = (i - away, j) if side == "S" else (i, j - away)
        if picture.get((sentence, type_, *between)) != f"{nearer}{side}":
            return False
    return True


def slow_decode(
    picture: Picture,
    probabilities: dict,
    lengths: list[int],
    labels: Labels,
    reach: int,
    mode: str = "rules",
    votes: int | None = None,
    nearest: bool = True,
    order: bool = True,
) -> Found:
    entities = {
        (sentence, i, j + 1, type_): probabilities[sentence, type_, i, j]
        for (sentence, type_, i, j), name in picture.items()
        if name == "0"
    }
    if mode == "centre":
        return entities
    voters: dict[tuple[int, int, int, int], list[tuple[int, int, int, int]]] = {}
    for cell, name in picture.items():
        if name in ("0", OUT):
            continue
        sentence, type_, i, j = cell
        by_start, by_end = offset_of(name)
        start, end = i - by_start, j + 1 - by_end
        if not 0 <= start < end <= lengths[sentence] or (sentence, start, end, type_) in entities:
            continue
        if mode == "rules" and nearest and not is_nearest(picture, cell, labels):
            continue
        if mode == "rules" and order and not is_in_order(picture, cell):
            continue
        voters.setdefault((sentence, start, end, type_), []).append(cell)
    needed = 1 if mode == "all" else votes if votes is not None else reach + 1
    for key, cells in voters.items():
        sides = [picture[cell][-1] for cell in cells]
        if sides.count("S") >= needed or sides.count("E") >= needed:
            entities[key] = sum(probabilities[cell] for cell in cells) / len(cells)
    return entities


RULES = [
    {"mode": "rules", "nearest": nearest, "order": order, "votes": votes}
    for nearest in (True, False)
    for order in (True, False)
    for votes in (None, 1, 2)
]


PREDICTS: list[dict] = [{"mode": "centre"}, {"mode": "all"}, *RULES]


def slow_norm(vector: Tensor) -> Tensor:
    centred = vector - vector.sum() / len(vector)
    return centred / (centred.square().sum() / len(vector) + 1e-5).sqrt()


def slow_conditional_norm(norm: ConditionalNorm, vector: Tensor, condition: Tensor) -> Tensor:
    gain = norm.gain.weight @ condition + norm.gain.bias
    shift = norm.shift.weight @ condition + norm.shift.bias
    return gain * slow_norm(vector) + shift


def slow_bucket(distance: int) -> int:
    """Return the bucket: 0, 1, 2-3, 4-7, ..., 512 and more, and the same below 0; row 0 is that of -512."""
    bucket = 0
    while 2**bucket <= abs(distance) and bucket < 10:
        bucket += 1
    return 10 + (bucket if distance > 0 else -bucket)


def slow_place(places: PlaceEmbedding, i: int, j: int) -> Tensor:
    region = places.regions.weight[0 if i <= j else 1]
    return torch.cat((region, places.distances.weight[slow_bucket(j - i)]))


def slow_cell(method: BoundaryOffset, vectors: Tensor, h_m: Tensor, i: int, j: int) -> Tensor:
    """c_mij of one sentence `[T, d]` and one type `[d]`, Eq. 1-3: `[L]`."""
    v_ij = slow_conditional_norm(method.span_norm, vectors[i], vectors[j])
    weight = method.span_view.weight
    if method.settings.region_size + method.settings.distance_size:
        v_ij = torch.cat((v_ij, slow_place(method.places, i, j)))
        weight = torch.cat((weight, method.place_view.weight), dim=1)
    type_view = (method.type_view.linear.weight @ h_m + method.type_view.linear.bias).relu()
    span_view = (weight @ v_ij + method.span_view.bias).relu()
    views = torch.cat((type_view, span_view))
    scores = [
        type_view @ method.U[n] @ span_view + method.W[n] @ views + method.b[n]
        for n in range(len(method.labels))
    ]
    score = torch.stack(scores)
    if method.second is not None:
        second = method.second
        score = score + second.linear.weight @ slow_conditional_norm(second.norm, h_m, v_ij)
        score = score + second.linear.bias
    return score


def slow_grid(method: BoundaryOffset, vectors: Tensor, types: Tensor) -> Tensor:
    """Eq. 1-5 for one sentence without padding, `[T, d]`, and types `[C, d]`: `[T, T, C, L]`."""
    length = len(vectors)
    grid = torch.stack(
        [slow_cell(method, vectors, h_m, i, j) for i in range(length) for j in range(length) for h_m in types]
    ).view(length, length, len(types), -1)
    if method.convolutions is None:
        return grid
    labels = len(method.labels)
    before, after = method.convolutions.before, method.convolutions.behind
    channels = grid.permute(3, 0, 1, 2)[None]  # [1, L, T, T, C]
    first = nn.functional.conv3d(channels, before.weight[:, :, None, None, None], before.bias)
    x = nn.functional.gelu(first)
    outputs = []
    for dilation, layer in enumerate(method.convolutions.layers, start=1):
        x = nn.functional.conv3d(
            x, layer.plain.weight, layer.plain.bias, padding=dilation, dilation=dilation, groups=labels
        )
        x = nn.functional.gelu(x)
        outputs.append(x)
    features = torch.cat(outputs, dim=1)
    last = nn.functional.conv3d(features, after.weight[:, :, None, None, None], after.bias)
    return grid + last[0].permute(1, 2, 3, 0)


def slow_grids(method: BoundaryOffset, words: Words) -> list[Tensor]:
    return [
        slow_grid(
            method,
            words.vectors[index, :length],
            method.type_vectors if words.prompts is None else words.prompts[index],
        )
        for index, length in enumerate(words.lengths.tolist())
    ]


NETWORKS: dict[str, dict] = {
    "plain": {"convolutions": 0},
    "one-convolution": {"convolutions": 1},
    "two-convolutions": {"convolutions": 2, "offsets": "end"},
    "three-convolutions": {"convolutions": 3},
    "second-score": {"convolutions": 0, "condition_types": True},
    "distances": {"convolutions": 0, "distance_size": 3, "condition_types": True},
    "distances-alone": {"convolutions": 1, "distance_size": 3, "region_size": 0},
    "embedding": {"convolutions": 1, "type_inputs": "embedding", "condition_types": True},
    "no-offsets": {"convolutions": 2, "max_offset": 0},
    "all": {
        "convolutions": 3,
        "condition_types": True,
        "distance_size": 2,
        "max_offset": 2,
        "offsets": "start",
    },
}


def words_for(method: BoundaryOffset, lengths: list[int]) -> Words:
    prompts = method.settings.type_inputs == "prompts"
    return words_of(lengths, len(method.types) if prompts else 0)


def loss_of(method: BoundaryOffset, words: Words, batch: list[set[Key]]) -> Tensor:
    terms = method.loss(method.score(words), gold_of(batch))
    assert list(terms) == ["offset_loss"]
    return terms["offset_loss"]


def gradients_of(method: BoundaryOffset, loss: Tensor) -> dict[str, Tensor]:
    method.zero_grad()
    loss.backward()
    assert all(parameter.grad is not None for parameter in method.parameters())
    gradients = {name: parameter.grad.clone() for name, parameter in method.named_parameters()}
    return {"loss": loss.detach()} | gradients


LENGTHS = [5, 1, 9, 3]


BATCH: list[set[Key]] = [
    {(0, 3, 0), (1, 3, 0), (1, 3, 2), (4, 5, 1)},
    {(0, 1, 1)},
    {(2, 8, 0), (2, 6, 0), (0, 9, 2), (8, 9, 2)},
    set(),
]
