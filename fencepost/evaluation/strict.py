"""Strict scores: a prediction is correct if its start, its end and its type are correct.

`match` compares two streams of sentences and stores a few numbers for each entity, as columns; the scores
are computed from counts over these columns, overall or by type, length or sentence. Precision, recall and F1
are micro averages over the corpus; an entity that is listed twice counts once.
"""

from __future__ import annotations

from array import array
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fencepost.errors import UsageError
from fencepost.evaluation.calibration import BoolArray, Calibration, FloatArray, ReliabilityBin, reliability
from fencepost.evaluation.temperature import Temperature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fencepost.data.entity import Sentence

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
IntArray = Int32Array | Int64Array


@dataclass(frozen=True, eq=False, slots=True)
class EntityTable:
    """Distinct gold or predicted entities of a corpus, as columns.

    `matched` is true where the other side has the same entity: for a gold entity that is predicted, and for a
    prediction that is correct.
    """

    sentence: Int32Array  # [N], from 0
    start: Int32Array  # [N]
    end: Int32Array  # [N]
    type: Int32Array  # [N], index into `Matches.types`
    score: FloatArray  # [N]
    matched: BoolArray  # [N]

    def __len__(self) -> int:
        """Return the number of entities."""
        return len(self.sentence)

    @property
    def length(self) -> Int32Array:
        """Number of words of each entity."""
        return self.end - self.start  # [N]


@dataclass(frozen=True, eq=False, slots=True)
class Matches:
    """Gold and predicted entities of the same sentences, and which of them match."""

    types: tuple[str, ...]  # sorted
    sentences: int
    gold: EntityTable
    predicted: EntityTable

    def count_by_sentence(self) -> Int64Array:
        """Count the true positives, predicted and gold entities of each sentence: [sentences, 3]."""
        return self.count_groups(self.gold.sentence, self.predicted.sentence, self.sentences)

    def count_groups(self, gold: IntArray, predicted: IntArray, groups: int) -> Int64Array:
        """Count the true positives, predicted and gold entities of each group, given those of entities."""
        columns = (predicted[self.predicted.matched], predicted, gold)
        counts = [np.bincount(column, minlength=groups) for column in columns]
        return np.stack(counts, axis=1)  # [groups, 3]


