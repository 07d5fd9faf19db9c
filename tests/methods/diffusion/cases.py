"""What the tests of diffusion share: small networks, batches of sentences, and the slow versions of all."""

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
    """With nothing left to the defaults."""
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
    """A small one, with weights that are all random, in double precision."""
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
    """What the decoder makes of noise, with the graphs of PyTorch, as tensors; no noisy spans are known."""
    graphs = {name: ModuleGraph(graph) for name, graph in method.eval().graphs(words).items()}
    arrays = WordArrays(words.vectors.numpy(), words.lengths.numpy())
    scores = (decoder or decoder_of(method)).score(arrays, graphs, predict_of(**predict))
    types, boundaries = map(torch.from_numpy, scores[:2])
    empty = torch.zeros_like(types[..., 0], dtype=torch.long)
    return DenoisedScores(types, boundaries, (empty, empty), words.lengths)


def candidates_of(scores: DenoisedScores, **predict) -> Candidates:
    """Each once, as they are selected from."""
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
    """Random vectors; those after the end of a sentence are huge: they must not matter."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), WIDTH, generator=generator, dtype=torch.float64)
    words = Words(vectors, torch.tensor(lengths))
    vectors[~words.mask] *= 100
    return words


def alone(words: Words, index: int) -> Words:
    """One sentence of a batch, without padding."""
    one = slice(index, index + 1)
    return Words(words.vectors[one, : int(words.lengths[index])], words.lengths[one])


def gold_of(batch: list[list[Key]]) -> Gold:
    """The sentences take turns; the entities of one keep their order."""
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
    """What the network is asked about when a batch is learnt, by sentence and draw."""

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


Said = tuple[Tensor, Tensor]  # of one draw of one sentence: what `SlowDenoiser` gives


def said_in(scores: DenoisedScores, draws: int = 1) -> dict[tuple[int, int], Said]:
    """By sentence and draw, without the padding, which must be out of the question."""
    result = {}
    for row, length in enumerate(scores.lengths.tolist()):
        assert not scores.boundaries[:, row, :, length:].sigmoid().any()
        result[divmod(row, draws)] = (
            scores.types[row].double(),
            scores.boundaries[:, row, :, :length].double(),
        )
    return result


def denoised(types: Tensor, boundaries: Tensor, lengths: list[int], seed: int = 0) -> DenoisedScores:
    """Of noisy spans that may have been any; types are `[B, R, K, C + 1]`, boundaries `[2, B, R, K, T]`."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.rand(2, *types.shape[:3], generator=generator)
    ends = (shares * torch.tensor(lengths)[:, None, None]).long()
    return by_row(types, boundaries, (ends.amin(dim=0), ends.amax(dim=0)), torch.tensor(lengths))


def by_row(
    types: Tensor, boundaries: Tensor, noisy: tuple[Tensor, Tensor], lengths: Tensor
) -> DenoisedScores:
    """Each draw of a sentence is a row of the batch."""
    left, right = (end.flatten(0, 1) for end in noisy)
    repeated = lengths.repeat_interleave(types.shape[1])
    return DenoisedScores(types.flatten(0, 1), boundaries.flatten(1, 2), (left, right), repeated)


def scores_of(lengths: list[int], spans: int, draws: int = 1, seed: int = 0) -> DenoisedScores:
    """Any logits, in double precision; words that are not there are out of the question."""
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
    """By sentence and draw."""
    left, right = scores.noisy
    return {
        divmod(row, draws): list(zip(left[row].tolist(), right[row].tolist(), strict=True))
        for row in range(len(left))
    }


def assert_same(result: dict, expected: dict, atol: float = 1e-5) -> None:
    """Beside the loops, less exactly: codes of late times are in single precision."""
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
    """All, of those without any zero."""
    method.zero_grad()
    loss.backward()
    return {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in method.named_parameters()
    }
