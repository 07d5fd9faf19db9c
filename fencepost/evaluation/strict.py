"""Strict scores: a prediction counts when its start, its end and its type are all right.

`match` compares two streams of sentences and keeps a few numbers of each entity, as columns; the
scores are then counts over these columns, overall or by type, length or sentence. Precision, recall
and F1 are micro averages over the corpus; an entity that is given twice counts once.
"""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fencepost.errors import UsageError
from fencepost.evaluation.calibration import Calibration, reliability

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fencepost.data.entity import Sentence

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Mentions:
    """The distinct entities of one side, as columns, by (sentence, start, end, type).

    `matched` says whether the other side has the same entity: a gold entity that was found, a
    prediction that is correct.
    """

    sentence: Int32Array  # [N], from 0
    start: Int32Array  # [N]
    end: Int32Array  # [N]
    type: Int32Array  # [N], index into `Matches.types`
    score: FloatArray  # [N]
    matched: BoolArray  # [N]

    def __len__(self) -> int:
        """The number of entities."""
        return len(self.sentence)

    @property
    def length(self) -> Int32Array:
        """The number of words of each entity."""
        return self.end - self.start  # [N]


@dataclass(frozen=True, eq=False, slots=True)
class Matches:
    """Gold and predicted entities of the same sentences, and which of them agree."""

    types: tuple[str, ...]  # sorted
    sentences: int
    gold: Mentions
    predicted: Mentions

    def counts_by_sentence(self) -> Int64Array:
        """For each sentence: true positives, predicted, gold. Sums of rows give `Score.of`."""
        return self._counts(self.gold.sentence, self.predicted.sentence, self.sentences)

    def counts_by_type(self) -> Int64Array:
        """The same for each of `types`."""
        return self._counts(self.gold.type, self.predicted.type, len(self.types))

    def counts_by_length(self) -> Int64Array:
        """The same for each number of words, from 0 to that of the longest entity."""
        gold, predicted = self.gold.length, self.predicted.length
        longest = max(gold.max(initial=0), predicted.max(initial=0))
        return self._counts(gold, predicted, int(longest) + 1)

    def _counts(self, gold: Int32Array, predicted: Int32Array, groups: int) -> Int64Array:
        """Counts by group, from the group of each gold and of each predicted entity."""
        columns = (predicted[self.predicted.matched], predicted, gold)
        counts = [np.bincount(column, minlength=groups) for column in columns]
        return np.stack(counts, axis=1)  # [groups, 3]


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1 with the counts behind them; 0 of 0 is 0.0."""

    precision: float
    recall: float
    f1: float
    true_positives: int
    predicted: int
    support: int

    @classmethod
    def of(cls, true_positives: int, predicted: int, support: int) -> Score:
        """From counts; `support` is the number of gold entities."""
        return cls(
            precision=_ratio(true_positives, predicted),
            recall=_ratio(true_positives, support),
            f1=_ratio(2 * true_positives, predicted + support),
            true_positives=true_positives,
            predicted=predicted,
            support=support,
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that `evaluate` measures."""

    overall: Score
    macro_f1: float
    by_type: dict[str, Score]
    by_length: dict[int, Score]
    calibration: Calibration | None  # None if no prediction carries a confidence: all are 1
    sentences: int

    def by_length_group(self, firsts: Sequence[int]) -> dict[str, Score]:
        """Scores of groups of lengths, each from one of `firsts` up to the next; the last has no end."""
        groups = {}
        for first, behind in zip_longest(firsts, firsts[1:]):
            lengths = [length for length in self.by_length if first <= length < (behind or length + 1)]
            scores = [self.by_length[length] for length in lengths]
            name = f"{first} or more" if behind is None else f"{first}-{behind - 1}"
            groups[str(first) if behind == first + 1 else name] = Score.of(
                sum(score.true_positives for score in scores),
                sum(score.predicted for score in scores),
                sum(score.support for score in scores),
            )
        return groups

    def to_dict(self) -> dict[str, Any]:
        """For JSON: ratios between 0 and 1; `ece` is None without confidences or predictions."""
        return {
            **asdict(self.overall),
            "macro_f1": self.macro_f1,
            "sentences": self.sentences,
            "by_type": {name: asdict(score) for name, score in self.by_type.items()},
            "by_length": {str(length): asdict(score) for length, score in self.by_length.items()},
            "ece": self.calibration.ece if self.calibration else None,
            "reliability": [asdict(one) for one in self.calibration.bins] if self.calibration else [],
        }


