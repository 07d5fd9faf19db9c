"""Which sentences are learnt from together: those of like length, in an order that changes by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_POOL = 50
"""Batches that are drawn together and then sorted by length: large enough to waste little on padding,
small enough to leave much to chance."""


class LengthGroupedBatches:
    """Batches of positions, shuffled anew for each epoch, always the same for one seed and epoch.

    For several processes they are drawn as for one whose batches are as large as theirs together. Each is
    cut into shares, one for each process in turn; the share of a last one may be empty.
    """

    # For accelerate, which deals batches out to processes: all count, and their sizes may differ. With
    # a size given it would take the one small batch, which may come at any time, for the end.
    batch_size = None
    drop_last = False

    def __init__(self, sizes: Sequence[int], batch_size: int, seed: int, processes: int = 1) -> None:
        self.sizes = np.asarray(sizes)
        self.at_most = batch_size * processes
        self.processes = processes
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.sizes) // self.at_most) * self.processes

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(len(self.sizes))
        pool = _POOL * self.at_most
        batches: list[list[int]] = []
        for start in range(0, len(order), pool):
            drawn = order[start : start + pool]
            drawn = drawn[np.argsort(-self.sizes[drawn], kind="stable")]
            batches += [
                drawn[first : first + self.at_most].tolist() for first in range(0, len(drawn), self.at_most)
            ]
        for index in random.permutation(len(batches)):
            for process in range(self.processes):
                yield batches[index][process :: self.processes]  # sentences of like length to all
