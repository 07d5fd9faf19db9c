"""Pool with a bounded number of the best sentences of a stream; each text occurs once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fencepost.data.entity import Sentence
from fencepost.methods.candidates import FloatArray

VectorArray = npt.NDArray[np.float32]
_SPACE = 2.0**64


def compute_key(words: Iterable[str]) -> bytes:
    """Return a key that two sentences share if their texts differ only in white space."""
    text = "".join("".join(word.split()) for word in words)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def draw_number(key: bytes, seed: int) -> float:
    """Return a random number from 0 to 1 that depends only on the seed and the text."""
    digest = hashlib.blake2b(key, digest_size=8, salt=str(seed).encode()[:16]).digest()
    return int.from_bytes(digest, "big") / _SPACE


@dataclass(frozen=True, eq=False)
class Pool:
    """At most `size` sentences, by descending score; equal scores are ordered by descending random number."""

    size: int
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))  # [N]
    numbers: FloatArray = field(default_factory=lambda: np.zeros(0))  # [N], random
    vectors: VectorArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.float32))  # [N, d]
    sentences: Sequence[Sentence] = ()

    @cached_property
    def keys(self) -> frozenset[bytes]:
        """Keys of the sentences."""
        return frozenset(compute_key(sentence.words) for sentence in self.sentences)

    @property
    def lowest(self) -> float:
        """Minimum score for a sentence to be added."""
        return -np.inf if len(self.scores) < self.size else float(self.scores[-1])

    def add(
        self,
        scores: FloatArray,
        numbers: FloatArray,
        vectors: VectorArray,
        sentences: Sequence[Sentence],
    ) -> Pool:
        """Return a pool of the best sentences of this one and the given ones."""
        scores, numbers = np.concatenate((self.scores, scores)), np.concatenate((self.numbers, numbers))
        vectors = np.concatenate((self.vectors, vectors)) if self.sentences else vectors
        sentences = [*self.sentences, *sentences]
        best = np.lexsort((-numbers, -scores))[: self.size]
        return Pool(
            self.size, scores[best], numbers[best], vectors[best], [sentences[row] for row in best.tolist()]
        )
