"""Shared by the tests of diffusion: small networks, batches of sentences, and converted results."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import torch
from torch import Tensor

from fencepost.encoder.encoder import Words
from fencepost.methods.candidates import Candidates, select
from fencepost.methods.decoder import WordArrays
from fencepost.methods.diffusion import network as module
from fencepost.methods.diffusion.decode import Denoised, DiffusionDecoder
from fencepost.methods.diffusion.loss import DenoisedScores
from fencepost.methods.diffusion.network import Diffusion
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings
from fencepost.methods.network import Gold
from fencepost.runtime.pytorch import ModuleGraph

TYPES = ("A", "B", "C")

WIDTH = 6  # of word vectors

Key = tuple[int, int, int]  # start, end, type

Ends = tuple[int, int]  # first and last word of a span

Found = dict[Key, float]  # start and end in the batch, type: confidence


def settings_of(**settings) -> DiffusionSettings:
    """Return settings without defaults."""
    return DiffusionSettings(
        **{
            "spans": 5,
            "draws": 1,
            "times": 1000,
            "schedule": "cosine",
            "scale": 1.0,
            "coordinates": "left-width",
            "expansion": "repeat",
            "targets": "repeat",
            "distance": 0.0,
            "pooling": "mean",
            "positions": False,
            "proposal_codes": False,
            "verifier": False,
            "self_attention": True,
            "cross_attention": True,
            "size": 8,
            "layers": 2,
            "heads": 2,
            "feed_forward": 7,
            "pointer_size": 5,
            "dropout": 0.0,
            "none_weight": 0.7,
            "boundary_weight": 1.3,
        }
        | settings
    )


def predict_of(**predict) -> DiffusionPredict:
    return DiffusionPredict(
        **{"select": "keep-all", "steps": 5, "spans": 7, "threshold": 0.0, "eta": 0.0, "seed": 0} | predict
    )


def method_of(**settings) -> Diffusion:
    """Return a small method with random weights in double precision."""
    method = Diffusion(settings_of(**settings), WIDTH, TYPES).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return method.eval()


def decoder_of(method: Diffusion) -> DiffusionDecoder:
    return DiffusionDecoder(method.settings, TYPES)


def sampled(
    method: Diffusion, words: Words, decoder: DiffusionDecoder | None = None, **predict
) -> DenoisedScores:
    """Return the scores that the decoder computes from noise with PyTorch, without noisy spans."""
    graphs = {name: ModuleGraph(graph) for name, graph in method.eval().graphs(words).items()}
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    scores = (decoder or decoder_of(method)).score(arrays, graphs, predict_of(**predict))
    types, boundaries = map(torch.from_numpy, scores[:2])
    empty = torch.zeros_like(types[..., 0], dtype=torch.long)
    return DenoisedScores(types, boundaries, (empty, empty), words.lengths)


def candidates_of(scores: DenoisedScores, **predict) -> Candidates:
    """Return the candidates without duplicates."""
    types, boundaries = scores.types.detach().numpy(), scores.boundaries.detach().numpy()
    arrays = Denoised(types, boundaries, boundaries.argmax(axis=3)[None])
    settings = predict_of(**predict)
    return select(decoder_of(method_of()).candidates(arrays, settings), "keep-all")


NETWORKS: dict[str, dict] = {
    "paper": {},
    "positions": {"positions": True},
    "proposal-codes": {"proposal_codes": True},
    "both-codes": {"positions": True, "proposal_codes": True},
    "first-and-last": {"pooling": "first+last"},
    "first-and-last-with-positions": {"pooling": "first+last", "positions": True, "heads": 4},
    "no-self-attention": {"self_attention": False, "positions": True},
    "no-cross-attention": {"cross_attention": False, "positions": True},
    "no-attention": {"self_attention": False, "cross_attention": False},
    "no-layers": {"layers": 0, "positions": True},
    "left-and-right": {"coordinates": "left-right", "scale": 2.0, "layers": 1},
    "draws": {"draws": 3, "positions": True},
}


def words_of(lengths: list[int], seed: int = 0) -> Words:
    """Return random vectors; those of padding are huge and must have no effect."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator, dtype=torch.float64)
    words = Words(vectors, torch.tensor(lengths))
    vectors[~words.mask] *= 100
    return words


def alone(words: Words, index: int) -> Words:
    """Return one sentence of a batch, without padding."""
    one = slice(index, index + 1)
    return Words(words.vectors[one, : int(words.lengths[index])], words.lengths[one])


def gold_of(batch: list[list[Key]]) -> Gold:
    """Return the gold with alternating sentences; the entities of a sentence keep their order."""
    turns = itertools.zip_longest(*([(index, *key) for key in keys] for index, keys in enumerate(batch)))
    rows = [row for turn in turns for row in turn if row is not None]
    return Gold.from_columns(torch.tensor(rows, dtype=torch.long).view(-1, 4))


LENGTHS = [9, 1, 12, 4, 6]

