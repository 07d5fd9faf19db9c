"""A sweep: a model for each cell of a grid and each seed, in a folder where it can go on at any time.

A run is in `OUT/CELL/seed-N`, and is what `train` makes. Which runs are finished is told by these
folders alone, so that nothing is lost with the process, and runs that were made otherwise count too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json
from fencepost.data.output import TEMPORARY, naming, remove_leftovers
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.pretrained import Pretrained
from fencepost.encoder.subwords import Subwords
from fencepost.errors import DataError, UsageError
from fencepost.experiments.cells import Cell, cells_of, check_distinct
from fencepost.experiments.sweep_results import results_of, scores_of, write_results
from fencepost.experiments.variants import part, with_boundary_noise
from fencepost.experiments.workers import Ended, Failure, in_processes, one_by_one
from fencepost.runtime.folder import CONFIG_FILE, SUMS_FILE, WEIGHTS_FILE
from fencepost.settings import Tree, merged
from fencepost.training.run import (
    RESULT_FILE,
    RUN_FILE,
    fingerprint,
    has_data,
    learnt_from,
    other_settings,
    remove_checkpoints,
    train,
)

__all__ = ["Cell", "Data", "Run", "Sweep", "cells_of", "part", "with_boundary_noise"]

State = Literal["new", "begun", "finished"]

MODEL_FILES = (
    CONFIG_FILE,
    SUMS_FILE,
    WEIGHTS_FILE,
    Encoder.VOCABULARY_FILE,
    Pretrained.CONFIG_FILE,
    Subwords.FILE,
    Subwords.SPECIAL_FILE,
)
"""What makes a folder a model, in the order in which it is removed: half a model must not look like one."""

LOCK_FILE = ".sweep.lock"
_ADVICE = "remove that folder to train it again, or give the sweep another --out"


@dataclass(frozen=True, slots=True)
class Data:
    """The same for all runs, which change the training data each in its way and nothing else."""

    train: Sequence[Sentence]
    dev: Sequence[Sentence] | None = None
    test: Sequence[Sentence] | None = None

    def __post_init__(self) -> None:
        for name, sentences in (("training", self.train), ("development", self.dev), ("test", self.test)):
            if sentences is not None and not any(sentence.words for sentence in sentences):
                raise UsageError(f"the {name} data has no sentences")

    def learnt(self, cell: Cell, seed: int) -> list[Sentence]:
        """What a run learns from. Noise comes first, so that a larger share has that of a smaller one."""
        sentences = list(self.train)
        if cell.noise:
            sentences = with_boundary_noise(sentences, cell.noise, seed)
        return sentences if cell.share is None else part(sentences, cell.share, seed)


@dataclass(frozen=True, eq=False)
class Run:
    """One training: a cell with a seed."""

    cell: Cell
    config: Config
    folder: Path

    @property
    def seed(self) -> int:
        return self.config.training.seed

    @property
    def label(self) -> str:
        return f"{self.cell.label}, seed {self.seed}"

    def __reduce__(self) -> tuple[Any, ...]:
        """For other processes: the class of a configuration is made for its method, and has no name."""
        return _run, (self.cell, self.config.model_dump(mode="json"), self.folder)


def _run(cell: Cell, tree: Tree, folder: Path) -> Run:
    return Run(cell, Config.parse(tree), folder)


class Sweep:
    """All runs, of which some may be finished already.

    A run in the folder that is another one, with other settings or data, is refused.
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
            _seeded(cell, config, self.out, config.training.seed + number)
            for cell, config in settings.items()
            for number in range(seeds)
        ]
        self._fingerprints: dict[Any, dict[str, Any]] = {}
        self.states = {run: self._state(run) for run in self.runs}
        self.scores = {run: scores_of(run.folder) for run in self.of_state("finished")}
        self.failed: dict[Run, Failure] = {}

    def of_state(self, *states: State) -> list[Run]:
        """The runs that are in one of these states."""
        return [run for run in self.runs if self.states[run] in states]

    @property
    def results(self) -> dict[str, Any]:
        """Of what is finished so far, with what has failed."""
        scores = {run: self.scores[run] for run in self.runs if run in self.scores}
        failed = {run.label: failure.message for run, failure in self.failed.items()}
        return {**results_of(self.cells, scores), "failed": failed}

    def go(self, workers: int = 1) -> Iterator[Ended[Run]]:
        """Trains what is not finished, and tells of each run when it is; the results are in files by then.

        A run that was broken off goes on from its checkpoint. One that fails costs no other.
        """
        todo, work = self.of_state("begun", "new"), partial(_carry_out, self.data)
        ended = one_by_one(work, todo) if workers == 1 else in_processes(work, todo, workers)
        with _alone(self.out), closing(ended):
            write_results(self.out, self.results)
            for run in self.of_state("finished"):
                self._tidy(run)
            for one in ended:
                self._note(one)
                yield one

    def _note(self, ended: Ended[Run]) -> None:
        run, report = ended.task, _report_of(ended.task)
        report.unlink(missing_ok=True)
        if ended.failure is None:
            self.states[run], self.scores[run] = "finished", scores_of(run.folder)
            self._tidy(run)
        else:
            self.failed[run] = ended.failure
            if ended.failure.details:
                with naming(report):
                    report.parent.mkdir(parents=True, exist_ok=True)
                    report.write_text(ended.failure.details, encoding="utf-8")
        write_results(self.out, self.results)

    def _tidy(self, run: Run) -> None:
        """Remove what a run has left that was killed at its end, and the model if it is not to be kept."""
        remove_leftovers(run.folder)
        remove_checkpoints(run.folder)
        if not self.keep_models:
            for name in MODEL_FILES:
                (run.folder / name).unlink(missing_ok=True)

    def _state(self, run: Run) -> State:
        folder = run.folder
        if not (folder / RUN_FILE).is_file():
            if not all(path.name.startswith(TEMPORARY) for path in _entries(folder)):
                raise UsageError(f"{folder}: is there already and no training run; {_ADVICE}")
            return "new"
        differs = other_settings(folder, run.config)
        if differs:
            raise UsageError(f"{folder}: the run there has other settings ({differs}); {_ADVICE}")
        if not has_data(folder, self._data(run)):
            raise UsageError(f"{folder}: the run there has other training or development data; {_ADVICE}")
        if not (folder / RESULT_FILE).is_file():
            return "begun"
        if not _is_scored_on(folder, self.data.test):
            raise UsageError(f"{folder}: the run there was not scored on this test data; {_ADVICE}")
        return "finished"

    def _data(self, run: Run) -> dict[str, Any]:
        """The fingerprints of its data, which many runs have in common."""
        known, dev = self._fingerprints, self.data.dev
        if "dev" not in known:
            known["dev"] = {"dev": None if dev is None else fingerprint(dev)}
        key = (run.cell.share, run.cell.noise, run.seed, run.config.encoder.context)
        if key not in known:
            learnt = learnt_from(self.data.learnt(run.cell, run.seed), run.config)
            known[key] = {"train": fingerprint(learnt)}
        return known[key] | known["dev"]


