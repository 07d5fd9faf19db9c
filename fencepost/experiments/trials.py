"""Trials, of which sweeps and tunings consist: one way to run, resume and record a training in a folder.

The folder of a trial is what `train` writes. It alone says how far the trial is, so a process can be killed
at any moment.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from fencepost import __version__
from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.data.output import raise_write_errors, remove_leftovers, whole_file
from fencepost.encoder.encoder import Encoder
from fencepost.encoder.pretrained import Pretrained
from fencepost.encoder.subwords import Subwords
from fencepost.errors import UsageError
from fencepost.experiments.cells import Cell
from fencepost.experiments.variants import part, with_boundary_noise
from fencepost.experiments.workers import Failure
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.folder import CONFIG_FILE, SUMS_FILE, WEIGHTS_FILE
from fencepost.training.run import RESULT_FILE, RUN_FILE, AfterEpoch, remove_checkpoints, train

State = Literal["planned", "running", "complete", "pruned", "failed"]
"""A trial is running from its first file on, also while no process works on it; a pruned one was given up."""

MODEL_FILES = (
    CONFIG_FILE,
    SUMS_FILE,
    WEIGHTS_FILE,
    Encoder.VOCABULARY_FILE,
    Pretrained.CONFIG_FILE,
    Subwords.FILE,
    Subwords.SPECIAL_FILE,
)
"""The files of a model, in the order in which they are removed: half a model must not look like one."""


@dataclass(frozen=True, slots=True)
class Data:
    """The data of all trials, and the device. A trial may change the training data, and nothing else."""

    train: Sequence[Sentence]
    dev: Sequence[Sentence] | None = None
    test: Sequence[Sentence] | None = None
    device: DeviceName = "auto"

    def __post_init__(self) -> None:
        for name, sentences in (("training", self.train), ("development", self.dev), ("test", self.test)):
            if sentences is not None and not any(sentence.words for sentence in sentences):
                raise UsageError(f"the {name} data has no sentences")

    def learnt(self, cell: Cell, seed: int) -> list[Sentence]:
        """Return the training data of a trial. Noise is added first: a share has the noise of the whole."""
        sentences = list(self.train)
        if cell.noise:
            sentences = with_boundary_noise(sentences, cell.noise, seed)
        return sentences if cell.share is None else part(sentences, cell.share, seed)


@dataclass(frozen=True, eq=False)
class Trial:
    """A training in a folder; the cell says how its data is changed, and what it is compared by."""

    label: str
    config: Config
    folder: Path
    cell: Cell = field(default_factory=Cell)

    @property
    def seed(self) -> int:
        return self.config.training.seed


def run_trial(data: Data, trial: Trial, after_epoch: AfterEpoch | None = None) -> None:
    """Train, or resume a training that was stopped; do nothing for one that is complete."""
    if has_scores(trial.folder):
        return
    learnt, resume = data.learnt(trial.cell, trial.seed), is_started(trial.folder)
    options: dict[str, Any] = {"resume": resume, "after_epoch": after_epoch, "device": data.device}
    train(trial.config, learnt, trial.folder, data.dev, data.test, **options)


def is_started(folder: Path) -> bool:
    """Return whether there is a training in the folder, complete or not."""
    return (folder / RUN_FILE).is_file()


def has_scores(folder: Path) -> bool:
    """Return whether the training in the folder has its scores; it may have been killed right after."""
    return (folder / RESULT_FILE).is_file()


def tidy(folder: Path, *, keep_model: bool) -> None:
    """Remove what a killed process has left of a trial that has ended, and the model unless it is kept."""
    remove_leftovers(folder)
    remove_checkpoints(folder)
    if not keep_model:
        for name in MODEL_FILES:
            (folder / name).unlink(missing_ok=True)


def write_failure(folder: Path, failure: Failure | None) -> None:
    """Write the traceback of an unexpected error beside the folder; remove that of an earlier attempt."""
    report = folder.with_name(f"{folder.name}.error.txt")
    report.unlink(missing_ok=True)
    if failure is not None and failure.details:
        with raise_write_errors(report):
            report.parent.mkdir(parents=True, exist_ok=True)
        write_text(report, failure.details)


@contextmanager
def locked(out: Path, kind: str) -> Iterator[None]:
    """Make the folder, and refuse a second process in it: both would run the same trials."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / lock_file(kind)).open("w")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{out}: another {kind} is at work there; wait for it, or give this one another --out"
            ) from None
        except (ImportError, OSError):  # Windows, and file systems without locks: the user must take care
            pass
        yield


def lock_file(kind: str) -> str:
    return f".{kind}.lock"


def write_text(path: Path, text: str) -> None:
    """Write a file that is complete at any time."""
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, results: Mapping[str, Any]) -> None:
    tree = {"fencepost": __version__, **results}
    write_text(path, json.dumps(tree, indent=2, ensure_ascii=False) + "\n")


def write_csv(path: Path, columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(columns), extrasaction="ignore", lineterminator="\n")
    if writer.fieldnames:
        writer.writeheader()
    writer.writerows(rows)
    write_text(path, stream.getvalue())
