from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.training.batches import LengthGroupedBatches

sizes_of = st.lists(st.integers(1, 60), min_size=1, max_size=150)
batch_sizes = st.integers(1, 20)


@given(sizes_of, batch_sizes, st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_every_sentence_is_in_one_batch_per_epoch(
    sizes: list[int], batch_size: int, seed: int, epoch: int
) -> None:
    batches = LengthGroupedBatches(sizes, batch_size, seed)
    batches.set_epoch(epoch)
    lists = list(batches)
    assert sorted(position for batch in lists for position in batch) == list(range(len(sizes)))
    assert len(lists) == len(batches)
    assert all(1 <= len(batch) <= batch_size for batch in lists)
    assert sum(len(batch) < batch_size for batch in lists) <= 1


@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=9), min_size=1, max_size=50), batch_sizes)
def test_blocks_stay_together(sizes: list[list[int]], batch_size: int) -> None:
    numbers = itertools.count()
    blocks = [[next(numbers) for _ in block] for block in sizes]
    lists = list(
        LengthGroupedBatches([size for block in sizes for size in block], batch_size, 1, blocks=blocks)
    )
    assert sorted(position for batch in lists for position in batch) == list(range(next(numbers)))
    assert all(any(set(block) <= set(batch) for batch in lists) for block in blocks)
    counts = [sum(block[0] in batch for block in blocks) for batch in lists]
    assert len(set(counts)) <= 2  # all batches have equally many blocks, but for the smallest one
    mean = sum(map(len, blocks)) / len(blocks)
    assert max(counts) == min(max(1, round(batch_size / mean)), len(blocks))


@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=9), min_size=1, max_size=50),
    batch_sizes,
    st.floats(0, 1),
)
def test_share_of_batches_has_the_sentences_of_other_blocks_without_context(
    sizes: list[list[int]], batch_size: int, share: float
) -> None:
    numbers = itertools.count()
    blocks = [[next(numbers) for _ in block] for block in sizes]
    count = next(numbers)
    batches = LengthGroupedBatches(
        [size for block in sizes for size in block], batch_size, 1, blocks=blocks, without_context=share
    )
    lists = list(batches)
    assert len(lists) == len(batches)
    alone = [batch for batch in lists if batch[0] >= count]
    assert len(alone) == round(share * len(lists))
    assert all(min(batch) >= count for batch in alone)
    assert sorted(index % count for batch in lists for index in batch) == list(range(count))
    for block in blocks:
        assert len({index < count for batch in lists for index in batch if index % count in block}) == 1
    lengths = list(map(len, alone))
    assert max(lengths, default=0) - min(lengths, default=0) <= 1


def of_epoch(epoch: int, seed: int = 1, count: int = 100) -> list[list[int]]:
    batches = LengthGroupedBatches([1 + position % 7 for position in range(count)], 4, seed)
    batches.set_epoch(epoch)
    return list(batches)


def test_order_depends_only_on_seed_and_epoch() -> None:
    assert of_epoch(3) == of_epoch(3)
    assert of_epoch(3) != of_epoch(4)
    assert of_epoch(3) != of_epoch(3, seed=2)
    together = [{frozenset(batch) for batch in of_epoch(epoch)} for epoch in (0, 1)]
    assert together[0] != together[1]  # batches have other sentences, too


def test_grouping_by_length_needs_little_padding() -> None:
    random = np.random.default_rng(0)
    sizes = random.gamma(4, 6, 5000).astype(int) + 1

    def padding(batches: list[list[int]]) -> float:
        area = sum(len(batch) * sizes[batch].max() for batch in batches)
        return 1 - sizes.sum() / area

    at_random = np.array_split(random.permutation(5000), 5000 // 16)
    assert padding(at_random) > 0.35
    assert padding(list(LengthGroupedBatches(sizes, 16, 1))) < 0.05


def test_batches_are_not_ordered_by_length() -> None:
    sizes = list(range(800))
    firsts = [max(batch) for batch in LengthGroupedBatches(sizes, 4, 1)]
    assert firsts != sorted(firsts, reverse=True)
    assert np.corrcoef(firsts, range(len(firsts)))[0, 1] == pytest.approx(0, abs=0.3)


@given(sizes_of, batch_sizes, st.integers(2, 5), st.integers(0, 5), st.integers(0, 5))
def test_batches_of_processes_form_one_larger_batch(
    sizes: list[int], batch_size: int, processes: int, seed: int, epoch: int
) -> None:
    """In each step, including that with the single smaller batch."""

    def of_process(index: int) -> list[list[int]]:
        batches = LengthGroupedBatches(sizes, batch_size, seed, index, processes)
        batches.set_epoch(epoch)
        lists = list(batches)
        assert len(lists) == len(batches)
        return lists

    alone = LengthGroupedBatches(sizes, processes * batch_size, seed)
    alone.set_epoch(epoch)
    shares = [of_process(index) for index in range(processes)]
    assert {len(of) for of in shares} == {len(alone)}
    for whole, *parts in zip(alone, *shares, strict=True):
        assert sorted(position for part in parts for position in part) == sorted(whole)
        assert max(map(len, parts)) <= batch_size
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