def _seeded(cell: Cell, config: Config, out: Path, seed: int) -> Run:
    tree = merged(config.model_dump(mode="json"), {"training": {"seed": seed}})
    return _run(cell, tree, out / cell.name / f"seed-{seed}")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Makes the folder, and refuses a second sweep in it at the same time: both would write the same runs."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK_FILE).open("w")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{out}: another sweep is at work there; wait for it, or give this one another --out"
            raise UsageError(message) from None
        except (ImportError, OSError):  # Windows, and file systems without locks: the user must take care
            pass
        yield


def _carry_out(data: Data, run: Run) -> None:
    resume = (run.folder / RUN_FILE).is_file()
    if not resume:
        remove_leftovers(run.folder)
    learnt = data.learnt(run.cell, run.seed)
    try:
        train(run.config, learnt, run.folder, data.dev, data.test, resume=resume)
    finally:
        gc.collect()  # a trainer's parts hold each other, and weights whose room the next run needs


def _report_of(run: Run) -> Path:
    """For what nobody foresaw: where in the program it happened."""
    return run.folder.with_name(f"{run.folder.name}.error.txt")


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None


def _is_scored_on(folder: Path, test: Sequence[Sentence] | None) -> bool:
    """As far as the numbers of sentences and entities tell; without test data, nothing speaks against it."""
    if test is None:
        return True
    try:
        there = read_json(folder / RESULT_FILE)["test"] or {}
    except (DataError, KeyError, TypeError):
        return True  # the scores, which are read next, will be refused
    entities = sum(len({entity.key for entity in sentence.entities}) for sentence in test)
    return (there.get("sentences"), there.get("support")) == (len(test), entities)
