"""How many errors in annotations `fencepost audit` finds, in corpora into which errors were put.

    python -m benchmarks.audit --corpus genia [--epochs 8] [--folds 3] [--sentences N] [--seed 1]
    python -m benchmarks.audit --corpus gum-dev --fit

Of the entities of a training part, 5 % get another boundary (one end, by one or two words), 2 % another type,
and 2 % are removed. The audit ranks its suggestions, and one is right if it concerns an error that was put
in: if it changes or removes an entity that is wrong, or restores the one that was there before. A second
suggestion about the same error is wrong. Errors that the corpus had before count as wrong suggestions, too.
Compared are

- `audit`: the ranking of `fencepost audit`;
- `audit, by confidence`: the same suggestions, by the models' confidence in the prediction, or in that there
  is no such entity;
- `one model, by confidence`: the suggestions of one model that has learnt from the same sentences, ranked so;
- `random order`: the suggestions of the audit, mean of 20 draws.

The figures say how well errors are found that look like these; errors of annotators may look different.

`--fit` fits the weights of the ranking (a logistic regression of whether a suggestion is right) instead of
measuring it; those of Fencepost were chosen by hand.

Trainings are kept in `--work`, so that the same command continues after an interruption. Each run appends a
line to `results/audit.jsonl`, of which `python -m benchmarks.tables` makes the tables of docs/audit.md.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import (
    RESULTS,
    code_version,
    corpora,
    machine,
    report,
    say,
    say_table,
)
from fencepost import Sentence
from fencepost.analysis.audit.folds import Audit, fit_temperature, read_candidates, write_candidates
from fencepost.analysis.audit.predictions import AuditPredictions, select_entities
from fencepost.analysis.audit.ranking import compute_evidence, rank
from fencepost.analysis.audit.suggestions import Suggestion
from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Entity
from fencepost.evaluation import classify_errors, evaluate
from fencepost.training.scoring import apply_temperature

FILE = RESULTS / "audit.jsonl"
CORPORA = {"genia": "genia/train.jsonl", "gum": "gum/train.jsonl", "gum-dev": "gum/dev.jsonl"}
BOUNDARIES, TYPES, REMOVALS = 0.05, 0.02, 0.02
DRAWS = 20
Key = tuple[int, int, str]


@dataclass(frozen=True)
class Error:
    """An error that was put in: what was there before, and what is there now."""

    kind: str
    sentence: int
    before: Key
    now: Key | None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", choices=CORPORA, default="genia")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--sentences", type=int, help="only the first ones")
    parser.add_argument("--seed", type=int, default=1, help="of the errors, the folds and the trainings")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--work", type=Path, help="folder for the trainings; by default in the temporary one")
    parser.add_argument("--fit", action="store_true", help="fit the weights of the ranking, and print them")
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        report({"benchmark": "audit", "skipped": "no corpora"})
    else:
        line = measure(folder, arguments)
        if arguments.fit:
            report({"benchmark": "audit", "fit": line})
            return
        with FILE.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        report({"benchmark": "audit", **line})


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Put errors into a corpus, audit it, and return the line of the results."""
    sentences = list(read(folder / CORPORA[arguments.corpus]))[: arguments.sentences]
    noisy, errors = put_errors(sentences, arguments.seed)
    settings = [f"training.epochs={arguments.epochs}", *arguments.changes]
    config = Config.compose(changes=settings, flags={"training": {"seed": arguments.seed}})
    numbers = f"{len(sentences)}-{arguments.epochs}-{arguments.folds}-{arguments.seed}"
    name = f"fencepost-audit-{arguments.corpus}-{numbers}"
    work = arguments.work or Path(tempfile.gettempdir()) / name
    say(f"{len(sentences):,} sentences, {len(errors):,} errors, trainings in {work}")
    start = time.process_time()
    audit = Audit(work / "audit", noisy, config, arguments.folds, quiet=False)
    audit.check()
    for ended in audit.run():
        if ended.failure is not None:
            raise RuntimeError(ended.failure.details or ended.failure.message)
        say(f"fold {ended.task + 1} of {arguments.folds}: {ended.seconds:.0f} s")
    predictions = audit.read_predictions()
    if arguments.fit:
        return fit(predictions, errors)
    write_candidates(config, noisy, noisy, work / "one-model", quiet=False)
    suggestions = rank(predictions)
    one_model = judge_alone(work / "one-model", noisy, config)
    rankings = {
        "audit": score(suggestions, errors),
        "audit, by confidence": score(by_confidence(suggestions), errors),
        "one model, by confidence": score(by_confidence(one_model), errors),
        "random order": score_random(suggestions, errors, arguments.seed),
    }
    better = max(rankings[one]["average_precision"] for one in ("one model, by confidence", "random order"))
    say_table(
        ("ranking", *rankings["audit"]), [(name, *map(str, row.values())) for name, row in rankings.items()]
    )
    return {
        **machine(),
        "commit": code_version(),
        "corpus": arguments.corpus,
        "sentences": len(sentences),
        "folds": arguments.folds,
        "seed": arguments.seed,
        "settings": settings,
        "entities": sum(len(sentence.entities) for sentence in sentences),
        "errors": dict(Counter(error.kind for error in errors)),
        "held_out_f1": round(held_out_f1(predictions, config), 4),
        "rankings": rankings,
        "found_by_kind": found_by_kind(suggestions, errors),
        "average_precision_by_better_baseline": round(rankings["audit"]["average_precision"] / better, 2),
        "cpu_seconds": round(time.process_time() - start),
    }


