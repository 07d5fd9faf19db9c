"""The loss of boundary offsets equals that of a simple loop, and does not depend on blocks."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fencepost.encoder.encoder import Words
from fencepost.methods.boundary_offset import decode, loss
from fencepost.methods.boundary_offset import network as boundary_offset
from fencepost.methods.boundary_offset.blocks import Block, split_blocks
from fencepost.methods.boundary_offset.decode import Cells, OffsetDecoder, OffsetScores
from fencepost.methods.boundary_offset.labels import CENTRE, OUT_OF_RANGE, Labels
from fencepost.methods.boundary_offset.network import BoundaryOffset
from fencepost.methods.boundary_offset.settings import BoundaryOffsetPredict, BoundaryOffsetSettings
from fencepost.methods.decoder import WordArrays
from tests.methods.boundary_offset.cases import (
    BATCH,
    LENGTHS,
    TYPES,
    Key,
    Picture,
    gold_of,
    gradients_of,
    loss_of,
    method_of,
    slow_decode,
    slow_grids,
    slow_targets,
    words_for,
    words_of,
)
from tests.methods.running import arrays_of, graphs_of


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(0, 2000),
    st.sampled_from([0, 1, 3, 6]),
)
def test_blocks_cover_each_row_of_each_sentence_once(lengths: list[int], pairs: int, reach: int) -> None:
    rows = []
    for sentences, first, stop, length in split_blocks(lengths, pairs, reach):
        assert length == max(lengths[index] for index in sentences)
        assert 0 <= first < stop <= length
        rows += [(index, row) for index in sentences for row in range(first, stop) if row < lengths[index]]
        if (first, stop) == (0, length) and len(sentences) > 1:
            assert len(sentences) * length**2 <= pairs
        else:
            assert len(sentences) == 1
        if (first, stop) != (0, length):
            assert length**2 > pairs
        if stop - first > 1 and (first, stop) != (0, length):
            assert (stop - first + 2 * reach) * length <= pairs
    assert sorted(rows) == [(index, row) for index, n in enumerate(lengths) for row in range(n)]


def blocks_of(method: BoundaryOffset, lengths: Tensor, monkeypatch) -> list[Block]:
    """Return the blocks in which the loss is computed."""
    blocks: list[Block] = []
    with monkeypatch.context() as patch:
        patch.setattr(method, "compute_grid", lambda _, block: blocks.append(block))
        patch.setattr(
            boundary_offset, "sum_cross_entropy", lambda grid, blocks, *_: [grid(b) for b in blocks]
        )
        words = words_of([1], types=len(method.types))
        scores = method.score(words)
        method.loss(dataclasses.replace(scores, lengths=lengths), gold_of([set()]))
    return blocks


@pytest.mark.parametrize("wider", [{"size": 1000}, {"max_offset": 40}, {"types": tuple("ABCDEFGHIJKLMNOP")}])
def test_wider_networks_need_more_blocks(wider: dict, monkeypatch) -> None:
    lengths = torch.full((8,), 250)
    wide, usual = (len(blocks_of(one, lengths, monkeypatch)) for one in (method_of(**wider), method_of()))
    assert wide > usual


def test_small_batch_is_one_block(monkeypatch) -> None:
    [block] = blocks_of(method_of(), torch.tensor([3, 7, 1]), monkeypatch)
    assert (sorted(block.sentences), block.first, block.end, block.length) == ([0, 1, 2], 0, 7, 7)


BUDGETS = {"rows": 1, "some-rows": 10_000, "groups": 30_000}


EVERYTHING = {"condition_types": True, "distance_size": 2, "label_smoothing": 0.1}


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS.keys())
@pytest.mark.parametrize("convolutions", [0, 1, 3])
def test_blocks_change_neither_loss_nor_gradients(monkeypatch, convolutions: int, budget: int) -> None:
    method = method_of(convolutions=convolutions, **EVERYTHING)
    words = words_of(LENGTHS)
    expected = gradients_of(method, loss_of(method, words, BATCH))
    with torch.no_grad():
        total = loss_of(method, words, BATCH)
    monkeypatch.setattr(boundary_offset, "_BUDGET", budget)
    assert len(blocks_of(method, words.lengths, monkeypatch)) > 1
    gradients = gradients_of(method, loss_of(method, words, BATCH))
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    with torch.no_grad():
        torch.testing.assert_close(loss_of(method, words, BATCH), total)


@pytest.mark.parametrize("convolutions", [0, 1, 3])
def test_labels_computed_row_by_row_are_the_same(monkeypatch, convolutions: int) -> None:
    method, words = method_of(convolutions=convolutions, **EVERYTHING), words_of(LENGTHS)
    graph = boundary_offset.OffsetGraph(method)
    calls: list[int] = []
    grid = method.compute_grid
    monkeypatch.setattr(method, "compute_grid", lambda *args: (calls.append(1), grid(*args))[1])
    with torch.inference_mode():
        label, probability = graph(words.vectors, words.lengths, words.prompts)
        assert len(calls) == 1
        monkeypatch.setattr(boundary_offset, "_BUDGET", 1)  # a row at a time
        by_rows = graph(words.vectors, words.lengths, words.prompts)
    assert len(calls) == 1 + max(LENGTHS)
    assert torch.equal(by_rows[0], label)
    torch.testing.assert_close(by_rows[1], probability)


def test_recomputation_uses_the_same_dropout(monkeypatch) -> None:
    method = method_of(convolutions=1, dropout=0.5).train()
    words = words_of(LENGTHS)
    monkeypatch.setattr(boundary_offset, "_BUDGET", 10_000)
    torch.manual_seed(1)
    gradients = gradients_of(method, loss_of(method, words, BATCH))
    monkeypatch.setattr(loss, "checkpoint", lambda part, block, **_: part(block))
    torch.manual_seed(1)
    expected = gradients_of(method, loss_of(method, words, BATCH))
    for name, gradient in expected.items():
        torch.testing.assert_close(gradients[name], gradient, msg=name)


NEARLY = "nearly 0"


def as_picture(cells: Cells, labels: Labels) -> tuple[Picture, dict]:
    columns = (cells.sentence, cells.type, cells.start, cells.last)
    keys = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len(keys) == len(set(keys))
    names = [(NEARLY, *labels.names)[1 + label] for label in cells.label]
    return dict(zip(keys, names, strict=True)), dict(zip(keys, cells.probability.tolist(), strict=True))


@torch.no_grad()
def slow_picture(method: BoundaryOffset, words: Words) -> tuple[Picture, dict]:
    """Return the best label of each cell of the upper triangle, and its probability."""
    picture, probabilities = {}, {}
    for index, grid in enumerate(slow_grids(method, words)):
        for i, j, type_ in itertools.product(range(len(grid)), range(len(grid)), range(len(method.types))):
            scores = grid[i, j, type_].tolist()
            best = max(range(len(scores)), key=scores.__getitem__)
            name = method.labels.names[best]
            if best == OUT_OF_RANGE and scores[CENTRE] > scores[best] - 3:
                best, name = CENTRE, NEARLY
            if i <= j and best != OUT_OF_RANGE:
                total = sum(math.exp(score - scores[best]) for score in scores)
                picture[index, type_, i, j] = name
                probabilities[index, type_, i, j] = 1 / total
    return picture, probabilities


def scored(method: BoundaryOffset, words: Words) -> tuple[OffsetDecoder, OffsetScores]:
    decoder = OffsetDecoder(method.settings, method.types)
    return decoder, decoder.score(arrays_of(words), graphs_of(method, words), BoundaryOffsetPredict())


@pytest.mark.parametrize("convolutions", range(4))
def test_cells_and_candidates_equal_a_simple_loop(monkeypatch, convolutions: int) -> None:
    method = method_of(convolutions=convolutions)
    words = words_of(LENGTHS)
    expected = slow_picture(method, words)
    assert len(expected[0]) > 50
    length = max(LENGTHS)
    for at_once in (10**9, 2000, 1):
        monkeypatch.setattr(decode, "_NUMBERS_AT_ONCE", at_once)
        decoder, scores = scored(method, words)
        picture, probabilities = as_picture(scores.cells, method.labels)
        assert picture == expected[0]
        assert probabilities == pytest.approx(expected[1], abs=1e-4)
    for mode, threshold in itertools.product(("centre", "all", "rules"), (0.0, 0.3)):
        predict = BoundaryOffsetPredict(mode=mode, select="keep-all", threshold=threshold)
        candidates = predict.select_entities(decoder.candidates(scores, predict), TYPES)
        columns = (candidates.start, candidates.end, candidates.type)
        keys = zip(*(column.tolist() for column in columns), strict=True)
        confidences = dict(zip(keys, candidates.confidence.tolist(), strict=True))
        picture, probabilities = expected
        picture = {
            cell: "0" if name == NEARLY else name
            for cell, name in picture.items()
            if name != NEARLY or probabilities[cell] >= threshold
        }
        slow = slow_decode(picture, probabilities, LENGTHS, method.labels, 1, mode)
        in_batch = {
            (index * length + start, index * length + end, type_): confidence
            for (index, start, end, type_), confidence in slow.items()
            if confidence >= threshold
        }
        assert confidences == pytest.approx(in_batch, abs=1e-4)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=12))
def test_grids_are_computed_in_groups_of_limited_size(lengths: list[int]) -> None:
    """Each sentence is in one group, and a group of several has a limited number of scores."""
    decoder = OffsetDecoder(BoundaryOffsetSettings(), ["A", "B"])
    shapes: list[tuple[int, ...]] = []

    def offsets(vectors, lengths) -> list[np.ndarray]:
        shapes.append((*vectors.shape[:2], vectors.shape[1], 2))
        return [np.zeros(shapes[-1], dtype=np.int32), np.zeros(shapes[-1], dtype=np.float32)]

    words = WordArrays(np.zeros((len(lengths), max(lengths), 1), dtype=np.float32), np.array(lengths))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "_NUMBERS_AT_ONCE", 2000 * 2 * len(decoder.labels))
        decoder.score(words, {"offsets": offsets}, BoundaryOffsetPredict())
    assert sum(shape[0] for shape in shapes) == len(lengths)
    assert all(shape[0] == 1 or shape[0] * shape[1] ** 2 <= 2000 for shape in shapes)


def slow_loss(method: BoundaryOffset, words: Words, batch: list[set[Key]]) -> Tensor:
    settings = method.settings
    of_sentences, cells = [], []
    for grid, keys in zip(slow_grids(method, words), batch, strict=True):
        targets = slow_targets(keys, len(grid), settings.max_offset, settings.offsets)
        total = torch.zeros((), dtype=torch.float64)
        for (i, j, type_), name in targets.items():
            log_p = grid[i, j, type_] - grid[i, j, type_].exp().sum().log()
            label = method.labels.names.index(name)
            smooth = settings.label_smoothing
            total = total - (1 - smooth) * log_p[label] - smooth * log_p.sum() / len(log_p)
        of_sentences.append(total)
        cells.append(len(targets))
    if settings.mean_over == "batch":
        return torch.stack(of_sentences).sum() / sum(cells)
    if settings.mean_over == "sentences":
        return torch.stack(of_sentences).sum() / len(cells)
    means = [total / count for total, count in zip(of_sentences, cells, strict=True)]
    return torch.stack(means).sum() / len(means)


LOSSES: dict[str, dict] = {
    "sentences": {"convolutions": 0},
    "cells": {"convolutions": 0, "mean_over": "cells"},
    "batch": {"convolutions": 0, "mean_over": "batch"},
    "smoothed": {"label_smoothing": 0.2, "convolutions": 0, "mean_over": "cells"},
    "all": {
        "label_smoothing": 0.01,
        "mean_over": "batch",
        "max_offset": 2,
        "offsets": "start",
        "convolutions": 2,
        "condition_types": True,
        "distance_size": 2,
    },
    "embedding": {"type_inputs": "embedding", "max_offset": 0, "convolutions": 1},
}


@pytest.mark.parametrize("settings", LOSSES.values(), ids=LOSSES.keys())
def test_loss_and_gradients_equal_a_simple_loop(settings: dict) -> None:
    method = method_of(**settings)
    lengths = [5, 1, 3]
    batch = [{(0, 3, 0), (1, 3, 1), (1, 3, 2), (4, 5, 0)}, set(), {(0, 3, 2), (2, 3, 2)}]
    words = words_for(method, lengths)
    fast = gradients_of(method, loss_of(method, words, batch))
    slow = gradients_of(method, slow_loss(method, words, batch))
    for name, gradient in slow.items():  # ours is in single precision
        torch.testing.assert_close(fast[name].double(), gradient, rtol=1e-4, atol=1e-5, msg=name)


def test_loss_is_the_mean_of_the_losses_of_sentences() -> None:
    words = words_of(LENGTHS)
    each = []
    method = method_of(mean_over="cells")
    for index, length in enumerate(LENGTHS):
        one = slice(index, index + 1)
        alone = Words(words.vectors[one, :length], words.lengths[one], words.prompts[one])
        each.append(loss_of(method, alone, BATCH[one]))
    torch.testing.assert_close(loss_of(method, words, BATCH), torch.stack(each).mean())
    sizes = torch.tensor(LENGTHS) ** 2
    of_batch = loss_of(method_of(mean_over="batch"), words, BATCH)
    torch.testing.assert_close(of_batch, (torch.stack(each) * sizes).sum() / sizes.sum())
    of_sums = loss_of(method_of(mean_over="sentences"), words, BATCH)
    torch.testing.assert_close(of_sums, (torch.stack(each) * sizes * len(TYPES)).mean())


def test_batch_without_entities_has_a_loss_and_gradients() -> None:
    method = method_of(**EVERYTHING)
    gradients = gradients_of(method, loss_of(method, words_of([3, 1]), [set(), set()]))
    assert gradients["loss"] > 0
    assert all(gradient.isfinite().all() for gradient in gradients.values())


def test_bfloat16_loss_and_gradients_are_close_to_float32(monkeypatch) -> None:
    method = method_of(**EVERYTHING).float()
    words = words_of(LENGTHS)
    words = Words(words.vectors.float(), words.lengths, words.prompts.float())
    expected = gradients_of(method, loss_of(method, words, BATCH))
    for budget in (10**9, 10_000):
        monkeypatch.setattr(boundary_offset, "_BUDGET", budget)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = loss_of(method, words, BATCH)
        for name, gradient in gradients_of(method, half).items():
            tolerance = 0.1 * float(expected[name].abs().max())
            torch.testing.assert_close(
                gradient.float(), expected[name], rtol=0.1, atol=tolerance, msg=f"{name}, {budget}"
            )


def test_loss_is_float32_under_autocast() -> None:
    """In bfloat16, a loss and the weight of a cell would have only three digits."""
    method = method_of().float()
    words = words_of(LENGTHS)
    words = Words(words.vectors.float(), words.lengths, words.prompts.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss_of(method, words, BATCH).dtype == torch.float32
