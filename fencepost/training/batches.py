"""Batches of sentences of similar length, in an order that changes with each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_POOL = 50
"""Batches that are drawn together and then sorted by length: large enough to waste little on padding,
small enough to leave much to chance."""


class LengthGroupedBatches:
    """Batches of positions, shuffled for each epoch, always the same for one seed and epoch.

    With several processes, batches are drawn as for one process whose batches are as large as theirs
    together. Each is divided among the processes, and the part of one process may be empty.
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
            drawn = order[start : start + pool]
            drawn = drawn[np.argsort(-self.sizes[drawn], kind="stable")]
            batches += [
                drawn[at : at + self.batch_size].tolist() for at in range(0, len(drawn), self.batch_size)
            ]
        for index in random.permutation(len(batches)):
            yield batches[index][self.process :: self.processes]  # every process gets similar lengths
