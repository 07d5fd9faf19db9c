"""What a training run leaves behind while it goes on: `metrics.jsonl`, TensorBoard, lines and bars."""

# ruff: noqa: ARG002 - transformers says what a callback is given

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from fencepost.data.output import naming, open_output, whole_file

if TYPE_CHECKING:
    from rich.console import Console

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.jsonl", "tensorboard"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return the records of a run: those with `dev_f1` are of an epoch's end, the others of steps between."""
    try:
        lines = (folder / METRICS_FILE).read_bytes().splitlines()
    except OSError:
        return []
    records = []
    for line in lines:
        with suppress(ValueError):  # the last line of a process that was killed may be cut off
            records.append(json.loads(line))
    return records


class Records(TrainerCallback):
    """Writes each record to `metrics.jsonl` and to TensorBoard; of several processes, only the first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: _EventFile | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Write the records of a run that is resumed: its checkpoint has those until then, and no others."""
        if not state.is_world_process_zero:
            return
        kept = records_of(state)
        with whole_file(self.folder / METRICS_FILE) as stream:
            stream.writelines(_line(record) for record in kept)
        # TensorBoard takes its files in the order of the seconds in their names: one file is sure
        shutil.rmtree(self.folder / TENSORBOARD_FOLDER, ignore_errors=True)
        self.events = _EventFile(self.folder / TENSORBOARD_FOLDER)
        for record in kept:
            self.events.add(record)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """So that a checkpoint and what was logged end at the same step; all processes log together."""
        control.should_log = True

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any
    ) -> None:
        if "train_runtime" in more["logs"] or self.events is None:
            return
        record = _record(state.log_history[-1])
        with open_output(self.folder / METRICS_FILE, "ab") as stream:
            stream.write(_line(record))
        self.events.add(record)

    def close(self) -> None:
        if self.events is not None:
            self.events.close()


class _EventFile:
    """A file for TensorBoard; PyTorch's `SummaryWriter` writes in a thread, whose errors are lost."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[import-untyped]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{time.time():010.0f}.{socket.gethostname()}.{os.getpid()}"
        self._writer, self._event = RecordWriter(open_output(path, "wb")), Event
        self._write(file_version="brain.Event:2")

    def add(self, record: Mapping[str, Any]) -> None:
        """Add the numbers of a record."""
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


def records_of(state: TrainerState) -> list[dict[str, Any]]:
    """Return the records that a run has made until this state."""
    return [_record(logged) for logged in state.log_history if "train_runtime" not in logged]


def _record(logged: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was logged with our names; both learning rates are in it by name."""
    values = {
        f"dev_{name.removeprefix('eval_')}" if name.startswith("eval_") else name: logged[name]
        for name in sorted(logged)  # as the state of a checkpoint has them
        if name not in ("step", "epoch", "learning_rate")
    }
    return {"step": logged["step"], "epoch": round(logged["epoch"], 4), **values}


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record).encode() + b"\n"


class Display(TrainerCallback):
    """A line for each epoch and, in a terminal, a bar with loss and F1 below them."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = console or Console(
            stderr=True,
            highlight=False,
            force_terminal=sys.stderr.isatty(),  # whatever the environment says
        )
        self.best = -1.0
        self.loss: float | None = None  # as it was logged last
        self.logged = 0  # the step of that
        self.losses: list[tuple[float, int]] = []  # of this epoch, with the number of steps of each
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            expand=True,
            disable=not self.console.is_interactive,
        )

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.best = state.best_metric if state.best_metric is not None else -1.0
        self.logged = state.global_step
        self.bar.start()
        self.task = self.bar.add_task("training", total=state.max_steps, completed=state.global_step, told="")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.bar.update(
            self.task,
            completed=state.global_step,
            description=f"epoch {math.ceil(state.epoch or 0)}/{args.num_train_epochs:.0f}",
            told=self._told(),
        )

    def _told(self) -> str:
        loss = "" if self.loss is None else f"loss {self.loss:.3f}"
        return loss if self.best < 0 else f"{loss}  best F1 {100 * self.best:.1f}"

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any
    ) -> None:
        if "loss" in more["logs"]:
            self.loss = more["logs"]["loss"]
            self.losses.append((self.loss, state.global_step - self.logged))
            self.logged = state.global_step

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any
    ) -> None:
        metrics: dict[str, Any] = more["metrics"]
        better = metrics["eval_f1"] > self.best
        self.best = max(self.best, metrics["eval_f1"])
        self._line(
            state,
            f"   dev loss {metrics['eval_loss']:8.3f}   P {100 * metrics['eval_precision']:5.1f}   "
            f"R {100 * metrics['eval_recall']:5.1f}   F1 {100 * metrics['eval_f1']:5.1f}"
            f"{'  best so far' if better else ''}",
        )

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """The end of an epoch, when its loss has been logged."""
        if args.eval_strategy == "no":
            self._line(state, "")

    def _line(self, state: TrainerState, more: str) -> None:
        steps = sum(count for _, count in self.losses)
        loss = sum(loss * count for loss, count in self.losses) / max(1, steps)
        self.losses = []
        # a line is a line, however narrow the terminal or the log file's idea of one
        self.console.print(f"epoch {state.epoch or 0:>3.0f}   loss {loss:8.3f}{more}", soft_wrap=True)

    def close(self) -> None:
        self.bar.stop()
