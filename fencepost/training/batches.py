"""Batches of sentences of similar length, in another random order in each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

_POOL = 50
"""Number of batches whose sentences are sorted together by length: large enough for little padding, small
enough for random batches."""


class LengthGroupedBatches:
    """Batches of indices, shuffled in each epoch; they depend only on the seed and the epoch.

    `sizes` are those of sentences, and `blocks` lists of the indices of those that stay together; by default,
    each is alone. Batches have the same number of blocks, and about `batch_size` sentences.

    A share `without_context` of the batches has the sentences of other blocks, taken apart and grouped by
    their own length. The index of such a sentence is increased by the number of sentences.

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
        without_context: float = 0.0,
    ) -> None:
        self.sizes = np.asarray(sizes)
        self.blocks = blocks if blocks is not None else [[index] for index in range(len(sizes))]
        self.block_sizes = np.array([self.sizes[block].sum() for block in self.blocks])
        of_all = batch_size * processes  # of all processes together
        self.blocks_in_batch = max(1, round(of_all * len(self.blocks) / max(1, len(sizes))))
        self.batches_without_context = round(without_context * len(self))
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
        taken_apart = self.batches_without_context * self.blocks_in_batch
        batches = [*self._group_sentences(order[:taken_apart]), *self._group_blocks(order[taken_apart:])]
        for number in random.permutation(len(batches)):
            own = batches[number][self.process :: self.processes]  # every process gets similar lengths
            yield [index for block in own for index in block]

    def _group_blocks(self, order: npt.NDArray[np.int64]) -> Iterator[list[Sequence[int]]]:
        """Yield batches of blocks of similar size."""
        size = self.blocks_in_batch
        for start in range(0, len(order), _POOL * size):
            some = order[start : start + _POOL * size]
            some = some[np.argsort(-self.block_sizes[some], kind="stable")]
            for first in range(0, len(some), size):
                yield [self.blocks[block] for block in some[first : first + size]]

    def _group_sentences(self, order: npt.NDArray[np.int64]) -> Iterator[list[Sequence[int]]]:
        """Yield the batches without context, of the sentences of these blocks."""
        if not len(order):
            return
        indices = np.concatenate([self.blocks[block] for block in order])
        indices = indices[np.argsort(-self.sizes[indices], kind="stable")]
        for of_batch in np.array_split(indices, self.batches_without_context):
            yield [[index] for index in (of_batch + len(self.sizes)).tolist()]
