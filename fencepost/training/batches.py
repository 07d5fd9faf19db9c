"""Which sentences are learnt from together: those of like length, in an order that changes by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_POOL = 50
"""Batches that are drawn together and then sorted by length: large enough to waste little on padding,
small enough to leave much to chance."""


class LengthGroupedBatches:
    """Batches of positions, shuffled anew for each epoch, always the same for one seed and epoch."""

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int) -> None:
        self.sizes = np.asarray(sizes)
        self.batch_size = batch_size
        self.drop_last = False  # accelerate asks for this when it shares batches out to processes
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.sizes) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(len(self.sizes))
        pool = _POOL * self.batch_size
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            drawn = order[start : start + pool]
            drawn = drawn[np.argsort(-self.sizes[drawn], kind="stable")]
            batches += [
                drawn[first : first + self.batch_size].tolist()
                for first in range(0, len(drawn), self.batch_size)
            ]
        for index in random.permutation(len(batches)):
            yield batches[index]