BATCH: list[list[Key]] = [
    [(1, 4, 0), (0, 6, 1), (0, 6, 2)],
    [(0, 1, 1)],
    [(0, 12, 0), (2, 9, 2), (3, 9, 2), (10, 12, 1), (11, 12, 0)],
    [],
    [(4, 6, 0), (2, 5, 1)],
]


class Noised(NamedTuple):
    """Inputs and scores of the network in training, by sentence and draw."""

    numbers: Tensor  # [B, R, K, 2]
    left: Tensor  # [B, R, K]
    right: Tensor  # [B, R, K]
    time: Tensor  # [B, R]
    scores: DenoisedScores


def noised(monkeypatch, method: Diffusion, words: Words, batch: list[list[Key]]) -> Noised:
    tensors: list[Tensor] = []
    with monkeypatch.context() as patch:

        def decode_spans(numbers: Tensor, *rest) -> tuple[Tensor, Tensor]:
            tensors.append(numbers)
            return decode(numbers, *rest)

        decode = module.decode_spans
        patch.setattr(module, "decode_spans", decode_spans)
        hook = method.denoiser.register_forward_pre_hook(lambda _, inputs: tensors.extend(inputs[:3]))
        scores = method.score(words, gold_of(batch))
        hook.remove()
    assert len(tensors) == 4
    assert torch.equal(torch.stack(scores.noisy), torch.stack(tensors[1:3]))
    by_draw = (len(words.lengths), method.settings.draws)
    return Noised(*(part.unflatten(0, by_draw) for part in tensors), scores)


Said = tuple[Tensor, Tensor]  # the result of `SlowDenoiser` for one draw of one sentence


def said_in(scores: DenoisedScores, draws: int = 1) -> dict[tuple[int, int], Said]:
    """Return scores by sentence and draw, without padding, whose probabilities must be 0."""
    result = {}
    for row, length in enumerate(scores.lengths.tolist()):
        assert not scores.boundaries[:, row, :, length:].sigmoid().any()
        result[divmod(row, draws)] = (
            scores.types[row].double(),
            scores.boundaries[:, row, :, :length].double(),
        )
    return result


def denoised(types: Tensor, boundaries: Tensor, lengths: list[int], seed: int = 0) -> DenoisedScores:
    """Return scores with random noisy spans; types are `[B, R, K, C + 1]`, boundaries `[2, B, R, K, T]`."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(2, *types.shape[:3], generator=generator)
    ends = (shares * torch.tensor(lengths)[:, None, None]).long()
    return by_row(types, boundaries, (ends.amin(dim=0), ends.amax(dim=0)), torch.tensor(lengths))


def by_row(
    types: Tensor, boundaries: Tensor, noisy: tuple[Tensor, Tensor], lengths: Tensor
) -> DenoisedScores:
    """Make each draw of a sentence a row of the batch."""
    left, right = (end.flatten(0, 1) for end in noisy)
    repeated = lengths.repeat_interleave(types.shape[1])
    return DenoisedScores(types.flatten(0, 1), boundaries.flatten(1, 2), (left, right), repeated)


def scores_of(lengths: list[int], spans: int, draws: int = 1, seed: int = 0) -> DenoisedScores:
    """Return random logits in double precision; those of padding are very low."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), draws, spans)
    types = 2 * torch.randn(*shape, 1 + len(TYPES), generator=generator, dtype=torch.float64)
    boundaries = 2 * torch.randn(2, *shape, max(lengths), generator=generator, dtype=torch.float64)
    outside = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None, None, None]
    boundaries = boundaries.masked_fill(outside, -10_000.0)
    scores = denoised(types, boundaries, lengths, seed)
    scores.types.requires_grad_()
    scores.boundaries.requires_grad_()
    return scores


def noisy_in(scores: DenoisedScores, draws: int = 1) -> dict[tuple[int, int], list[Ends]]:
    """Return the noisy spans by sentence and draw."""
    left, right = scores.noisy
    return {
        divmod(row, draws): list(zip(left[row].tolist(), right[row].tolist(), strict=True))
        for row in range(len(left))
    }


def assert_same(result: dict, expected: dict, atol: float = 1e-5) -> None:
    """Compare with the loops up to a tolerance: codes of late times are in single precision."""
    assert result.keys() == expected.keys()
    for place, row in expected.items():
        for ours, theirs in zip(result[place], row, strict=True):
            torch.testing.assert_close(
                ours, theirs, rtol=1e-5, atol=atol, msg=lambda m, at=place: f"{at} {m}"
            )


def found_in(candidates: Candidates) -> Found:
    columns = (candidates.start.tolist(), candidates.end.tolist(), candidates.type.tolist())
    keys = list(zip(*columns, strict=True))
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, candidates.confidence.tolist(), strict=True))


def gradients_of(method: Diffusion, loss: Tensor) -> dict[str, Tensor]:
    """Return all gradients, with 0 for weights that have none."""
    method.zero_grad()
    loss.backward()
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in method.named_parameters()
    }
