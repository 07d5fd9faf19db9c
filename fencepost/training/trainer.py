"""Our model on `transformers.Trainer`: two learning rates, our batches, our scores, our checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import rotate_checkpoints

from fencepost.config import TrainingSettings
from fencepost.data.entity import Sentence
from fencepost.data.output import naming
from fencepost.encoder.embedder import Batch
from fencepost.errors import DataError, FencepostError, UsageError
from fencepost.evaluation import best_cut, evaluate, match
from fencepost.methods.model import WEIGHTS_FILE, Model, Watch, read_config
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.checkpoint import (
    damaged_file,
    last_checkpoint,
    load_chance,
    load_optimizer,
    processes_of,
    save_chance,
    save_optimizer,
    seal,
)
from fencepost.training.processes import Share, gathered, predicted_together

KEPT = 2
"""How many checkpoints are kept: the newest, and that of the best epoch or else the one before."""


class Diverged(FencepostError):
    """The loss, its gradient or a weight is no number any more."""


class ModelTrainer(Trainer):
    """Trains a `Model` on sentences, and scores it on others after each epoch."""

    model: Model
    optimizer: Any  # none before `create_optimizer`

    def __init__(
        self,
        model: Model,
        settings: TrainingSettings,
        arguments: TrainingArguments,
        sentences: Sequence[Sentence],
        dev: Sequence[Sentence] | None,
    ) -> None:
        self.settings = settings
        self.sentences = sentences
        self.dev = dev
        self._terms: dict[str, float] = {}  # of the loss, summed up since they were logged
        self._batches = 0
        self._rates: dict[str, float] = {}  # that the last step was made with
        self._pretrained = [weight for weight in model.encoder.pretrained() if weight.requires_grad]
        self._asked = model.settings.predict  # as the user wants it, before anything is tuned
        super().__init__(
            model,
            arguments,
            data_collator=model.collate,
            train_dataset=sentences,
            eval_dataset=dev,
        )
        self._share = Share(self.accelerator)
        if self.args.process_index:  # the weights are the same everywhere by now, but not what is dropped
            chance = np.random.SeedSequence((settings.seed, self.args.process_index))
            set_seed(int(chance.generate_state(1)[0]))

    def get_train_dataloader(self) -> DataLoader[Any]:
        sizes = [self.model.encoder.size(sentence) for sentence in self.sentences]
        batches = LengthGroupedBatches(
            sizes, self.settings.batch_size, self.settings.seed, self.args.world_size
        )
        loader: DataLoader[Any] = DataLoader(
            self.sentences,  # type: ignore[arg-type]
            batch_sampler=batches,
            collate_fn=self._collate,
        )
        return self.accelerator.prepare(loader)  # type: ignore[no-any-return]

    def _collate(self, sentences: Sequence[Sentence]) -> Batch:
        """In the place of a share without sentences, one that is marked, as all must compute a gradient."""
        if sentences:
            return self.model.collate(sentences)
        return self.model.collate(self.sentences[:1]) | {"empty": torch.ones(1)}

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:  # noqa: ARG002
        """AdamW; pretrained weights learn at their own rate, biases and norms do not decay."""
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(
                parameter_groups(self.model, self.settings), lr=self.settings.learning_rate, fused=True
            )
        return self.optimizer  # type: ignore[no-any-return]

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """While the pretrained weights are frozen, the others learn at a higher rate."""
        schedule = super().create_scheduler(num_training_steps, optimizer)
        if self.settings.frozen_epochs and self._pretrained:
            assert isinstance(schedule, LambdaLR)  # noqa: S101 - all of ours are
            thaw = num_training_steps * self.settings.frozen_epochs // self.settings.epochs
            factors = {"encoder": 0.0, "head": self.settings.frozen_rate}
            lambdas: list[Callable[[int], float]] = [
                partial(_meanwhile, usual, thaw, factors[group["name"]])
                for group, usual in zip(self.optimizer.param_groups, schedule.lr_lambdas, strict=True)
            ]
            self.lr_scheduler = LambdaLR(self.optimizer, lambdas)
        return self.lr_scheduler  # type: ignore[return-value]

    def _run_epoch(self, model: nn.Module, epoch: int, *args: Any, **kwargs: Any) -> None:
        """Unless patience is at an end, which the scores tell: a resumed run stops where any other would."""
        if self._out_of_patience():
            self.control.should_training_stop = True
            return
        for weight in self._pretrained:
            weight.requires_grad_(epoch >= self.settings.frozen_epochs)
        self.model.method.across = self._share.mean_count if self.args.world_size > 1 else None
        try:
            super()._run_epoch(model, epoch, *args, **kwargs)  # type: ignore[no-untyped-call]
        finally:
            self.model.method.across = None
            for weight in self._pretrained:
                weight.requires_grad_(True)

    def _out_of_patience(self) -> bool:
        scores = [record["eval_f1"] for record in self.state.log_history if "eval_f1" in record]
        if self.settings.patience is None or not scores:
            return False
        return len(scores) - 1 - scores.index(max(scores)) >= self.settings.patience

    def training_step(self, model: nn.Module, inputs: Batch, *args: Any, **kwargs: Any) -> Tensor:
        try:
            return super().training_step(model, inputs, *args, **kwargs)
        except RuntimeError as error:
            if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
                raise
            raise FencepostError(
                f"there is not enough memory for a batch whose longest sentence has "
                f"{int(inputs['lengths'].max()):,} words: lower training.batch_size (it is "
                f"{self.settings.batch_size}), or split the long sentences"
            ) from None

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,  # noqa: ARG002
        num_items_in_batch: Tensor | int | None = None,  # noqa: ARG002
    ) -> Tensor:
        self._share.empty = "empty" in inputs
        terms: dict[str, Tensor] = model(inputs)
        if not math.isfinite(terms["loss"].item()):
            raise self._diverged("the loss", self.state.global_step + 1)
        if self._share.empty:
            terms = {name: 0 * term for name, term in terms.items()}
        for name, term in terms.items():
            self._terms[name] = self._terms.get(name, 0.0) + term.item()
        self._batches += 1
        return terms["loss"]

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Before each step of the optimiser: a gradient that is no number must not reach the weights."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)  # type: ignore[no-untyped-call]
        if not math.isfinite(float(norm)):
            raise self._diverged("the gradient", self.state.global_step + 1)
        return norm

    def _diverged(self, what: str, step: int) -> Diverged:
        epoch = math.ceil(step * self.args.num_train_epochs / self.state.max_steps)
        kept = last_checkpoint(Path(str(self.args.output_dir)))
        last = f"the model of the last good epoch is kept in {kept}" if kept else "no epoch was completed"
        return Diverged(
            f"{what} is not a finite number any more at step {step} (epoch {epoch}): the training diverges. "
            f"{last[0].upper()}{last[1:]}. Train again with a lower training.learning_rate (it is "
            f"{self.settings.learning_rate:g}) or training.encoder_learning_rate "
            f"({self.settings.encoder_learning_rate:g})"
        )

    def _get_learning_rate(self) -> float:
        """Called when the optimiser has made its step, and the schedule not yet."""
        self._rates = {f"{group['name']}_rate": group["lr"] for group in self.optimizer.param_groups[::2]}
        return super()._get_learning_rate()

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:
        """With the loss's terms, and both learning rates by name."""
        if "learning_rate" in logs and self._batches:
            terms = {name: value / self._batches for name, value in self._terms.items() if name != "loss"}
            if len(terms) > 1:
                logs |= self._means(terms)
            logs |= self._rates
            self._terms, self._batches = {}, 0
        super().log(logs, start_time)

    def _means(self, terms: dict[str, float]) -> dict[str, float]:
        """Over all processes."""
        if self.args.world_size == 1:
            return terms
        parts = gathered(self.accelerator, terms)
        return {name: sum(part[name] for part in parts) / len(parts) for name in terms}

    def evaluate(self, *_: Any, **__: Any) -> dict[str, Any]:
        """Strict scores and the loss on the development set, to which what can be tuned is tuned before."""
        assert self.dev is not None  # noqa: S101 - the arguments ask for it only then
        self.model.eval()
        losses: list[tuple[float, int]] = []

        def watch(sentences: Sequence[Sentence], *of_batch: Any) -> None:
            loss = self.model.loss_of(*of_batch)
            if not math.isfinite(loss):  # the last step has spoilt the weights
                raise self._diverged("the loss on the development data", self.state.global_step)
            losses.append((loss, len(sentences)))

        start = time.perf_counter()
        predicted = self._predicted(self.dev, watch)
        seconds = time.perf_counter() - start
        losses = [of_batch for part in gathered(self.accelerator, losses) for of_batch in part]
        result = evaluate(self.dev, predicted)
        metrics = {
            "eval_loss": sum(loss * count for loss, count in losses) / max(1, sum(n for _, n in losses)),
            "eval_precision": result.overall.precision,
            "eval_recall": result.overall.recall,
            "eval_f1": result.overall.f1,
            "eval_ece": result.calibration.ece if result.calibration else None,
            "eval_seconds": seconds,
        }
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _predicted(self, dev: Sequence[Sentence], watch: Watch) -> list[Sentence]:
        """With the least confidence that an entity needs, if that is open, set to where F1 is best."""
        lenient = self._asked.at_least(0.0)
        if lenient is None:
            return predicted_together(self.model, dev, self.accelerator, watch)
        self.model.use(lenient)
        predicted = predicted_together(self.model, dev, self.accelerator, watch)
        cut = best_cut(match(dev, predicted))
        if cut is None:  # nothing is right
            self.model.use(self._asked)
            return predicted_together(self.model, dev, self.accelerator)
        self.model.use(self._asked.at_least(cut) or self._asked)
        return [s.with_entities(e for e in s.entities if e.score >= cut) for s in predicted]

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Save a checkpoint, and remove an old one when the new one is complete."""
        folder = Path(str(self.args.output_dir))
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        with naming(checkpoint):
            super()._save_checkpoint(model, trial)
            if self.args.should_save:
                seal(checkpoint)
                rotate_checkpoints(str(folder), KEPT, self.state.best_model_checkpoint)

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:  # noqa: ARG002
        """A checkpoint is a model like any other, with the optimiser's state beside it."""
        if not all(bool(weight.isfinite().all()) for weight in self.model.parameters()):
            raise self._diverged("a weight", self.state.global_step)
        self.model.save(output_dir or str(self.args.output_dir))

    def load_best(self) -> None:
        """Load the best epoch's weights and what was tuned then; without one, those of the last stay.

        Raises `DataError` if a file of its checkpoint is damaged.
        """
        if self.state.best_global_step:
            best = Path(f"{self.args.output_dir}/checkpoint-{self.state.best_global_step}")
            damaged = damaged_file(best)
            if damaged is not None:
                message = "this file of the best epoch is missing or damaged; train again with another --out"
                raise DataError(message, source=str(damaged))
            self._load_from_checkpoint(str(best))
            self.model.use(read_config(best)[0].predict)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:  # noqa: ARG002
        self.model.load_state_dict(load_file(Path(resume_from_checkpoint) / WEIGHTS_FILE))

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.args.should_save:
            save_optimizer(Path(output_dir), self.optimizer, self.lr_scheduler)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            self._check_processes(Path(checkpoint))
            load_optimizer(Path(checkpoint), self.optimizer, self.lr_scheduler)

    def _check_processes(self, checkpoint: Path) -> None:
        """As many as before: an epoch would have other batches, and another number of them."""
        then, now = processes_of(checkpoint), self.args.world_size
        if then != now:
            raise UsageError(
                f"{checkpoint}: the run was on {then} processes and cannot go on with {now}; "
                f"resume it with as many (torchrun --nproc-per-node times --nnodes)"
            )

    def _save_rng_state(self, output_dir: str) -> None:
        save_chance(Path(output_dir), self.args.process_index)
        self.accelerator.wait_for_everyone()  # what comes next makes the checkpoint a whole one

    def _load_rng_state(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            load_chance(Path(checkpoint), self.args.process_index)


def _meanwhile(usual: Callable[[int], float], thaw: int, factor: float, step: int) -> float:
    """The share of its learning rate that a group has at a step: before the thaw, times the factor."""
    return usual(step) * (factor if step < thaw else 1.0)


def parameter_groups(model: Model, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Pretrained or not, times decaying or not; a group without weights is left in, so that order tells.

    Biases and norms are vectors; other weights are matrices.
    """
    pretrained = {id(parameter) for parameter in model.encoder.pretrained()}
    groups: list[dict[str, Any]] = [
        {"name": name, "lr": rate, "weight_decay": decay, "params": []}
        for name, rate in (("encoder", settings.encoder_learning_rate), ("head", settings.learning_rate))
        for decay in (settings.weight_decay, 0.0)
    ]
    for parameter in model.parameters():
        if parameter.requires_grad:
            group = 2 * (id(parameter) not in pretrained) + (parameter.ndim < 2)
            groups[group]["params"].append(parameter)
    return groups