def evaluate(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> Evaluation:
    """Score predictions against gold: the same sentences in the same order."""
    matches = match(gold, predicted)
    confident = bool((matches.predicted.score < 1.0).any())
    by_type = score_by_type(matches)
    return Evaluation(
        overall=score(matches),
        macro_f1=macro_f1(by_type),
        by_type=by_type,
        by_length=score_by_length(matches),
        calibration=reliability(matches.predicted.score, matches.predicted.matched) if confident else None,
        sentences=matches.sentences,
    )


def score(matches: Matches) -> Score:
    """Over all entities (the micro average)."""
    true_positives = int(np.count_nonzero(matches.predicted.matched))
    return Score.of(true_positives, len(matches.predicted), len(matches.gold))


def best_cut(matches: Matches) -> float | None:
    """The confidence from which on predictions are to be kept so that F1 is best; None if none is correct.

    It lies in the middle between the last one that is kept and the next one, if there is one.
    """
    order = np.argsort(-matches.predicted.score, kind="stable")
    scores = matches.predicted.score[order]  # [N], falling
    correct = np.cumsum(matches.predicted.matched[order])
    if not len(scores) or not correct[-1]:
        return None
    f1 = 2 * correct / (np.arange(1, len(scores) + 1) + len(matches.gold))
    apart = np.append(scores[1:] < scores[:-1], True)  # equal ones cannot be told apart
    last = int(np.argmax(np.where(apart, f1, -1.0)))
    return float(scores[last : last + 2].mean())


def score_by_type(matches: Matches) -> dict[str, Score]:
    """For every type that the gold or the predictions have."""
    rows = matches.counts_by_type().tolist()
    return {name: Score.of(*row) for name, row in zip(matches.types, rows, strict=True)}


def score_by_length(matches: Matches) -> dict[int, Score]:
    """By number of words: a gold entity counts at its length, a prediction at its own."""
    rows = matches.counts_by_length().tolist()
    return {length: Score.of(*row) for length, row in enumerate(rows) if any(row)}


def macro_f1(by_type: dict[str, Score]) -> float:
    """The mean F1 of the types, each counting as much as another; 0.0 without types."""
    return _ratio(sum(one.f1 for one in by_type.values()), len(by_type))


def match(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> Matches:
    """Compare two streams of sentences; they must hold the same words in the same order.

    Sentences are read in pairs and let go: only numbers stay, 25 bytes for an entity.
    """
    type_codes: dict[str, int] = {}
    gold_columns, predicted_columns = _Columns(type_codes), _Columns(type_codes)
    sentences = 0
    for gold_sentence, predicted_sentence in sentence_pairs(gold, predicted):
        gold_columns.add(sentences, gold_sentence)
        predicted_columns.add(sentences, predicted_sentence)
        sentences += 1
    types = tuple(sorted(type_codes))
    gold_keys, gold_scores = gold_columns.distinct(types)
    predicted_keys, predicted_scores = predicted_columns.distinct(types)
    found, correct = _in_both(gold_keys, predicted_keys)
    return Matches(
        types=types,
        sentences=sentences,
        gold=_mentions(gold_keys, gold_scores, found),
        predicted=_mentions(predicted_keys, predicted_scores, correct),
    )


def sentence_pairs(
    gold: Iterable[Sentence], predicted: Iterable[Sentence]
) -> Iterator[tuple[Sentence, Sentence]]:
    """Pairs of sentences with equal words; anything else would be scored as nonsense."""
    pairs = zip_longest(gold, predicted)
    for number, (gold_sentence, predicted_sentence) in enumerate(pairs, start=1):
        if gold_sentence is None or predicted_sentence is None:
            side = "predictions" if gold_sentence is None else "gold"
            raise UsageError(
                f"the numbers of sentences differ: sentence {number} is in the {side} only; "
                "each gold sentence needs one predicted sentence, in the same order"
            )
        if gold_sentence.words != predicted_sentence.words:
            raise UsageError(_difference(number, gold_sentence, predicted_sentence))
        yield gold_sentence, predicted_sentence


def _difference(number: int, gold: Sentence, predicted: Sentence) -> str:
    """Which sentence differs, and at which word (from 1)."""
    sentence_id = gold.id if gold.id is not None else predicted.id
    place = f"sentence {number}" + (f" ({sentence_id})" if sentence_id is not None else "")
    words = enumerate(zip_longest(gold.words, predicted.words), start=1)
    position, pair = next((index, pair) for index, pair in words if pair[0] != pair[1])
    ours, theirs = ("missing" if word is None else repr(word) for word in pair)
    return (
        f"{place} has other words in the gold than in the predictions: "
        f"word {position} is {ours} in the gold and {theirs} in the predictions"
    )


class _Columns:
    """Collects the entities of one side while sentences stream by."""

    def __init__(self, type_codes: dict[str, int]) -> None:
        """`type_codes` numbers types as they appear; both sides share it."""
        self.type_codes = type_codes
        self.keys = [array("i") for _ in range(4)]  # sentence, start, end, type code
        self.scores = array("d")

    def add(self, number: int, sentence: Sentence) -> None:
        sentences, starts, ends, types = self.keys
        for entity in sentence.entities:
            sentences.append(number)
            starts.append(entity.start)
            ends.append(entity.end)
            types.append(self.type_codes.setdefault(entity.type, len(self.type_codes)))
            self.scores.append(entity.score)

    def distinct(self, types: tuple[str, ...]) -> tuple[Int32Array, FloatArray]:
        """The keys [4, N], each once and in order, and the best score of each [N]."""
        keys = np.stack([np.asarray(column, dtype=np.int32) for column in self.keys])  # [4, M]
        scores = np.asarray(self.scores, dtype=np.float64)  # [M]
        rank = {name: index for index, name in enumerate(types)}
        rank_of_code = np.array([rank[name] for name in self.type_codes], dtype=np.int32)
        keys[3] = rank_of_code[keys[3]]
        best_first = np.lexsort((-scores, *keys[::-1]))
        keys, scores = keys[:, best_first], scores[best_first]
        new = np.ones(len(scores), dtype=np.bool_)  # [M]
        new[1:] = ~_same_as_next(keys)
        return keys[:, new], scores[new]


def _mentions(keys: Int32Array, scores: FloatArray, matched: BoolArray) -> Mentions:
    sentence, start, end, type_ = keys
    return Mentions(sentence, start, end, type_, scores, matched)


def _in_both(left: Int32Array, right: Int32Array) -> tuple[BoolArray, BoolArray]:
    """For keys [4, L] and [4, R], distinct on each side: which ones the other side has too.

    Sorted together, a key that both sides have stands beside its twin. Unlike keys packed into one
    integer, this cannot overflow.
    """
    keys = np.concatenate((left, right), axis=1)  # [4, L + R]
    order = np.lexsort(keys[::-1])
    twins = _same_as_next(keys[:, order])
    both = np.zeros(len(order), dtype=np.bool_)  # [L + R]
    both[order[:-1][twins]] = True
    both[order[1:][twins]] = True
    return both[: left.shape[1]], both[left.shape[1] :]


def _same_as_next(keys: Int32Array) -> BoolArray:
    """For sorted keys [4, N], whether each but the last equals the one after it: [N - 1]."""
    return np.asarray((keys[:, :-1] == keys[:, 1:]).all(axis=0))


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
