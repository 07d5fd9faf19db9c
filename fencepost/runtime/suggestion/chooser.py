"""Choice of the sentences to annotate next from a stream of texts, in one pass and with bounded memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.errors import DataError, UsageError
from fencepost.methods.candidates import FloatArray
from fencepost.runtime.engine import LOOK_AHEAD
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.recogniser import Recogniser, SplitSentence
from fencepost.runtime.suggestion.blocks import extend_digest, read_blocks, to_text
from fencepost.runtime.suggestion.evidence import Evidence, examine
from fencepost.runtime.suggestion.pool import Pool, VectorArray, compute_key, draw_number
from fencepost.runtime.suggestion.spread import spread

META = "suggest"
"""Key of `Sentence.meta` that has the strategy, the rank and the score."""

EFFORT = 20
"""Cost of annotating a sentence apart from its words, as a number of words."""

POOL, LARGEST_POOL = 10, 20_000
"""Sentences in memory for each one to choose, and their maximum number unless more are to be chosen."""


@dataclass(frozen=True)
class Strategy:
    """Rule by which sentences are chosen.

    `evidence` is the attribute of `Evidence` by which they are scored; None means random numbers. With
    `spreads`, the sentences must differ from each other.
    """

    evidence: str | None
    spreads: bool

    def score(self, evidence: Evidence, lengths: FloatArray) -> FloatArray | None:
        """Return the score of each sentence relative to the effort to annotate it: `[N]`; None if random."""
        return None if self.evidence is None else getattr(evidence, self.evidence) / (lengths + EFFORT)


STRATEGIES = {
    "uncertainty": Strategy("errors", spreads=True),
    "boundary": Strategy("boundaries", spreads=True),
    "diversity": Strategy(None, spreads=True),
    "random": Strategy(None, spreads=False),
}


@dataclass(frozen=True)
class State:
    """Best sentences of the texts read so far, and counts; `digest` is that of these texts."""

    pool: Pool
    texts: int = 0
    sentences: int = 0
    excluded: int = 0
    digest: str = ""


class Save(Protocol):
    """Function that is called with the state after each block of texts, and when reading is interrupted."""

    def __call__(self, state: State, *, stopped: bool = False) -> None: ...


def choose(
    recogniser: Recogniser,
    texts: Iterable[str | Sentence],
    count: int,
    *,
    strategy: str = "uncertainty",
    seed: int = 1,
    exclude: Iterable[Sentence] = (),
) -> list[Sentence]:
    """Return the `count` sentences of texts that are most worth annotating, the best first.

    Each has the entities that the model predicts, with their confidences, and its rank and score in
    `meta["suggest"]`. Texts are either all strings or all sentences. `strategy` is one of:

    - `uncertainty`: the highest expected number of prediction errors relative to the effort of annotation,
      without sentences that are similar to those already chosen;
    - `boundary`: the same, for predictions that disagree about boundaries;
    - `diversity`: sentences as different as possible from each other and from those in `exclude`;
    - `random`: random sentences.

    No sentence is chosen twice, and none has the same text as a sentence in `exclude`. The seed determines
    everything random. Texts are read once, with bounded memory.
    """
    if isinstance(texts, str):  # else each character would be a text
        raise UsageError("texts must be a list of strings, not a string")
    chooser = Chooser(recogniser, count, strategy=strategy, seed=seed, exclude=exclude)
    chooser.read(map(to_text, texts))
    return chooser.finish()


class Chooser:
    """Choice of sentences to annotate from texts that are read in blocks; see `choose`."""

    def __init__(
        self,
        recogniser: Recogniser,
        count: int,
        *,
        strategy: str = "uncertainty",
        seed: int = 1,
        exclude: Iterable[Sentence] = (),
    ) -> None:
        if count < 1:
            raise UsageError(f"count is {count}; the number of sentences to choose must be at least 1")
        if strategy not in STRATEGIES:
            raise UsageError.unknown("strategy", strategy, STRATEGIES)
        self.recogniser, self.count, self.name, self.seed = recogniser, count, strategy, seed
        self.strategy = STRATEGIES[strategy]
        compares_excluded = self.strategy.spreads and self.strategy.evidence is None
        self._known: list[Sentence] = []
        self._excluded: set[bytes] = set()
        for sentence in exclude:
            self._excluded.add(compute_key(sentence.words))
            if compares_excluded and sentence.words:
                self._known.append(sentence.with_entities(()))
        size = max(count, min(POOL * count, LARGEST_POOL)) if self.strategy.spreads else count
        self.state = State(Pool(size))

    def describe(self) -> dict[str, Any]:
        """Return the options that determine the choice, in addition to the model and the texts."""
        excluded = hashlib.sha256(b"".join(sorted(self._excluded))).hexdigest()
        return {"count": self.count, "strategy": self.name, "seed": self.seed, "excluded": excluded}

    def read(self, texts: Iterable[Text], save: Save | None = None) -> None:
        """Read all texts; those that `state` includes already are skipped.

        Raises `UsageError` if the texts are not those of the state, or if only some have words.
        """
        before, texts_read, digest = self.state, 0, ""
        is_same = not before.texts
        try:
            for block, prepared in read_blocks(self.recogniser, texts, before.texts):
                texts_read += len(block)
                digest = extend_digest(digest, block)
                if texts_read <= before.texts:
                    is_same = texts_read == before.texts and digest == before.digest
                    continue
                _check_same(is_same, before)
                self.state = replace(self._add(prepared), texts=texts_read, digest=digest)
                if save is not None:
                    save(self.state)
        except (DataError, KeyboardInterrupt):
            if save is not None:
                save(self.state, stopped=True)
            raise
        _check_same(is_same, before)

    def _add(self, prepared: Sequence[SplitSentence]) -> State:
        """Return the state after these sentences."""
        state = self.state
        for first in range(0, len(prepared), LOOK_AHEAD):
            state, new = self._sift(state, prepared[first : first + LOOK_AHEAD])
            if new:
                sentences, evidence = examine(self.recogniser, [one for one, _ in new])
                numbers = np.array([number for _, number in new])
                lengths = np.array([float(len(sentence)) for sentence in sentences])
                scores = self.strategy.score(evidence, lengths)
                scores = numbers if scores is None else scores
                state = replace(state, pool=state.pool.add(scores, numbers, evidence.vectors, sentences))
        return state

    def _sift(
        self, state: State, prepared: Sequence[SplitSentence]
    ) -> tuple[State, list[tuple[SplitSentence, float]]]:
        """Return the state with these sentences counted, and those to score, each with a random number."""
        excluded = 0
        new: dict[bytes, tuple[SplitSentence, float]] = {}
        for one in prepared:
            key = compute_key(one.sentence.words)
            if key in self._excluded:
                excluded += 1
            elif key not in new and key not in state.pool.keys:
                new[key] = one, draw_number(key, self.seed)
        pairs = list(new.values())
        if self.strategy.evidence is None:  # these numbers are the scores, so others need not be computed
            best = sorted((number for _, number in pairs), reverse=True)[: state.pool.size]
            lowest = max(state.pool.lowest, best[-1] if best else 0.0)
            pairs = [(one, number) for one, number in pairs if number >= lowest]
        sentences, excluded = state.sentences + len(prepared), state.excluded + excluded
        return replace(state, sentences=sentences, excluded=excluded), pairs

    def finish(self) -> list[Sentence]:
        """Return the chosen sentences, the best first."""
        pool = self.state.pool
        if not pool.sentences:
            return []
        rows = list(range(min(self.count, len(pool.sentences))))
        if self.strategy.spreads:
            rows = spread(pool.vectors, self._compute_values, self.count, self._examine_known())
        return [self._add_rank(row, rank) for rank, row in enumerate(rows, start=1)]

    def _add_rank(self, row: int, rank: int) -> Sentence:
        """Return a sentence of the pool with its rank and, unless it is random, its score."""
        pool = self.state.pool
        meta: dict[str, Any] = {"strategy": self.name, "rank": rank}
        if self.strategy.evidence is not None:
            meta["score"] = round(float(pool.scores[row]), 6)
        sentence = pool.sentences[row]
        return replace(sentence, meta={**sentence.meta, META: meta})

    def _compute_values(self, nearest: FloatArray) -> FloatArray:
        """Return the value of each sentence from its cosine with the most similar chosen sentence: `[N]`.

        It is the score, reduced by the square of the cosine, so that sentences on the same subject lose
        little; without scores, it is the distance.
        """
        if self.strategy.evidence is None:
            return 1 - nearest
        values: FloatArray = self.state.pool.scores * (1 - np.maximum(nearest, 0) ** 2)
        return values

    def _examine_known(self) -> VectorArray | None:
        """Return the vectors of the excluded sentences; None if they are not used."""
        different = {compute_key(sentence.words): sentence for sentence in self._known}
        prepared = self.recogniser.prepare_sentences(different.values())
        parts = []
        while block := list(islice(prepared, LOOK_AHEAD)):
            parts.append(examine(self.recogniser, block)[1].vectors)
        return np.concatenate(parts) if parts else None


def _check_same(is_same: bool, state: State) -> None:
    if not is_same:
        raise UsageError(
            f"the first {state.texts:,} texts are not those of the stopped run; use --force to start again"
        )
