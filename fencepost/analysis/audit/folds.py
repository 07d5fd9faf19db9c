"""Cross-validation by documents: every sentence is judged by a model that has not seen its document.

The other models, which have learnt from the sentence, say whether they could be convinced of the annotation.
The folder of an audit has `audit.json`, which identifies its data and settings, and a folder for each fold:
the training run while it lasts, then `candidates.jsonl`, every span and type that is not too improbable. So
an audit continues wherever it was stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fencepost.analysis.audit.judged import Confidences, Judged, Key
from fencepost.config import Config
from fencepost.data import read, write
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json_object
from fencepost.data.output import TEMPORARY
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Temperature, match
from fencepost.experiments.trials import (
    is_started,
    lock_folder,
    make_lock_name,
    tidy,
    write_failure,
    write_json,
)
from fencepost.experiments.workers import TaskResult, run_in_processes, run_task
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.loading import load
from fencepost.training.run import fingerprint, is_complete, train
from fencepost.training.scoring import apply_temperature

AUDIT_FILE, CANDIDATES_FILE = "audit.json", "candidates.jsonl"
LOWEST = 0.02
"""The smallest confidence, before calibration, of a candidate."""


def split_folds(sentences: Sequence[Sentence], count: int, seed: int) -> list[int]:
    """Return the fold of each sentence, from 0; the sentences of a document are in the same one.

    A sentence without `doc` is a document of its own. Folds have nearly the same number of sentences: the
    documents, in random order and the largest first, go to the fold with the fewest.
    """
    names = [sentence.doc if sentence.doc is not None else index for index, sentence in enumerate(sentences)]
    sizes = Counter(names)
    if len(sizes) < count:
        raise UsageError(
            f"--folds {count}: the corpus has {len(sizes):,} document{'s' * (len(sizes) != 1)}, and each "
            "fold needs one; give fewer folds"
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
    """The trainings of an audit in a folder, of which some may be complete already."""

    out: Path
    sentences: Sequence[Sentence]
    config: Config
    folds: int = 5
    device: DeviceName = "auto"
    quiet: bool = True

    def check(self) -> None:
        """Refuse a folder with anything but this audit, of the same data and settings."""
        if self.folds < 2:
            raise UsageError(
                f"--folds {self.folds}: a model must not judge what it has learnt; give 2 or more"
            )
        self._assigned()
        path = self.out / AUDIT_FILE
        if path.is_file():
            there = read_json_object(path)
            if {key: there.get(key) for key in self._identity()} != self._identity():
                raise UsageError(
                    f"{self.out}: the audit there has other data, settings or folds; give another --out, or "
                    "remove that folder"
                )
            return
        try:
            names = [one.name for one in self.out.iterdir()] if self.out.exists() else []
        except OSError as error:
            raise UsageError(f"{self.out}: cannot be read: {error.strerror}") from None
        if any(not name.startswith(TEMPORARY) and name != make_lock_name("audit") for name in names):
            raise UsageError(f"{self.out}: is there already and no audit; give another --out")

    def _identity(self) -> dict[str, object]:
        settings = self.config.model_dump(mode="json")
        return {"data": fingerprint(self.sentences), "folds": self.folds, "settings": settings}

    def folder(self, fold: int) -> Path:
        return self.out / f"fold-{fold + 1}"

    def is_done(self, fold: int) -> bool:
        return (self.folder(fold) / CANDIDATES_FILE).is_file()

    def go(self, workers: int = 1) -> Iterator[TaskResult[int]]:
        """Train and predict the folds that are not done; yield each when it has ended."""
        todo = [fold for fold in range(self.folds) if not self.is_done(fold)]
        work = (self if workers == 1 else replace(self, quiet=True)).judge_fold
        every = (
            (run_task(work, fold) for fold in todo) if workers == 1 else run_in_processes(work, todo, workers)
        )
        with lock_folder(self.out, "audit"), closing(every):
            if not (self.out / AUDIT_FILE).is_file():
                write_json(self.out / AUDIT_FILE, self._identity())
            for fold in set(range(self.folds)) - set(todo):
                tidy(self.folder(fold), keep_model=False)  # a process may have been killed before that
            for ended in every:
                write_failure(self.folder(ended.task), ended.failure)
                yield ended

    def judged(self) -> Judged:
        """Return the sentences with what the models say about them, with calibrated confidences.

        A model's calibration is fitted to the fold that it has not seen: two numbers, which can hardly
        remember an annotation.
        """
        assigned = self._assigned()
        unseen: list[Confidences] = [{} for _ in self.sentences]
        seen: list[Counter[Key]] = [Counter() for _ in self.sentences]
        for fold in range(self.folds):
            candidates = read_candidates(self.folder(fold), self.sentences)
            own = [number for number, of in enumerate(assigned) if of == fold]
            temperature = fit_temperature(
                [self.sentences[number] for number in own], [candidates[number] for number in own]
            )
            for number, sentence in enumerate(apply_temperature(temperature, candidates)):
                found = {entity.key: entity.score for entity in sentence.entities}
                if assigned[number] == fold:
                    unseen[number] = found
                else:
                    seen[number].update({key: score / (self.folds - 1) for key, score in found.items()})
        return Judged.of(self.sentences, unseen, seen, self.config)

    def judge_fold(self, fold: int) -> None:
        """Train on all other folds, or continue, and write what the model says about all sentences."""
        pairs = zip(self.sentences, self._assigned(), strict=True)
        learnt = [sentence for sentence, of in pairs if of != fold]
        folder = self.folder(fold)
        judge(self.config, learnt, self.sentences, folder, device=self.device, quiet=self.quiet)

    def _assigned(self) -> list[int]:
        return split_folds(self.sentences, self.folds, self.config.training.seed)


def judge(
    config: Config,
    learnt: Sequence[Sentence],
    sentences: Sequence[Sentence],
    folder: Path,
    *,
    device: DeviceName = "auto",
    quiet: bool = True,
) -> None:
    """Train a model, or continue; write its candidates in the sentences; remove it."""
    if (folder / CANDIDATES_FILE).is_file():
        return
    if not is_complete(folder):
        train(config, learnt, folder, resume=is_started(folder), quiet=quiet, device=device)
    recogniser = load(folder, engine="pytorch", device=device).with_options(
        threshold=LOWEST, select="keep-all"
    )
    bare = (replace(sentence, entities=(), meta={}) for sentence in sentences)
    write(recogniser.predict(bare), folder / CANDIDATES_FILE)
    tidy(folder, keep_model=False)


def read_candidates(folder: Path, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return what `judge` has written, before calibration."""
    path = folder / CANDIDATES_FILE
    found = list(read(path, "jsonl"))
    if [one.words for one in found] != [one.words for one in sentences]:
        message = f"not the sentences of this audit; remove {folder} to repeat this part"
        raise DataError(message, source=str(path))
    return [one.with_entities(other.entities) for one, other in zip(sentences, found, strict=True)]


def fit_temperature(gold: Sequence[Sentence], candidates: Sequence[Sentence]) -> Temperature:
    mentions = match(gold, candidates).predicted
    return Temperature.fit(mentions.score, mentions.matched)
