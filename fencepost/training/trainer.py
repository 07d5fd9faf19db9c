"""The training loop: steps, regular records, and scores and a checkpoint after each epoch."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
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
from fencepost.data.output import raise_write_errors
from fencepost.encoder.embedder import Batch
from fencepost.encoder.windows import group_blocks
from fencepost.errors import FencepostError, UsageError
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import save_model
from fencepost.training import checkpoint as checkpoints
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.optimizer import get_learning_rates, make_parameter_groups, make_schedule
from fencepost.training.processes import Share, choose_precision, gather
from fencepost.training.records import Listener, Record
from fencepost.training.scoring import score_development

_WITHOUT_CONTEXT = 0.2
"""Share of the batches whose sentences are not read in blocks, so that single sentences are learnt, too."""

_RECORD_EVERY = 10
"""Number of steps between records."""


class Diverged(FencepostError):
    """The loss, its gradient or a weight has become NaN or infinite."""


class Trainer:
    """Trainer of a model, which is scored on development data after each epoch."""

    def __init__(
        self,
        model: Model,
        settings: TrainingSettings,
        sentences: Sequence[Sentence],
        dev: Sequence[Sentence] | None,
        folder: Path,
        accelerator: Accelerator,
        device: torch.device,
    ) -> None:
        self.model, self.settings = model.to(device), settings
        self.sentences, self.dev = sentences, dev
        self.folder = folder  # where the checkpoints are
        self.accelerator, self.device = accelerator, device
        self.process, self.processes = accelerator.process_index, accelerator.num_processes
        self.listeners: Sequence[Listener] = ()
        self.predict = model.config.predict  # as set, before anything is tuned
        self.pretrained = [weight for weight in model.encoder.pretrained_weights() if weight.requires_grad]

        set_seed(settings.seed)
        if self.process:  # processes have the same weights, but different dropout
            own = np.random.SeedSequence((settings.seed, self.process))
            set_seed(int(own.generate_state(1)[0]))
        self.share = Share(accelerator)
        sizes = [sum(model.encoder.inputs.sizes(sentence.words)) for sentence in sentences]
        has_blocks = model.encoder.inputs.block > 0
        self.batches = LengthGroupedBatches(
            sizes,
            settings.batch_size,
            settings.seed,
            self.process,
            self.processes,
            blocks=group_blocks(sentences) if has_blocks else None,
            without_context=_WITHOUT_CONTEXT if has_blocks else 0.0,
        )
        alone = [replace(one, left=(), right=()) for one in sentences] if has_blocks else []
        self.loader: DataLoader[Any] = DataLoader(
            [*sentences, *alone],  # type: ignore[arg-type]
            batch_sampler=self.batches,
            collate_fn=self._collate,
        )
        self.steps_in_epoch = math.ceil(len(self.batches) / settings.accumulate)
        self.epochs = settings.count_epochs(len(sentences))
        pretrained = model.encoder.settings.name != "scratch"
        self.precision = choose_precision(settings.precision, device, pretrained=pretrained)
        self.steps = self.epochs * self.steps_in_epoch
        self.optimizer = torch.optim.AdamW(make_parameter_groups(model, settings), fused=True)
        self.schedule = make_schedule(self.optimizer, settings, self.epochs, self.steps_in_epoch)
        self.wrapped = accelerator.prepare_model(model)  # averages the gradients of several processes

        self.step = 0  # number of completed steps
        self.epoch = 0.0  # number of completed epochs, with the fraction of the current one
        self.records: list[Record] = []
        self._start_sums()

    def resolve_settings(self) -> TrainingSettings:
        """Return the settings with the values that `auto` stands for."""
        rate = self.settings.compute_encoder_rate(self.model.encoder.embedder.width)
        chosen = {"epochs": self.epochs, "encoder_learning_rate": rate, "precision": self.precision}
        return self.settings.model_copy(update=chosen)

    def _collate(self, sentences: Sequence[Sentence]) -> Batch:
        """Return the tensors of a batch; an empty one has a sentence and the mark `empty`.

        All processes must compute a gradient, even for an empty part of a batch.
        """
        if sentences:
            return self.model.collate(sentences)
        return self.model.collate(self.sentences[:1]) | {"empty": torch.ones(1)}

    def train(
        self,
        checkpoint: Path | None = None,
        listeners: Sequence[Listener] = (),
        after_epoch: Callable[[int, float], None] | None = None,
    ) -> None:
        """Train up to the last epoch, or until patience is exhausted; start from a checkpoint if given.

        `after_epoch` is called with the number of an epoch, from 1, and its development F1.
        """
        if checkpoint is not None:
            self._load_checkpoint(checkpoint)
        self.listeners = listeners
        self.model.network.reduce_count = self.share.mean_count if self.processes > 1 else None
        try:
            for listener in listeners:
                listener.begin(self.records, self.step, self.steps, self.epochs)
            for epoch in range(self.step // self.steps_in_epoch, self.epochs):
                if self._out_of_patience():
                    break
                self._train_epoch(epoch)
                scores = None if self.dev is None else self._evaluate(self.dev)
                for listener in listeners:
                    listener.after_epoch(epoch + 1, scores)
                if after_epoch is not None and scores is not None:
                    after_epoch(epoch + 1, scores["dev_f1"])
                self._save_checkpoint()
        finally:
            for listener in listeners:
                listener.close()
            self.model.network.reduce_count = None
            self._freeze(frozen=False)

    def _out_of_patience(self) -> bool:
        """Return whether too many epochs had no better F1, by the records, which a checkpoint restores."""
        scores = [record["dev_f1"] for record in self.records if "dev_f1" in record]
        patience = self.settings.count_patience(self.epochs)
        if patience is None or not scores or not max(scores):
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= patience

    def _freeze(self, *, frozen: bool) -> None:
        for weight in self.pretrained:
            weight.requires_grad_(not frozen)

    def _train_epoch(self, epoch: int) -> None:
        self._freeze(frozen=epoch < self.settings.frozen_epochs)
        self.model.train()
        self.batches.set_epoch(epoch)
        batches, count = iter(self.loader), 0
        while of_step := list(islice(batches, self.settings.accumulate)):
            self._take_step(of_step)
            count += len(of_step)
            self.epoch = epoch + count / len(self.batches)
            for listener in self.listeners:
                listener.after_step(self.step, self.epoch)
            if self.step % _RECORD_EVERY == 0 or count == len(self.batches):
                self._record_training()

    def _take_step(self, batches: Sequence[Batch]) -> None:
        """Update the weights by the mean gradient of these batches."""
        for number, batch in enumerate(batches, start=1):
            is_last = number == len(batches)
            with nullcontext() if is_last else self.accelerator.no_sync(self.wrapped):
                self.training_step(batch, len(batches))
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
        self._grad_norm = norm.item()
        self._check(math.isfinite(self._grad_norm), "the gradient", self.step + 1)
        self.optimizer.step()
        self._rates = get_learning_rates(self.optimizer)
        self.schedule.step()
        self.model.zero_grad()
        self.step += 1

    def training_step(self, batch: Batch, count: int) -> None:
        """Add the gradient of one of the `count` batches of a step."""
        try:
            loss = self.compute_loss({name: tensor.to(self.device) for name, tensor in batch.items()}) / count
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if not re.search("out of memory|allocate memory", str(error)):  # on a GPU, on the CPU
                raise
            raise FencepostError(
                f"not enough memory for a batch whose longest sentence has {int(batch['lengths'].max()):,} "
                f"words: reduce training.batch_size (it is {self.settings.batch_size}), or split the long "
                "sentences"
            ) from None
        self._loss += loss.detach()

    def compute_loss(self, batch: Batch) -> Tensor:
        self.share.empty = "empty" in batch
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
            terms: dict[str, Tensor] = self.wrapped(batch)
        loss = terms.pop("loss").float()
        self._check(math.isfinite(loss.item()), "the loss", self.step + 1)
        self._batches += 1
        for name, term in terms.items():
            self._terms[name] += 0.0 if self.share.empty else term.item()
        return 0 * loss if self.share.empty else loss

    # Records

    def _start_sums(self) -> None:
        """Reset the sums for the next record."""
        self._loss = torch.zeros((), device=self.device)
        self._terms: dict[str, float] = defaultdict(float)
        self._batches = 0
        self._recorded = self.step

    def _record_training(self) -> None:
        """Record the mean loss of the steps since the last record, and its terms if it has several."""
        means = {"loss": self._loss.item() / (self.step - self._recorded)}
        if len(self._terms) > 1:
            means |= {name: value / self._batches for name, value in self._terms.items()}
        parts = gather(self.accelerator, means)
        means = {name: sum(part[name] for part in parts) / len(parts) for name in means}
        self._record({**means, "grad_norm": self._grad_norm, **self._rates})
        self._start_sums()

    def _evaluate(self, dev: Sequence[Sentence]) -> Record:
        check = partial(self._check, what="the loss on the development data", step=self.step)
        return self._record(score_development(self.model, dev, self.predict, self.accelerator, check))

    def _record(self, values: dict[str, Any]) -> Record:
        record = {"step": self.step, "epoch": round(self.epoch, 4), **dict(sorted(values.items()))}
        self.records.append(record)
        for listener in self.listeners:
            listener.record(record)
        return record

    def _check(self, finite: bool, what: str, step: int) -> None:
        """Raise `Diverged` if a number is not finite, before it reaches the weights or a checkpoint."""
        if finite:
            return
        path = checkpoints.find_last_checkpoint(self.folder)
        last = f"The model of the last good epoch is in {path}" if path else "No epoch was completed"
        epoch = math.ceil(step / self.steps_in_epoch)
        raise Diverged(
            f"{what} is no longer finite at step {step} (epoch {epoch}): the training diverges. "
            f"{last}. Train again with a lower training.learning_rate (it is "
            f"{self.settings.learning_rate:g}) or training.encoder_learning_rate "
            f"({self.settings.compute_encoder_rate(self.model.encoder.embedder.width):g})"
        )

    # Checkpoints

    def _save_checkpoint(self) -> None:
        """Save a checkpoint; remove an old one when the new one is complete."""
        finite = all(bool(weight.isfinite().all()) for weight in self.model.parameters())
        self._check(finite, "a weight", self.step)
        path = checkpoints.checkpoint_path(self.folder, self.step)
        with raise_write_errors(path):
            if self.process == 0:
                save_model(self.model, path)
                checkpoints.save_optimizer(path, self.optimizer, self.schedule)
            checkpoints.save_random_state(path, self.process)
            self.accelerator.wait_for_everyone()
            if self.process == 0:
                state = {"step": self.step, "processes": self.processes, "records": self.records}
                checkpoints.save_state(path, state)
                checkpoints.seal(path)
                checkpoints.remove_older(self.folder, self.records)

    def _load_checkpoint(self, path: Path) -> None:
        state = checkpoints.load_state(path)
        if state["processes"] != self.processes:  # epochs would have different batches
            raise UsageError(
                f"{path}: this training run has {state['processes']} processes and cannot continue with "
                f"{self.processes}; resume it with the same number (torchrun --nproc-per-node times --nnodes)"
            )
        saved = checkpoints.load_model(path, self.model).training
        if self.settings.precision == "auto":  # as the training began, perhaps on another processor
            self.precision = saved.precision
            self.model.set_training(self.resolve_settings())
        checkpoints.load_optimizer(path, self.optimizer, self.schedule)
        self.step, self.records = state["step"], state["records"]
        self._start_sums()
        checkpoints.load_random_state(path, self.process)