def fit(predictions: AuditPredictions, errors: Sequence[Error]) -> dict[str, Any]:
    """Return the prior of each kind and the weights of the evidence, by logistic regression."""
    from scipy.optimize import minimize

    rows = list(compute_evidence(predictions))
    kinds = sorted({error.kind for error, _ in rows})
    suggestions = [Suggestion.of(error, 0.0, None) for error, _ in rows]
    target = np.array([error is not None for error in find_errors(suggestions, errors)], dtype=np.float64)
    of_kinds = np.array([[error.kind == kind for kind in kinds] for error, _ in rows], dtype=np.float64)
    features = np.hstack([of_kinds, np.array([evidence for _, evidence in rows])])

    def compute_loss(weights: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        logits = features @ weights
        penalty = 0.5 * float(weights @ weights)  # as if each weight had a prior of width 1
        gradient = features.T @ (1 / (1 + np.exp(-logits)) - target) + weights
        return float(np.logaddexp(0, logits).sum() - target @ logits) + penalty, gradient

    weights = minimize(compute_loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B").x.round(2)
    return {
        "suggestions": len(rows),
        "right": int(target.sum()),
        "priors": dict(zip(kinds, weights.tolist(), strict=False)),
        "weights": weights[len(kinds) :].tolist(),
    }


def judge_alone(folder: Path, sentences: Sequence[Sentence], config: Config) -> list[Suggestion]:
    """Return the suggestions of a model that has learnt from these sentences, in any order."""
    candidates = read_candidates(folder, sentences)
    calibrated = apply_temperature(fit_temperature(sentences, candidates), candidates)
    confidences = [{entity.key: entity.score for entity in one.entities} for one in calibrated]
    predicted = select_entities(sentences, confidences, config)
    return [
        Suggestion.of(one, 0.0, confidences[one.sentence].get(one.gold.key, 0.0) if one.gold else None)
        for one in classify_errors(sentences, predicted).all
    ]


def put_errors(sentences: Sequence[Sentence], seed: int) -> tuple[list[Sentence], list[Error]]:
    """Return the sentences with errors, and these."""
    chance = random.Random(seed)
    types = sorted({entity.type for sentence in sentences for entity in sentence.entities})
    noisy, errors = [], []
    for number, sentence in enumerate(sentences):
        entities, keys = [], {entity.key for entity in sentence.entities}
        for entity in sentence.entities:
            sample = chance.random()
            kind, choices = "", []
            if sample < BOUNDARIES:
                kind, choices = "boundary", list(moved(entity, len(sentence)))
            elif sample < BOUNDARIES + TYPES:
                kind, choices = "type", [replace(entity, type=type_) for type_ in types]
            elif sample < BOUNDARIES + TYPES + REMOVALS:
                errors.append(Error("removal", number, entity.key, None))
                continue
            choices = [one for one in choices if one.key not in keys]
            if choices:
                replacement = chance.choice(choices)
                errors.append(Error(kind, number, entity.key, replacement.key))
                keys.add(replacement.key)
                entity = replacement
            entities.append(entity)
        noisy.append(sentence.with_entities(entities))
    return noisy, errors


def moved(entity: Entity, words: int) -> Iterator[Entity]:
    """Yield the entity with one end moved by one or two words."""
    for step in (-2, -1, 1, 2):
        for start, end in ((entity.start + step, entity.end), (entity.start, entity.end + step)):
            if 0 <= start < end <= words:
                yield replace(entity, start=start, end=end)


def by_confidence(suggestions: Sequence[Suggestion]) -> list[Suggestion]:
    """Rank by the confidence in the prediction, or else in that there is no such entity."""

    def confidence(one: Suggestion) -> float:
        return one.suggested.score if one.suggested is not None else 1 - (one.confidence or 0.0)

    return sorted(suggestions, key=lambda one: -confidence(one))


def find_errors(suggestions: Sequence[Suggestion], errors: Sequence[Error]) -> list[Error | None]:
    """Return for each suggestion the error that it is the first to concern, if any."""
    now = {(error.sentence, error.now): error for error in errors}
    before = {(error.sentence, error.before): error for error in errors}
    earlier: set[Error] = set()
    matches = []
    for one in suggestions:
        error = now.get((one.sentence, one.gold.key)) if one.gold is not None else None
        if error is None and one.suggested is not None:
            error = before.get((one.sentence, one.suggested.key))
        matches.append(error if error not in earlier else None)
        if error is not None:
            earlier.add(error)
    return matches


def score(suggestions: Sequence[Suggestion], errors: Sequence[Error]) -> dict[str, float]:
    """Return precision among the first 100 and 500, recall, average precision, and how many are corrected."""
    matches = find_errors(suggestions, errors)
    right = np.array([error is not None for error in matches], dtype=np.float64)
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    corrected = sum(
        error is not None and error.before == (None if one.suggested is None else one.suggested.key)
        for one, error in zip(suggestions, matches, strict=True)
    )
    scores = {
        "precision_at_100": right[:100].mean() if len(right) else 0.0,
        "precision_at_500": right[:500].mean() if len(right) else 0.0,
        "recall_at_500": right[:500].sum() / len(errors),
        "recall": right.sum() / len(errors),
        "average_precision": (precision * right).sum() / len(errors),
        "corrected": corrected / len(errors),
    }
    return {"suggestions": len(suggestions), **{name: round(float(one), 4) for name, one in scores.items()}}


def score_random(suggestions: Sequence[Suggestion], errors: Sequence[Error], seed: int) -> dict[str, float]:
    chance = random.Random(seed)
    rows = [score(chance.sample(suggestions, len(suggestions)), errors) for _ in range(DRAWS)]
    return {name: round(float(np.mean([row[name] for row in rows])), 4) for name in rows[0]}


def found_by_kind(suggestions: Sequence[Suggestion], errors: Sequence[Error]) -> dict[str, dict[str, float]]:
    """Return the share of the errors of each kind that is found at all, and among the first 500."""
    matches = find_errors(suggestions, errors)
    total = Counter(error.kind for error in errors)
    first, every = (
        Counter(error.kind for error in part if error is not None) for part in (matches[:500], matches)
    )
    return {
        kind: {"recall": round(every[kind] / count, 4), "recall_at_500": round(first[kind] / count, 4)}
        for kind, count in sorted(total.items())
    }


def held_out_f1(predictions: AuditPredictions, config: Config) -> float:
    """Return the F1 of the models on sentences that they have not seen, by the annotations with errors."""
    predicted = select_entities(predictions.sentences, predictions.held_out, config)
    return evaluate(predictions.sentences, predicted).overall.f1


if __name__ == "__main__":
    main()
