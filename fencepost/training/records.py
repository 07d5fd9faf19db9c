"""Records of a training run: `metrics.jsonl`, TensorBoard, a line for each epoch, and a progress bar."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.data.output import open_output, raise_write_errors, whole_file

if TYPE_CHECKING:
    from rich.console import Console

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.jsonl", "tensorboard"
Record = dict[str, Any]
"""Values by name, with their `step` and `epoch`; names of development scores begin with `dev_`."""


def find_best_epoch(records: Sequence[Record]) -> Record | None:
    """Return the record of the first epoch with the best development F1, or None without records of F1.

    If all F1 are 0, it is that of the last epoch.
    """
    scored = [record for record in records if "dev_f1" in record]
    best = max(scored, key=lambda record: record["dev_f1"], default=None)
    return scored[-1] if best is not None and not best["dev_f1"] else best


class Listener:
    """Interface of listeners, which the trainer calls in the first process; an exception stops it."""

    def begin(self, records: Sequence[Record], step: int, steps: int, epochs: int) -> None:
        """Receive the records up to this step; a resumed training run has some."""

    def after_step(self, step: int, epoch: float) -> None: ...

    def record(self, record: Record) -> None: ...

    def after_epoch(self, epoch: int, scores: Record | None) -> None:
        """Receive the record of the development data, if any; the checkpoint is not saved yet."""

    def close(self) -> None: ...


class Records(Listener):
    """Listener that writes each record to `metrics.jsonl` and to TensorBoard."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: _EventFile | None = None

    def begin(self, records: Sequence[Record], step: int, steps: int, epochs: int) -> None:  # noqa: ARG002
        """Write the records of the checkpoint of a resumed training run, in place of all earlier ones."""
        with whole_file(self.folder / METRICS_FILE) as stream:
            stream.writelines(_format_line(record) for record in records)
        # a single file, because TensorBoard reads several in the order of the seconds in their names
        shutil.rmtree(self.folder / TENSORBOARD_FOLDER, ignore_errors=True)
        self.events = _EventFile(self.folder / TENSORBOARD_FOLDER)
        for record in records:
            self.events.add(record)

    def record(self, record: Record) -> None:
        with open_output(self.folder / METRICS_FILE, "ab") as stream:
            stream.write(_format_line(record))
        if self.events is not None:
            self.events.add(record)

    def close(self) -> None:
        if self.events is not None:
            self.events.close()


def _format_line(record: Record) -> bytes:
    return json.dumps(record).encode() + b"\n"


class _EventFile:
    """A file for TensorBoard; errors of PyTorch's `SummaryWriter`, which uses a thread, would be lost."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        with raise_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}"
        self._writer, self._event = RecordWriter(open_output(path, "wb")), Event
        self._write(file_version="brain.Event:2")

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the values of a record."""
        from torch.utils.tensorboard.summary import scalar

        for name, value in record.items():
            if value is not None and name not in ("step", "epoch"):
                summary = scalar(name, value)  # type: ignore[no-untyped-call]
                self._write(step=record["step"], summary=summary)

    def _write(self, **fields: Any) -> None:
        self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Display(Listener):
    """Listener that prints a line for each epoch and, in a terminal, a progress bar with loss and F1."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = console or Console(
            stderr=True,
            highlight=False,
            force_terminal=sys.stderr.isatty(),  # ignores environment variables
        )
        self.best = -1.0
        self.epochs = 0
        self.recorded = 0  # the step of the last record
        self.losses: list[tuple[float, int]] = []  # mean losses in this epoch, each with its number of steps
        self.scores = ""
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[scores]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            expand=True,
            disable=not self.console.is_interactive,
        )

    def begin(self, records: Sequence[Record], step: int, steps: int, epochs: int) -> None:
        best = find_best_epoch(records)
        self.best = best["dev_f1"] if best else -1.0
        self.recorded, self.epochs = step, epochs
        self.bar.start()
        self.task = self.bar.add_task("training", total=steps, completed=step, scores="")

    def after_step(self, step: int, epoch: float) -> None:
        description = f"epoch {math.ceil(epoch)}/{self.epochs}"
        self.bar.update(self.task, completed=step, description=description, scores=self.scores)

    def record(self, record: Record) -> None:
        if "loss" in record:
            self.losses.append((record["loss"], record["step"] - self.recorded))
            self.recorded = record["step"]
            self._show_scores(record["loss"])

    def _show_scores(self, loss: float) -> None:
        self.scores = f"loss {loss:.3f}" + (f"  best F1 {100 * self.best:.1f}" if self.best >= 0 else "")

    def after_epoch(self, epoch: int, scores: Record | None) -> None:
        steps = sum(count for _, count in self.losses)
        loss = sum(loss * count for loss, count in self.losses) / max(1, steps)
        line = f"epoch {epoch:>3}   loss {loss:8.3f}"
        if scores is not None:
            line += f"   dev loss {scores['dev_loss']:8.3f}"
        if scores is not None and "dev_f1" in scores:
            line += (
                f"   P {100 * scores['dev_precision']:5.1f}   R {100 * scores['dev_recall']:5.1f}   "
                f"F1 {100 * scores['dev_f1']:5.1f}"
                f"{'  best so far' if scores['dev_f1'] > self.best else ''}"
            )
            self.best = max(self.best, scores["dev_f1"])
            self._show_scores(self.losses[-1][0])
        self.losses = []
        self.console.print(line, soft_wrap=True)  # never wraps, even in a narrow terminal

    def close(self) -> None:
        self.bar.stop()
