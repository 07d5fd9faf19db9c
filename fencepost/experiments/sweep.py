"""A sweep: a trial for each cell of a grid and each seed, in `OUT/CELL/seed-N`.

Runs that were made otherwise, as with `fencepost train`, count too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json
from fencepost.data.output import TEMPORARY
from fencepost.errors import DataError, UsageError
from fencepost.experiments.cells import Cell, cells_of, check_distinct
from fencepost.experiments.sweep_results import results_of, scores_of, write_results
from fencepost.experiments.trials import (
    Data,
    State,
    Trial,
    has_scores,
    is_started,
    locked,
    run_trial,
    tidy,
    write_failure,
)
from fencepost.experiments.variants import part, with_boundary_noise
from fencepost.experiments.workers import Ended, Failure, attempt, in_processes
from fencepost.settings import merge_trees
from fencepost.training.run import (
    RESULT_FILE,
    compute_fingerprint,
    describe_differences,
    has_data,
    prepare_sentences,
)

__all__ = ["Cell", "Data", "Sweep", "Trial", "cells_of", "part", "with_boundary_noise"]

_ADVICE = "remove that folder to train it again, or give the sweep another --out"


class Sweep:
    """The runs of a sweep, of which some may be complete already.

    Raises `UsageError` for a folder with another run: with other settings or data.
    """

    def __init__(
        self,
        out: str | Path,
        settings: Mapping[Cell, Config],
        seeds: int,
        data: Data,
        *,
        keep_models: bool = True,
    ) -> None:
        check_distinct(settings)
        self.out, self.data, self.keep_models = Path(out), data, keep_models
        self.cells = list(settings)
        self.runs = [
            _run(cell, config, self.out, config.training.seed + number)
            for cell, config in settings.items()
            for number in range(seeds)
        ]
        self._dev = None if data.dev is None else compute_fingerprint(data.dev)
        self._fingerprints: dict[Any, dict[str, Any]] = {}
        self.states = {run: self._state(run) for run in self.runs}
        self.scores = {run: scores_of(run.folder) for run in self.of_state("complete")}
        self.failed: dict[Trial, Failure] = {}

    def of_state(self, *states: State) -> list[Trial]:
        """Return the runs that are in one of these states."""
        return [run for run in self.runs if self.states[run] in states]

    @property
    def results(self) -> dict[str, Any]:
        """The scores of the runs that are complete so far, and the failures."""
        scores = {run: self.scores[run] for run in self.runs if run in self.scores}
        failed = {run.label: failure.message for run, failure in self.failed.items()}
        return {**results_of(self.cells, scores), "failed": failed}

    def go(self, workers: int = 1) -> Iterator[Ended[Trial]]:
        """Train the runs that are not complete, and yield each when it has ended and the results are written.

        A run that was interrupted continues from its checkpoint. A run that fails does not affect the others.
        """
        todo, work = self.of_state("running", "planned", "failed"), partial(run_trial, self.data)
        every = (attempt(work, run) for run in todo) if workers == 1 else in_processes(work, todo, workers)
        with locked(self.out, "sweep"), closing(every):
            write_results(self.out, self.results)
            for run in self.of_state("complete"):
                tidy(run.folder, keep_model=self.keep_models)
            for ended in every:
                self._record(ended.task, ended.failure)
                yield ended

    def _record(self, run: Trial, failure: Failure | None) -> None:
        write_failure(run.folder, failure)
        if failure is None:
            self.states[run], self.scores[run] = "complete", scores_of(run.folder)
            tidy(run.folder, keep_model=self.keep_models)
        else:
            self.states[run], self.failed[run] = "failed", failure
        write_results(self.out, self.results)

    def _state(self, run: Trial) -> State:
        folder = run.folder
        if not is_started(folder):
            if not all(path.name.startswith(TEMPORARY) for path in _entries(folder)):
                raise UsageError(f"{folder}: is there already and no training run; {_ADVICE}")
            return "planned"
        differs = describe_differences(folder, run.config)
        if differs:
            raise UsageError(f"{folder}: the run there has other settings ({differs}); {_ADVICE}")
        if not has_data(folder, self._data(run)):
            raise UsageError(f"{folder}: the run there has other training or development data; {_ADVICE}")
        if not has_scores(folder):
            return "running"
        if not _is_scored_on(folder, self.data.test):
            raise UsageError(f"{folder}: the run there was not scored on this test data; {_ADVICE}")
        return "complete"

    def _data(self, run: Trial) -> dict[str, Any]:
        """Return the fingerprints of a run's data, which many runs have in common."""
        key = (run.cell.share, run.cell.noise, run.seed, run.config.encoder.context)
        if key not in self._fingerprints:
            learnt = prepare_sentences(self.data.learnt(run.cell, run.seed), run.config)
            self._fingerprints[key] = compute_fingerprint(learnt)
        return {"train": self._fingerprints[key], "dev": self._dev}


def _run(cell: Cell, config: Config, out: Path, seed: int) -> Trial:
    tree = merge_trees(config.model_dump(mode="json"), {"training": {"seed": seed}})
    return Trial(f"{cell.label}, seed {seed}", Config.parse(tree), out / cell.name / f"seed-{seed}", cell)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None


def _is_scored_on(folder: Path, test: Sequence[Sentence] | None) -> bool:
    """Compare the numbers of sentences and entities; a run without test data now is always right."""
    if test is None:
        return True
    try:
        there = read_json(folder / RESULT_FILE)["test"] or {}
    except (DataError, KeyError, TypeError):
        return True  # the scores are read next, and refused
    entities = sum(len({entity.key for entity in sentence.entities}) for sentence in test)
    return (there.get("sentences"), there.get("support")) == (len(test), entities)
