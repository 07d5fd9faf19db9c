"""The training loop: steps, records of every few of them, and scores and a checkpoint after each epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from accelerate.utils import set_seed  # type: ignore[import-untyped]
from torch import Tensor
from torch.utils.data import DataLoader

from fencepost.config import TrainingSettings
from fencepost.data.entity import Sentence
from fencepost.data.output import naming
from fencepost.encoder.embedder import Batch
from fencepost.errors import DataError, FencepostError, UsageError
from fencepost.methods.model import Model
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.checkpoint import (
    checkpoint_of,
    count_processes,
    damaged_file,
    last_checkpoint,
    load_model,
    load_optimizer,
    load_progress,
    load_random_state,
    remove_older,
    save_model,
    save_optimizer,
    save_progress,
    save_random_state,
    seal,
)
from fencepost.training.optimizer import learning_rates, make_schedule, parameter_groups
from fencepost.training.processes import Share, gather
from fencepost.training.records import Listener, Record, best_epoch
from fencepost.training.scoring import score_development

_RECORD_EVERY = 10
"""Steps."""


class Diverged(FencepostError):
    """The loss, its gradient or a weight is not a finite number any more."""


class Trainer:
    """Trains a model on sentences, and scores it on others after each epoch."""

    def __init__(
        self,
        model: Model,
        settings: TrainingSettings,
        sentences: Sequence[Sentence],
        dev: Sequence[Sentence] | None,
        folder: Path,
        accelerator: Accelerator,
        device: torch.device,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.model = model.to(device)
        self.settings = settings
        self.sentences, self.dev = sentences, dev
        self.folder = folder  # of the checkpoints
        self.accelerator, self.device = accelerator, device
        self.first = accelerator.process_index == 0  # the one that writes
        self.listeners = listeners if self.first else ()
        self.asked = model.settings.predict  # as the user wants it, before anything is tuned
        self.pretrained = [weight for weight in model.encoder.pretrained() if weight.requires_grad]

        set_seed(_seed_of(settings.seed, accelerator.process_index))  # the weights are the same everywhere
        self.share = Share(accelerator)
        self.batches = LengthGroupedBatches(
            [model.encoder.size(sentence) for sentence in sentences],
            settings.batch_size,
            settings.seed,
            accelerator.process_index,
            accelerator.num_processes,
        )
        self.loader: DataLoader[Any] = DataLoader(
            sentences,  # type: ignore[arg-type]
            batch_sampler=self.batches,
            collate_fn=self._collate,
        )
        self.steps_in_epoch = math.ceil(len(self.batches) / settings.accumulate)
        self.steps = settings.epochs * self.steps_in_epoch
        groups = parameter_groups(model, settings)
        self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
        self.schedule = make_schedule(self.optimizer, settings, self.steps)
        self.wrapped = accelerator.prepare_model(model)  # averages the gradients of several processes

        self.step = 0  # the number of steps taken
        self.epoch = 0.0  # the number of epochs, with the part of one that is not complete
        self.records: list[Record] = []
        self._start_sums()

    def _collate(self, sentences: Sequence[Sentence]) -> Batch:
        """Mark a batch without sentences: all processes must compute a gradient, so it gets one of them."""
        if sentences:
            return self.model.collate(sentences)
        return self.model.collate(self.sentences[:1]) | {"empty": torch.ones(1)}

    def train(self, checkpoint: Path | None = None) -> None:
        """Train to the last epoch, or until patience is exhausted; from a checkpoint, if one is given."""
        if checkpoint is not None:
            self._load_checkpoint(checkpoint)
        self.model.method.across = self.share.mean_count if self.accelerator.num_processes > 1 else None
        try:
            for listener in self.listeners:
                listener.begin(self.records, self.step, self.steps, self.settings.epochs)
            for epoch in range(self.step // self.steps_in_epoch, self.settings.epochs):
                if self._out_of_patience():
                    break
                self._train_epoch(epoch)
                scores = None if self.dev is None else self._evaluate(self.dev)
                for listener in self.listeners:
                    listener.after_epoch(epoch + 1, scores)
                self._save_checkpoint()
        finally:
            for listener in self.listeners:
                listener.close()
            self.model.method.across = None
            self._freeze(frozen=False)

    def _out_of_patience(self) -> bool:
        """Return whether too many epochs were not better; the records decide, so also in a resumed run."""
        scores = [record["dev_f1"] for record in self.records if "dev_f1" in record]
        if self.settings.patience is None or not scores:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= self.settings.patience

    def _freeze(self, *, frozen: bool) -> None:
        for weight in self.pretrained:
            weight.requires_grad_(not frozen)

    # An epoch

    def _train_epoch(self, epoch: int) -> None:
        self._freeze(frozen=epoch < self.settings.frozen_epochs)
        self.model.train()
        self.batches.set_epoch(epoch)
        batches, done = iter(self.loader), 0
        while some := list(islice(batches, self.settings.accumulate)):
            done += len(some)
            self._take_step(some)
            self.epoch = epoch + done / len(self.batches)
            for listener in self.listeners:
                listener.after_step(self.step, self.epoch)
            if self.step % _RECORD_EVERY == 0 or done == len(self.batches):
                self._record_training()

    def _take_step(self, batches: Sequence[Batch]) -> None:
        """Change the weights by the mean gradient of these batches."""
        for number, batch in enumerate(batches, start=1):
            is_last = number == len(batches)
            with nullcontext() if is_last else self.accelerator.no_sync(self.wrapped):
                self.training_step(batch, len(batches))
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
        self._grad_norm = norm.item()
        if not math.isfinite(self._grad_norm):  # it must not reach the weights
            raise self._diverged("the gradient", self.step + 1)
        self.optimizer.step()
        self._rates = learning_rates(self.optimizer)
        self.schedule.step()
        self.model.zero_grad()
        self.step += 1

    def training_step(self, batch: Batch, count: int) -> None:
        """Add the gradient of one of `count` batches."""
        try:
            loss = self.compute_loss({name: tensor.to(self.device) for name, tensor in batch.items()}) / count
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise FencepostError(
                f"there is not enough memory for a batch whose longest sentence has "
                f"{int(batch['lengths'].max()):,} words: lower training.batch_size (it is "
                f"{self.settings.batch_size}), or split the long sentences"
            ) from None
        self._loss += loss.detach()

    def compute_loss(self, batch: Batch) -> Tensor:
        self.share.empty = "empty" in batch
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            terms: dict[str, Tensor] = self.wrapped(batch)
        if not math.isfinite(terms["loss"].item()):
            raise self._diverged("the loss", self.step + 1)
        terms = {name: term.float() for name, term in terms.items()}
        if self.share.empty:
            terms = {name: 0 * term for name, term in terms.items()}
        for name, term in terms.items():
            self._terms[name] = self._terms.get(name, 0.0) + term.item()
        self._batches += 1
        return terms["loss"]

    # Records

    def _start_sums(self) -> None:
        """Begin to sum up what is recorded next."""
        self._loss = torch.zeros((), device=self.device)
        self._terms: dict[str, float] = {}
        self._batches = 0
        self._recorded = self.step

    def _record_training(self) -> None:
        """Record the mean loss of the steps since the last record, and its terms if it has several."""
        means = {"loss": self._loss.item() / (self.step - self._recorded)}
        terms = {name: value / self._batches for name, value in self._terms.items() if name != "loss"}
        if len(terms) > 1:
            means |= terms
        parts = gather(self.accelerator, means)
        means = {name: sum(part[name] for part in parts) / len(parts) for name in means}
        self._record({**means, "grad_norm": self._grad_norm, **self._rates})
        self._start_sums()

    def _evaluate(self, dev: Sequence[Sentence]) -> Record:
        def check(loss: float) -> None:
            if not math.isfinite(loss):  # the last step has spoilt the weights
                raise self._diverged("the loss on the development data", self.step)

        return self._record(score_development(self.model, dev, self.asked, self.accelerator, check))

    def _record(self, values: dict[str, Any]) -> Record:
        record = {"step": self.step, "epoch": round(self.epoch, 4), **dict(sorted(values.items()))}
        self.records.append(record)
        for listener in self.listeners:
            listener.record(record)
        return record

    def _diverged(self, what: str, step: int) -> Diverged:
        kept = last_checkpoint(self.folder)
        last = f"The model of the last good epoch is kept in {kept}" if kept else "No epoch was completed"
        epoch = math.ceil(step / self.steps_in_epoch)
        return Diverged(
            f"{what} is not a finite number any more at step {step} (epoch {epoch}): the training diverges. "
            f"{last}. Train again with a lower training.learning_rate (it is "
            f"{self.settings.learning_rate:g}) or training.encoder_learning_rate "
            f"({self.settings.encoder_learning_rate:g})"
        )

    # Checkpoints

    def _save_checkpoint(self) -> None:
        """Save a checkpoint, and remove an old one when the new one is complete."""
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            raise self._diverged("a weight", self.step)
        checkpoint = checkpoint_of(self.folder, self.step)
        with naming(checkpoint):
            if self.first:
                save_model(checkpoint, self.model)
                save_optimizer(checkpoint, self.optimizer, self.schedule)
            save_random_state(checkpoint, self.accelerator.process_index)
            self.accelerator.wait_for_everyone()
            if self.first:
                save_progress(checkpoint, self.step, self.records)
                seal(checkpoint)
                best = best_epoch(self.records)
                remove_older(self.folder, best["step"] if best else None)

    def _load_checkpoint(self, checkpoint: Path) -> None:
        """Continue from a checkpoint; an epoch of more or fewer processes would have other batches."""
        then, now = count_processes(checkpoint), self.accelerator.num_processes
        if then != now:
            raise UsageError(
                f"{checkpoint}: the run was on {then} processes and cannot continue with {now}; "
                f"resume it with as many (torchrun --nproc-per-node times --nnodes)"
            )
        load_model(checkpoint, self.model)
        load_optimizer(checkpoint, self.optimizer, self.schedule)
        self.step, self.records = load_progress(checkpoint)
        self.epoch = self.step / self.steps_in_epoch
        self._start_sums()
        load_random_state(checkpoint, self.accelerator.process_index)

    def load_best(self) -> None:
        """Load the model of the best epoch; without development data, that of the last one stays.

        Raises `DataError` if a file of its checkpoint is damaged.
        """
        best = best_epoch(self.records)
        if best is not None:
            checkpoint = checkpoint_of(self.folder, best["step"])
            damaged = damaged_file(checkpoint)
            if damaged is not None:
                message = "this file of the best epoch is missing or damaged; train again with another --out"
                raise DataError(message, source=str(damaged))
            load_model(checkpoint, self.model)


def _seed_of(seed: int, process: int) -> int:
    """Return another seed for each process: what is dropped or drawn shall differ."""
    return int(np.random.SeedSequence((seed, process)).generate_state(1)[0]) if process else seed
