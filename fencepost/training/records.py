"""What a training run leaves behind while it goes on: `metrics.jsonl`, TensorBoard, lines and bars."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

METRICS_FILE, TENSORBOARD_FOLDER = "metrics.jsonl", "tensorboard"


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The records of a run: those with `dev_f1` are of an epoch's end, the others of steps between."""
    try:
        lines = (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    records = []
    for line in lines:
        with suppress(ValueError):  # the last line of a process that was killed may be cut off
            records.append(json.loads(line))
    return records


class Records(TrainerCallback):
    """Writes each record to `metrics.jsonl` and to TensorBoard."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Resumed, the run writes again what came after its checkpoint: that part is dropped first."""
        from torch.utils.tensorboard import SummaryWriter

        kept = [record for record in read_metrics(self.folder) if record["step"] <= state.global_step]
        if state.global_step == 0:
            kept = []
        lines = "".join(json.dumps(record) + "\n" for record in kept)
        (self.folder / METRICS_FILE).write_text(lines, encoding="utf-8")
        self.writer = SummaryWriter(
            str(self.folder / TENSORBOARD_FOLDER), purge_step=state.global_step + 1 if kept else None
        )

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        control.should_log = True  # so that a checkpoint and what was logged end at the same step

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any],
        **_: Any,
    ) -> None:
        if "train_runtime" in logs:
            return
        values = {name.replace("eval_", "dev_"): value for name, value in logs.items() if name != "epoch"}
        values.pop("learning_rate", None)  # both rates are there by name
        record = {"step": state.global_step, "epoch": round(state.epoch or 0.0, 4), **values}
        with (self.folder / METRICS_FILE).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        for name, value in values.items():
            if value is not None:
                self.writer.add_scalar(name, value, state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.writer.close()


class Display(TrainerCallback):
    """A bar with loss and F1 in a terminal; a line for each epoch elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console = Console(stderr=True, highlight=False)
        self.loss: float | None = None
        self.best = -1.0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not sys.stderr.isatty(),
        )

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.best = state.best_metric if state.best_metric is not None else -1.0
        self.bar.start()
        self.task = self.bar.add_task("training", total=state.max_steps, completed=state.global_step, told="")

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        epoch = min(int(state.epoch or 0) + 1, int(args.num_train_epochs))
        self.bar.update(
            self.task,
            completed=state.global_step,
            description=f"epoch {epoch}/{args.num_train_epochs:.0f}",
            told=self._told(),
        )

    def _told(self) -> str:
        loss = "" if self.loss is None else f"loss {self.loss:.3f}"
        return loss if self.best < 0 else f"{loss}  best F1 {100 * self.best:.1f}"

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any],
        **_: Any,
    ) -> None:
        self.loss = logs.get("loss", self.loss)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, Any],
        **_: Any,
    ) -> None:
        better = metrics["eval_f1"] > self.best
        self.best = max(self.best, metrics["eval_f1"])
        self.console.print(
            f"epoch {state.epoch or 0:>3.0f}   loss {self.loss or 0:8.3f}   dev loss {metrics['eval_loss']:8.3f}   "
            f"P {100 * metrics['eval_precision']:5.1f}   R {100 * metrics['eval_recall']:5.1f}   "
            f"F1 {100 * metrics['eval_f1']:5.1f}{'  best so far' if better else ''}"
        )

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        if args.eval_strategy == "no":
            self.console.print(f"epoch {state.epoch or 0:>3.0f}   loss {self.loss or 0:8.3f}")

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self.close()

    def close(self) -> None:
        self.bar.stop()
