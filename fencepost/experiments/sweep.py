"""Sweeps: one trial for each cell of a grid and each seed, in `OUT/CELL/seed-N`.

Runs of `fencepost train` in such a folder count as trials too.
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
from fencepost.experiments.cells import GridCell, check_distinct, make_cells
from fencepost.experiments.sweep_results import read_scores, summarize_scores, write_results
from fencepost.experiments.trials import (
    Data,
    State,
    Trial,
    has_scores,
    is_started,
    list_entries,
    lock_folder,
    run_trial,
    tidy,
    write_failure,
)
from fencepost.experiments.workers import Failure, TaskResult, run_in_processes, run_task
from fencepost.settings import merge_trees
from fencepost.training.data import compute_fingerprint, prepare_sentences
from fencepost.training.folder import RESULT_FILE, describe_differences, has_data

__all__ = ["Data", "GridCell", "Sweep", "Trial", "make_cells"]

_ADVICE = "remove the folder to train it again, or give another --out"


class Sweep:
    """Runs of a sweep, of which some may already be complete.

    Raises `UsageError` if a folder contains a run with other settings or data.
    """

    def __init__(
        self,
        out: str | Path,
        settings: Mapping[GridCell, Config],
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
        self.states = {run: self._read_state(run) for run in self.runs}
        self.scores = {run: read_scores(run.folder) for run in self.find_runs("complete")}
        self.failed: dict[Trial, Failure] = {}

    def find_runs(self, *states: State) -> list[Trial]:
        """Return the runs in one of these states."""
        return [run for run in self.runs if self.states[run] in states]

    @property
    def results(self) -> dict[str, Any]:
        """Scores of the complete runs, and failures."""
        scores = {run: self.scores[run] for run in self.runs if run in self.scores}
        failed = {run.label: failure.message for run, failure in self.failed.items()}
        return {**summarize_scores(self.cells, scores), "failed": failed}

    def run(self, workers: int = 1) -> Iterator[TaskResult[Trial]]:
        """Train the incomplete runs; yield the result of each after the files are written.

        An interrupted run continues from its checkpoint. A run that fails does not affect the others.
        """
        todo, work = self.find_runs("running", "planned", "failed"), partial(run_trial, self.data)
        results = (
            (run_task(work, run) for run in todo) if workers == 1 else run_in_processes(work, todo, workers)
        )
        with lock_folder(self.out, "sweep"), closing(results):
            write_results(self.out, self.results)
            for run in self.find_runs("complete"):
                tidy(run.folder, keep_model=self.keep_models)
            for result in results:
                self._record(result.task, result.failure)
                yield result

    def _record(self, run: Trial, failure: Failure | None) -> None:
        write_failure(run.folder, failure)
        if failure is None:
            self.states[run], self.scores[run] = "complete", read_scores(run.folder)
            tidy(run.folder, keep_model=self.keep_models)
        else:
            self.states[run], self.failed[run] = "failed", failure
        write_results(self.out, self.results)

    def _read_state(self, run: Trial) -> State:
        folder = run.folder
        if not is_started(folder):
            if not all(path.name.startswith(TEMPORARY) for path in list_entries(folder)):
                raise UsageError(f"{folder}: already exists and is not a training run; {_ADVICE}")
            return "planned"
        differs = describe_differences(folder, run.config)
        if differs:
            raise UsageError(f"{folder}: contains a run with other settings ({differs}); {_ADVICE}")
        if not has_data(folder, self._get_fingerprints(run)):
            raise UsageError(f"{folder}: contains a run with other training or development data; {_ADVICE}")
        if not has_scores(folder):
            return "running"
        if not _is_scored_on(folder, self.data.test):
            raise UsageError(f"{folder}: contains a run that was not scored on this test data; {_ADVICE}")
        return "complete"

    def _get_fingerprints(self, run: Trial) -> dict[str, Any]:
        """Return the fingerprints of a run's data, which are cached because many runs share them."""
        key = (run.cell.share, run.cell.noise, run.seed, run.config.encoder.context)
        if key not in self._fingerprints:
            sentences = prepare_sentences(self.data.make_training_data(run.cell, run.seed), run.config)
            self._fingerprints[key] = compute_fingerprint(sentences)
        return {"train": self._fingerprints[key], "dev": self._dev}


def _run(cell: GridCell, config: Config, out: Path, seed: int) -> Trial:
    tree = merge_trees(config.model_dump(mode="json"), {"training": {"seed": seed}})
    return Trial(f"{cell.label}, seed {seed}", Config.parse(tree), out / cell.name / f"seed-{seed}", cell)


def _is_scored_on(folder: Path, test: Sequence[Sentence] | None) -> bool:
    """Return whether a run was scored on this many sentences and entities; True without test data."""
    if test is None:
        return True
    try:
        scores = read_json(folder / RESULT_FILE)["test"] or {}
    except (DataError, KeyError, TypeError):
        return True  # reading the scores next raises an error
    entities = sum(len({entity.key for entity in sentence.entities}) for sentence in test)
    return (scores.get("sentences"), scores.get("support")) == (len(test), entities)
