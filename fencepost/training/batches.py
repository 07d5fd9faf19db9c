"""Batches of sentences of similar length, in another random order in each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

_POOL = 50
"""Number of batches whose sentences are sorted together by length: large enough for little padding, small
enough for random batches."""


class LengthGroupedBatches:
    """Batches of indices, shuffled in each epoch; they depend only on the seed and the epoch.

    `sizes` are those of sentences, and `blocks` lists of the indices of those that stay together; by default,
    each is alone. Batches have the same number of blocks, and about `batch_size` sentences.

    With several processes, batches are those of one process with a batch size as large as theirs together.
    Each batch is divided among the processes; the part of a process may be empty.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        batch_size: int,
        seed: int,
        process: int = 0,
        processes: int = 1,
        blocks: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.blocks = blocks if blocks is not None else [[index] for index in range(len(sizes))]
        self.sizes = np.array([sum(sizes[index] for index in block) for block in self.blocks])
        of_all = batch_size * processes  # of all processes together
        self.blocks_in_batch = max(1, round(of_all * len(self.blocks) / max(1, len(sizes))))
        self.seed = seed
        self.process, self.processes = process, processes
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-len(self.blocks) // self.blocks_in_batch)

    def __iter__(self) -> Iterator[list[int]]:
        random = np.random.default_rng((self.seed, self.epoch))
        order = random.permutation(len(self.blocks))
        size = self.blocks_in_batch
        batches: list[list[int]] = []
        for start in range(0, len(order), _POOL * size):
            some = order[start : start + _POOL * size]
            some = some[np.argsort(-self.sizes[some], kind="stable")]
            batches += [some[first : first + size].tolist() for first in range(0, len(some), size)]
        for number in random.permutation(len(batches)):
            own = batches[number][self.process :: self.processes]  # every process gets similar lengths
            yield [index for block in own for index in self.blocks[block]]
