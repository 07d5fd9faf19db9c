"""Cross-validation by documents: a model for each fold, trained on the documents of all other folds.

Each model predicts all sentences: those of its own fold, which it was not trained on, and those that it was
trained on, where a low confidence shows that the annotation is hard to learn. The folder of an audit has
`audit.json`, which identifies its data and settings, and a folder for each fold with the training run, which
is replaced by `candidates.jsonl` when it is complete: all candidates that are not too improbable. An
interrupted audit therefore continues where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fencepost.analysis.audit.predictions import AuditPredictions, Confidences, Key
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json_object
from fencepost.data.output import TEMPORARY
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Temperature, match
from fencepost.experiments.trials import (
    is_started,
    list_entries,
    lock_folder,
    make_lock_name,
    tidy,
    write_failure,
    write_json,
)
from fencepost.experiments.workers import TaskResult, run_in_processes, run_task
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.loading import load
from fencepost.training.data import compute_fingerprint
from fencepost.training.folder import is_complete
from fencepost.training.run import train
from fencepost.training.scoring import apply_temperature

AUDIT_FILE, CANDIDATES_FILE = "audit.json", "candidates.jsonl"
LOWEST = 0.02
"""Minimum confidence of a candidate, before calibration."""


def split_folds(sentences: Sequence[Sentence], count: int, seed: int) -> list[int]:
    """Return the fold of each sentence, from 0; the sentences of a document are in the same fold.

    A sentence without `doc` is a document of its own. The documents, from the largest to the smallest and in
    random order among equals, are assigned to the fold with the fewest sentences, so that folds have nearly
    the same size. Raises `UsageError` if there are fewer documents than folds.
    """
    names = [sentence.doc if sentence.doc is not None else index for index, sentence in enumerate(sentences)]
    sizes = Counter(names)
    if len(sizes) < count:
        raise UsageError(
            f"--folds {count}: the corpus has only {len(sizes):,} document{'s' * (len(sizes) != 1)}, and "
            "each fold needs at least one; use fewer folds"
        )
    documents = list(sizes)
    shuffled = [documents[index] for index in np.random.default_rng(seed).permutation(len(documents))]
    totals, folds = [0] * count, {}
    for name in sorted(shuffled, key=lambda one: -sizes[one]):
        folds[name] = totals.index(min(totals))
        totals[folds[name]] += sizes[name]
    return [folds[name] for name in names]


@dataclass(frozen=True)
class Audit:
    """Training runs of an audit in a folder, some of which may be complete already."""

    out: Path
    sentences: Sequence[Sentence]
    config: Config
    folds: int = 5
    device: DeviceName = "auto"
    quiet: bool = True

    def check(self) -> None:
        """Raise `UsageError` if the folder has anything but this audit, with the same data and settings."""
        if self.folds < 2:
            raise UsageError(
                f"--folds {self.folds}: use at least 2, so that no model is tested only on its training data"
            )
        self._assign_folds()
        path = self.out / AUDIT_FILE
        if path.is_file():
            existing = read_json_object(path)
            if {key: existing.get(key) for key in self._describe_audit()} != self._describe_audit():
                raise UsageError(
                    f"{self.out}: contains an audit with other data, settings or folds; use another --out or "
                    "remove the folder"
                )
            return
        names = {one.name for one in list_entries(self.out)} - {make_lock_name("audit")}
        if not all(name.startswith(TEMPORARY) for name in names):
            raise UsageError(f"{self.out}: already exists and is not an audit; use another --out")

    def _describe_audit(self) -> dict[str, object]:
        settings = self.config.model_dump(mode="json")
        return {"data": compute_fingerprint(self.sentences), "folds": self.folds, "settings": settings}

    def get_folder(self, fold: int) -> Path:
        return self.out / f"fold-{fold + 1}"

    def is_done(self, fold: int) -> bool:
        return (self.get_folder(fold) / CANDIDATES_FILE).is_file()

    def run(self, workers: int = 1) -> Iterator[TaskResult[int]]:
        """Train and predict the folds that are not complete; yield each as it ends."""
        todo = [fold for fold in range(self.folds) if not self.is_done(fold)]
        work = (self if workers == 1 else replace(self, quiet=True)).run_fold
        every = (
            (run_task(work, fold) for fold in todo) if workers == 1 else run_in_processes(work, todo, workers)
        )
        with lock_folder(self.out, "audit"), closing(every):
            if not (self.out / AUDIT_FILE).is_file():
                write_json(self.out / AUDIT_FILE, self._describe_audit())
            for fold in set(range(self.folds)) - set(todo):
                tidy(self.get_folder(fold), keep_model=False)  # a process that was killed may have left files
            for result in every:
                write_failure(self.get_folder(result.task), result.failure)
                yield result

    def read_predictions(self) -> AuditPredictions:
        """Read the candidates of all folds, and return them with calibrated confidences.

        The confidences of a model are calibrated on its own fold, which it was not trained on. This fits only
        two numbers, so it hardly adapts to single annotations.
        """
        assigned = self._assign_folds()
        held_out: list[Confidences] = [{} for _ in self.sentences]
        training: list[Counter[Key]] = [Counter() for _ in self.sentences]
        for fold in range(self.folds):
            candidates = read_candidates(self.get_folder(fold), self.sentences)
            own = [number for number, of in enumerate(assigned) if of == fold]
            temperature = fit_temperature(
                [self.sentences[number] for number in own], [candidates[number] for number in own]
            )
            for number, sentence in enumerate(apply_temperature(temperature, candidates)):
                scores = {entity.key: entity.score for entity in sentence.entities}
                if assigned[number] == fold:
                    held_out[number] = scores
                else:
                    training[number].update({key: score / (self.folds - 1) for key, score in scores.items()})
        return AuditPredictions.of(self.sentences, held_out, training, self.config)

    def run_fold(self, fold: int) -> None:
        """Train on all other folds, or continue, and write the candidates of the model in all sentences."""
        pairs = zip(self.sentences, self._assign_folds(), strict=True)
        data = [sentence for sentence, of in pairs if of != fold]
        folder = self.get_folder(fold)
        write_candidates(self.config, data, self.sentences, folder, device=self.device, quiet=self.quiet)

    def _assign_folds(self) -> list[int]:
        return split_folds(self.sentences, self.folds, self.config.training.seed)


def write_candidates(
    config: Config,
    data: Sequence[Sentence],
    sentences: Sequence[Sentence],
    folder: Path,
    *,
    device: DeviceName = "auto",
    quiet: bool = True,
) -> None:
    """Train a model on `data`, or continue; write its candidates in `sentences`; remove the model."""
    if (folder / CANDIDATES_FILE).is_file():
        return
    if not is_complete(folder):
        train(config, data, folder, resume=is_started(folder), quiet=quiet, device=device)
    recogniser = load(folder, engine="pytorch", device=device).with_options(
        threshold=LOWEST, select="keep-all"
    )
    bare = (replace(sentence, entities=(), meta={}) for sentence in sentences)
    write(recogniser.predict(bare), folder / CANDIDATES_FILE)
    tidy(folder, keep_model=False)


def read_candidates(folder: Path, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with the candidates of `write_candidates`, before calibration."""
    path = folder / CANDIDATES_FILE
    candidates = list(read(path, "jsonl"))
    if [one.words for one in candidates] != [one.words for one in sentences]:
        message = f"the file has other sentences than this audit; remove {folder} to repeat this fold"
        raise DataError(message, source=str(path))
    return [one.with_entities(other.entities) for one, other in zip(sentences, candidates, strict=True)]


def fit_temperature(gold: Sequence[Sentence], candidates: Sequence[Sentence]) -> Temperature:
    predicted = match(gold, candidates).predicted
    return Temperature.fit(predicted.score, predicted.matched)
