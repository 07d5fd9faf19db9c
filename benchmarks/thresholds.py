"""Compare rules that fit the decision threshold, by the candidates of models on held-out data.

    python -m benchmarks.defaults --corpora genia gum-documents wnut17 --keep FOLDER
    python -m benchmarks.thresholds FOLDER [--draws 100]

A part of the scored sentences, drawn at random, whole documents if there are any, is the development data on
which each rule fits a threshold; the rest is scored with it. For `gum-documents`, a second comparison draws
genres, so that the development data is of another kind than what is scored. Rules: `best`, the threshold with
the best F1; `half`, half of that best F1, as a calibrated confidence, which is the optimum if confidences are
calibrated (the one that training uses); `default`, the threshold of models without development data. Prints
one JSON object as its last line and writes it to `results/thresholds.json`: the mean F1 of each rule, by
corpus and number of development sentences, and the standard deviation over the draws. `python -m
benchmarks.tables` makes the table in docs/defaults.md from it.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common import RESULTS, code_version, machine, report, say_table
from fencepost.data import read
from fencepost.evaluation import Temperature

SIZES = (50, 100, 200, 400, 800)
DEFAULT = 0.4
GENRES = "genres"
FILE = RESULTS / "thresholds.json"

Sample = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], int]
"""Confidences by falling value, whether each candidate is correct, and the number of gold entities."""

Rule = Callable[[npt.NDArray[np.float64], npt.NDArray[np.bool_], int], float]


@dataclass(frozen=True)
class Scored:
    """The candidates of a run by falling confidence, and the number of gold entities of each sentence."""

    confidence: npt.NDArray[np.float64]  # [N]
    correct: npt.NDArray[np.bool_]  # [N]
    sentence: npt.NDArray[np.int64]  # [N]
    gold: npt.NDArray[np.int64]  # [S]
    document: npt.NDArray[np.int64]  # [S]
    genre: npt.NDArray[np.int64]  # [S]

    @classmethod
    def load(cls, folder: Path, name: str) -> Scored:
        gold = list(read(folder / f"{name}-gold.jsonl"))
        candidates = list(read(folder / f"{name}-candidates.jsonl"))
        rows = [
            (entity.score, entity.key in {own.key for own in gold[index].entities}, index)
            for index, sentence in enumerate(candidates)
            for entity in sentence.entities
        ]
        rows.sort(reverse=True)
        confidence, correct, owner = map(np.array, zip(*rows, strict=True))
        documents = [sentence.doc or str(index) for index, sentence in enumerate(gold)]
        genres = [document.split("_")[1] if "_" in document else "" for document in documents]
        return cls(
            confidence,
            correct,
            owner,
            np.array([len(sentence.entities) for sentence in gold]),
            *(np.unique(names, return_inverse=True)[1] for names in (documents, genres)),
        )

    def take(self, chosen: npt.NDArray[np.bool_]) -> Sample:
        own = chosen[self.sentence]
        return self.confidence[own], self.correct[own], int(self.gold[chosen].sum())


def compute_f1(correct: npt.NDArray[np.bool_], gold: int) -> npt.NDArray[np.float64]:
    """Return the F1 of the first 1, 2, ... candidates."""
    return 2 * np.cumsum(correct) / (np.arange(1, len(correct) + 1) + max(1, gold))


def fit_best(confidence: npt.NDArray[np.float64], correct: npt.NDArray[np.bool_], gold: int) -> float:
    if not correct.any():
        return DEFAULT
    last = int(np.argmax(compute_f1(correct, gold)))
    return float(confidence[last : last + 2].mean())


def fit_half(confidence: npt.NDArray[np.float64], correct: npt.NDArray[np.bool_], gold: int) -> float:
    if not correct.any():
        return DEFAULT
    best = compute_f1(correct, gold).max()
    temperature = Temperature.fit(confidence, correct)
    return float(temperature.undo(np.array([best / 2]))[0])


RULES: dict[str, Rule] = {"best": fit_best, "half": fit_half, "default": lambda *_: DEFAULT}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--out", type=Path, default=FILE)
    arguments = parser.parse_args()
    scores: dict[tuple[str, str], dict[str, list[list[float]]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(arguments.folder.glob("*-gold.jsonl")):
        name = path.name.removesuffix("-gold.jsonl")
        scored = Scored.load(arguments.folder, name)
        for (size, rule), values in compare(scored, arguments.draws).items():
            scores[name.rpartition("-")[0], size][rule].append(values)
    header = ["corpus", "development sentences", *RULES]
    rows, result = [], []
    for (corpus, size), by_rule in scores.items():
        means = {rule: float(np.mean(values)) for rule, values in by_rule.items()}
        spread = {rule: float(np.mean(np.std(values, axis=1))) for rule, values in by_rule.items()}
        rows.append([corpus, size, *(percent(means[rule], spread[rule]) for rule in RULES)])
        seeds = len(by_rule["best"])
        result.append({"corpus": corpus, "size": size, "seeds": seeds, "f1": means, "deviation": spread})
    say_table(header, rows)
    outcome = {**machine(), "commit": code_version(), "draws": arguments.draws, "results": result}
    arguments.out.write_text(json.dumps(outcome, indent=1) + "\n", encoding="utf-8")
    report({"benchmark": "thresholds", **outcome})


def percent(mean: float, deviation: float) -> str:
    return f"{100 * mean:.2f} ± {100 * deviation:.2f}"


def compare(scored: Scored, draws: int) -> dict[tuple[str, str], list[float]]:
    """Return the F1 of each draw on the sentences that were not drawn, by size and rule."""
    random = np.random.default_rng(0)
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    settings: list[tuple[str, npt.NDArray[np.int64], int]] = [
        (str(size), scored.document, size) for size in SIZES if size <= 0.6 * len(scored.gold)
    ]
    if scored.genre.any():
        settings.append((GENRES, scored.genre, len(scored.gold) // 2))
    for name, groups, size in settings:
        for _ in range(draws):
            chosen = draw(groups, size, random)
            confidence, correct, gold = scored.take(~chosen)
            f1 = np.append(0.0, compute_f1(correct, gold))
            for rule, fit in RULES.items():
                count = int(np.searchsorted(-confidence, -fit(*scored.take(chosen)), side="right"))
                values[name, rule].append(float(f1[count]))
    return values


def draw(groups: npt.NDArray[np.int64], size: int, random: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return which sentences are in groups drawn at random, until they are at least `size`."""
    counts = np.bincount(groups)
    order = random.permutation(len(counts))
    drawn_groups = order[: 1 + int(np.searchsorted(np.cumsum(counts[order]), size))]
    return np.isin(groups, drawn_groups)


if __name__ == "__main__":
    main()
