"""The best sentences of a stream so far: a bounded number, each text once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence

FloatArray = npt.NDArray[np.float64]
VectorArray = npt.NDArray[np.float32]
_SPACE = 2.0**64


def compute_key(words: Iterable[str]) -> bytes:
    """Return what two sentences share if their texts differ in white space alone."""
    text = "".join("".join(word.split()) for word in words)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def draw_number(key: bytes, seed: int) -> float:
    """Return a random number from 0 to 1 that depends on the seed and the text alone."""
    digest = hashlib.blake2b(key, digest_size=8, salt=str(seed).encode()[:16]).digest()
    return int.from_bytes(digest, "big") / _SPACE


@dataclass(frozen=True, eq=False)
class Pool:
    """At most `size` sentences, by falling score; of equal scores, those with the higher random number."""

    size: int
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))  # [N]
    numbers: FloatArray = field(default_factory=lambda: np.zeros(0))  # [N], random
    vectors: VectorArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))  # [N, d]
    sentences: Sequence[Sentence] = ()

    @cached_property
    def keys(self) -> frozenset[bytes]:
        """The texts of the sentences."""
        return frozenset(compute_key(sentence.words) for sentence in self.sentences)

    @property
    def lowest(self) -> float:
        """A score below which no further sentence is kept."""
        return -np.inf if len(self.scores) < self.size else float(self.scores[-1])

    def add(
        self,
        scores: FloatArray,
        numbers: FloatArray,
        vectors: VectorArray,
        sentences: Sequence[Sentence],
    ) -> Pool:
        """Return the best of these sentences and of others."""
        both = [np.concatenate(pair) for pair in ((self.scores, scores), (self.numbers, numbers))]
        kept = np.lexsort((-both[1], -both[0]))[: self.size]
        rows = np.concatenate((self.vectors, vectors)) if self.sentences else vectors
        every = [*self.sentences, *sentences]
        return Pool(
            self.size, both[0][kept], both[1][kept], rows[kept], [every[row] for row in kept.tolist()]
        )
