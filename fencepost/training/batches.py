"""Batches of sentences of similar length, in another random order in each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_POOL = 50
"""Number of batches whose sentences are sorted together by length: large enough for little padding, small
enough for random batches."""


class LengthGroupedBatches:
    """Batches of indices, shuffled in each epoch; they depend only on the seed and the epoch.

    With several processes, batches are those of one process with a batch size as large as theirs together.
    Each batch is divided among the processes; the part of a process may be empty.
    """

    def __init__(
        self, sizes: Sequence[int], batch_size: int, seed: int, process: int = 0, processes: int = 1
    ) -> None:
        self.sizes = np.asarray(sizes)
        self.batch_size = batch_size * processes  # of all processes together
        self.seed = seed
        self.process, self.processes = process, processes
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
            some = order[start : start + pool]
            some = some[np.argsort(-self.sizes[some], kind="stable")]
            batches += [
                some[first : first + self.batch_size].tolist()
                for first in range(0, len(some), self.batch_size)
            ]
        for index in random.permutation(len(batches)):
            yield batches[index][self.process :: self.processes]  # every process gets similar lengths
