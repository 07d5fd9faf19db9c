"""Trials, the training runs of sweeps and tunings: run, resume and record a training run in a folder.

The folder of a trial is that of `train`. Its files alone tell the state of the trial, so a process can be
killed at any time.
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
from fencepost.errors import UsageError
from fencepost.experiments.cells import GridCell
from fencepost.experiments.variants import add_boundary_noise, sample_share
from fencepost.experiments.workers import Failure
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.folder import CARD_FILE, FILES
from fencepost.training.folder import RESULT_FILE, RUN_FILE, remove_checkpoints
from fencepost.training.run import AfterEpoch, train

State = Literal["planned", "running", "complete", "pruned", "failed"]
"""State of a trial: "running" from its first file on, even without a process; "pruned" if stopped early."""

_MODEL_FILES = [name for name in reversed(FILES) if name not in (CARD_FILE, RESULT_FILE) and "/" not in name]
"""Files that prediction reads, in the order of removal: an incomplete model must not look complete."""


@dataclass(frozen=True, slots=True)
class Data:
    """Data of all trials, and the device; a trial may use a variant of the training data."""

    train: Sequence[Sentence]
    dev: Sequence[Sentence] | None = None
    test: Sequence[Sentence] | None = None
    device: DeviceName = "auto"

    def __post_init__(self) -> None:
        for name, sentences in (("training", self.train), ("development", self.dev), ("test", self.test)):
            if sentences is not None and not any(sentence.words for sentence in sentences):
                raise UsageError(f"the {name} data has no sentences")

    def make_training_data(self, cell: GridCell, seed: int) -> list[Sentence]:
        """Return the training data of a trial. Noise is added before a share is drawn."""
        sentences = list(self.train)
        if cell.noise:
            sentences = add_boundary_noise(sentences, cell.noise, seed)
        return sentences if cell.share is None else sample_share(sentences, cell.share, seed)


@dataclass(frozen=True, eq=False)
class Trial:
    """Training in a folder; the cell determines its training data and how results are grouped."""

    label: str
    config: Config
    folder: Path
    cell: GridCell = field(default_factory=GridCell)

    @property
    def seed(self) -> int:
        return self.config.training.seed


def run_trial(data: Data, trial: Trial, after_epoch: AfterEpoch | None = None) -> None:
    """Train, or resume an interrupted training run; do nothing for a complete one."""
    if has_scores(trial.folder):
        return
    sentences, resume = data.make_training_data(trial.cell, trial.seed), is_started(trial.folder)
    options: dict[str, Any] = {"resume": resume, "after_epoch": after_epoch, "device": data.device}
    train(trial.config, sentences, trial.folder, data.dev, data.test, **options)


def is_started(folder: Path) -> bool:
    """Return whether the folder contains a training run, complete or not."""
    return (folder / RUN_FILE).is_file()


def has_scores(folder: Path) -> bool:
    """Return whether the training in the folder has its scores; it may have been killed afterwards."""
    return (folder / RESULT_FILE).is_file()


def tidy(folder: Path, *, keep_model: bool) -> None:
    """Remove temporary files and checkpoints of a finished trial, and its model unless it is kept."""
    remove_leftovers(folder)
    remove_checkpoints(folder)
    if not keep_model:
        for name in _MODEL_FILES:
            (folder / name).unlink(missing_ok=True)


def write_failure(folder: Path, failure: Failure | None) -> None:
    """Write the traceback of an unexpected error next to the folder; remove that of an earlier one."""
    report = folder.with_name(f"{folder.name}.error.txt")
    report.unlink(missing_ok=True)
    if failure is not None and failure.details:
        with raise_write_errors(report):
            report.parent.mkdir(parents=True, exist_ok=True)
        write_text(report, failure.details)


@contextmanager
def lock_folder(out: Path, kind: str) -> Iterator[None]:
    """Create the folder and lock it: two processes would run the same trials."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / make_lock_name(kind)).open("w")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{out}: another {kind} is running in this folder; wait for it, or give another --out"
            ) from None
        except (ImportError, OSError):  # Windows and file systems without locks: not protected
            pass
        yield


def list_entries(folder: Path) -> list[Path]:
    """Return what a folder contains, if it exists; raise `UsageError` if it cannot be read."""
    try:
        return list(folder.iterdir()) if folder.exists() else []
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None


def make_lock_name(kind: str) -> str:
    return f".{kind}.lock"


def write_text(path: Path, text: str) -> None:
    """Write a file so that it is never incomplete."""
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