@dataclass(frozen=True, slots=True)
class Score:
    """Precision, recall and F1, with the counts they are computed from; 0 of 0 is 0.0."""

    precision: float
    recall: float
    f1: float
    true_positives: int
    predicted: int
    support: int

    @classmethod
    def of(cls, true_positives: int, predicted: int, support: int) -> Score:
        """Compute the ratios from counts; `support` is the number of gold entities."""
        return cls(
            _divide(true_positives, predicted),
            _divide(true_positives, support),
            _divide(2 * true_positives, predicted + support),
            true_positives,
            predicted,
            support,
        )

    @property
    def counts(self) -> tuple[int, int, int]:
        """True positives, predicted and gold entities: the arguments of `of`."""
        return self.true_positives, self.predicted, self.support


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of predictions: overall, by type and by length, and their calibration."""

    overall: Score
    macro_f1: float
    by_type: dict[str, Score]
    by_length: dict[int, Score]
    calibration: Calibration | None  # None if no prediction has a confidence below 1
    sentences: int

    @classmethod
    def of(cls, matches: Matches) -> Evaluation:
        """Compute the scores: micro averages over all entities, by type, and by number of words.

        A gold entity counts towards its own length, and a prediction towards its own.
        """
        gold, predicted = matches.gold, matches.predicted
        types = matches.count_groups(gold.type, predicted.type, len(matches.types)).tolist()
        by_type = {name: Score.of(*row) for name, row in zip(matches.types, types, strict=True)}
        longest = int(max(gold.length.max(initial=0), predicted.length.max(initial=0)))
        lengths = matches.count_groups(gold.length, predicted.length, longest + 1).tolist()
        confident = bool((predicted.score < 1.0).any())
        return cls(
            overall=Score.of(int(np.count_nonzero(predicted.matched)), len(predicted), len(gold)),
            macro_f1=_divide(sum(score.f1 for score in by_type.values()), len(by_type)),
            by_type=by_type,
            by_length={length: Score.of(*row) for length, row in enumerate(lengths) if any(row)},
            calibration=reliability(predicted.score, predicted.matched) if confident else None,
            sentences=matches.sentences,
        )

    def by_length_group(self, firsts: Sequence[int]) -> dict[str, Score]:
        """Return the scores of groups of lengths, each from one of `firsts` to the next; the last is open."""
        groups = {}
        for first, end in zip_longest(firsts, firsts[1:]):
            rows = [s.counts for length, s in self.by_length.items() if first <= length < (end or length + 1)]
            name = f"{first} or more" if end is None else f"{first}-{end - 1}"
            total = Score.of(*map(sum, zip((0, 0, 0), *rows, strict=True)))
            groups[str(first) if end == first + 1 else name] = total
        return groups

    def to_dict(self) -> dict[str, Any]:
        """Return the scores for JSON: ratios in [0, 1]; `ece` is None without confidences or predictions."""
        return {
            **asdict(self.overall),
            "macro_f1": self.macro_f1,
            "sentences": self.sentences,
            "by_type": {name: asdict(score) for name, score in self.by_type.items()},
            "by_length": {str(length): asdict(score) for length, score in self.by_length.items()},
            "ece": self.calibration.ece if self.calibration else None,
            "reliability": [asdict(one) for one in self.calibration.bins] if self.calibration else [],
        }

    @classmethod
    def from_dict(cls, saved: Any) -> Evaluation:
        """Restore the scores that `to_dict` returned; raise `ValueError` for anything else."""

        def parse_score(row: Mapping[str, Any]) -> Score:
            return Score.of(*(int(row[name]) for name in ("true_positives", "predicted", "support")))

        try:
            bins = tuple(ReliabilityBin(**one) for one in saved["reliability"])
            return cls(
                overall=parse_score(saved),
                macro_f1=float(saved["macro_f1"]),
                by_type={str(name): parse_score(row) for name, row in saved["by_type"].items()},
                by_length={int(length): parse_score(row) for length, row in saved["by_length"].items()},
                calibration=Calibration(None if saved["ece"] is None else float(saved["ece"]), bins)
                if bins
                else None,
                sentences=int(saved["sentences"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("these are not the scores of an evaluation") from error


def evaluate(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> Evaluation:
    """Score predictions against the gold entities of the same sentences, in the same order."""
    return Evaluation.of(match(gold, predicted))


def fit_threshold(matches: Matches) -> float | None:
    """Return the threshold that is, once calibrated, half of the best F1; None if no prediction is correct.

    With calibrated confidences, no other threshold has a higher expected F1 (Lipton et al., ECML 2014): one
    more prediction raises F1 if its probability is above F1 / 2. The confidence at which F1 is highest on the
    same predictions depends more on chance. The threshold is not below the lowest confidence, nor above the
    highest one of a correct prediction.
    """
    order = np.argsort(-matches.predicted.score, kind="stable")
    scores, correct = matches.predicted.score[order], matches.predicted.matched[order]  # [N], descending
    if not correct.any():
        return None
    f1 = 2 * np.cumsum(correct) / (np.arange(1, len(correct) + 1) + len(matches.gold))
    best = f1[np.append(scores[1:] < scores[:-1], True)].max()  # no threshold lies between equal confidences
    fitted = Temperature.fit(scores, correct).undo(np.array([best / 2]))
    return float(fitted.clip(scores[-1], scores[correct][0])[0])


def match(gold: Iterable[Sentence], predicted: Iterable[Sentence]) -> Matches:
    """Compare the entities of two streams of sentences; raise `UsageError` if the words differ.

    Sentences are read in pairs; only six numbers for each entity are stored.
    """
    codes: dict[str, int] = {}  # number of each type, in the order of their first occurrence
    gold_rows, predicted_rows = array("d"), array("d")
    sentences = 0
    for pair in pair_sentences(gold, predicted):
        ours, theirs = ({entity.key: entity.score for entity in reversed(s.entities)} for s in pair)
        for rows, own, other in ((gold_rows, ours, theirs), (predicted_rows, theirs, ours)):
            for key in reversed(own):
                start, end, type_ = key
                code = codes.setdefault(type_, len(codes))
                rows.extend((sentences, start, end, code, own[key], key in other))
        sentences += 1
    types = tuple(sorted(codes))
    rank = {name: index for index, name in enumerate(types)}
    rank_of_code = np.array([rank[name] for name in codes], dtype=np.int32)
    sides = (_to_columns(rows, rank_of_code) for rows in (gold_rows, predicted_rows))
    return Matches(types, sentences, *sides)


def _to_columns(rows: array[float], rank_of_code: Int32Array) -> EntityTable:
    columns = np.asarray(rows, dtype=np.float64).reshape(-1, 6).T  # [6, N]
    sentence, start, end, code = columns[:4].astype(np.int32)
    return EntityTable(
        sentence, start, end, rank_of_code[code], columns[4].copy(), columns[5].astype(np.bool_)
    )


def pair_sentences(
    gold: Iterable[Sentence], predicted: Iterable[Sentence]
) -> Iterator[tuple[Sentence, Sentence]]:
    """Yield pairs of sentences; raise `UsageError` if they differ in their number or in their words.

    Predicted entities of types that the gold sentence is not annotated with are left out: nobody knows
    whether they are right.
    """
    pairs = zip_longest(gold, predicted)
    for number, (gold_sentence, predicted_sentence) in enumerate(pairs, start=1):
        if gold_sentence is None or predicted_sentence is None:
            side = "predictions" if gold_sentence is None else "gold"
            raise UsageError(
                f"the numbers of sentences differ: sentence {number} is only in the {side}; "
                "each gold sentence needs one predicted sentence, in the same order"
            )
        if gold_sentence.words != predicted_sentence.words:
            raise UsageError(_describe_difference(number, gold_sentence, predicted_sentence))
        types = gold_sentence.annotated_types
        if types is not None:
            predicted_sentence = predicted_sentence.with_entities(
                entity for entity in predicted_sentence.entities if entity.type in types
            )
        yield gold_sentence, predicted_sentence


def _describe_difference(number: int, gold: Sentence, predicted: Sentence) -> str:
    """Return a message that names the sentence and the first word (from 1) that differ."""
    sentence_id = gold.id if gold.id is not None else predicted.id
    place = f"sentence {number}" + (f" ({sentence_id})" if sentence_id is not None else "")
    words = enumerate(zip_longest(gold.words, predicted.words), start=1)
    position, pair = next((index, pair) for index, pair in words if pair[0] != pair[1])
    ours, theirs = ("missing" if word is None else repr(word) for word in pair)
    return (
        f"{place} has different words in the gold and in the predictions: "
        f"word {position} is {ours} in the gold and {theirs} in the predictions"
    )


def _divide(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
