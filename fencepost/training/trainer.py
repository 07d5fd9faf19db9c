"""Our model on `transformers.Trainer`: two learning rates, our batches, our scores, our checkpoints."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from fencepost.config import TrainingSettings
from fencepost.encoder import Batch
from fencepost.entity import Sentence
from fencepost.errors import FencepostError
from fencepost.evaluation import evaluate
from fencepost.model import Model
from fencepost.training.batches import LengthGroupedBatches

_STATE_FILE = "trainer_state.json"


class Diverged(FencepostError):
    """The loss or its gradient is no number any more."""


class ModelTrainer(Trainer):
    """Trains a `Model` on sentences, and scores it on others after each epoch."""

    model: Model

    def __init__(
        self,
        model: Model,
        settings: TrainingSettings,
        arguments: TrainingArguments,
        sentences: Sequence[Sentence],
        dev: Sequence[Sentence] | None,
    ) -> None:
        self.settings = settings
        self.dev = dev
        self._terms: dict[str, float] = {}  # of the loss, summed up since they were logged
        self._batches = 0
        super().__init__(
            model, arguments, data_collator=model.collate, train_dataset=sentences, eval_dataset=dev
        )

    def get_train_dataloader(self) -> DataLoader[Any]:
        sizes = [self.model.encoder.size(sentence) for sentence in self.train_dataset]
        batches = LengthGroupedBatches(sizes, self.settings.batch_size, self.settings.seed)
        loader = DataLoader(self.train_dataset, batch_sampler=batches, collate_fn=self.data_collator)
        return self.accelerator.prepare(loader)  # type: ignore[no-any-return]

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """AdamW; pretrained weights learn at their own rate, biases and norms do not decay."""
        if self.optimizer is None:
            self.optimizer = torch.optim.AdamW(
                parameter_groups(self.model, self.settings), lr=self.settings.learning_rate, fused=True
            )
        return self.optimizer

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        terms: dict[str, Tensor] = model(inputs)
        if not math.isfinite(terms["loss"].item()):
            raise self._diverged("the loss")
        for name, term in terms.items():
            self._terms[name] = self._terms.get(name, 0.0) + term.item()
        self._batches += 1
        return terms["loss"]

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """Before each step of the optimiser: a gradient that is no number must not reach the weights."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        if not math.isfinite(float(norm)):
            raise self._diverged("the gradient")
        return norm

    def _diverged(self, what: str) -> Diverged:
        kept = last_checkpoint(Path(self.args.output_dir))
        last = f"the model of the last good epoch is kept in {kept}" if kept else "no epoch was completed"
        return Diverged(
            f"{what} is not a finite number any more at step {self.state.global_step + 1} (epoch "
            f"{(self.state.epoch or 0) + 1:.0f}): the training diverges. {last}. Train again with a lower "
            f"training.learning_rate (it is {self.settings.learning_rate:g}) or "
            f"training.encoder_learning_rate ({self.settings.encoder_learning_rate:g})"
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """With the loss's terms, and both learning rates by name."""
        if "learning_rate" in logs and self._batches:
            terms = {name: value / self._batches for name, value in self._terms.items() if name != "loss"}
            if len(terms) > 1:
                logs |= terms
            logs |= {f"{group['name']}_rate": group["lr"] for group in self.optimizer.param_groups[::2]}
            self._terms, self._batches = {}, 0
        super().log(logs, start_time)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Strict scores and the loss on the development set."""
        assert self.dev is not None  # noqa: S101 - the arguments ask for it only then
        self.model.eval()
        losses: list[tuple[float, int]] = []
        start = time.perf_counter()
        predicted = list(self.model.predict(self.dev, on_loss=lambda loss, count: losses.append((loss, count))))
        seconds = time.perf_counter() - start
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

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        """A checkpoint is a model like any other, with the optimiser's state beside it."""
        self.model.save(output_dir or str(self.args.output_dir))


def parameter_groups(model: Model, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Pretrained or not, times decaying or not; a group without weights is left in, so that order tells."""
    pretrained = {id(parameter) for parameter in model.encoder.pretrained()}
    groups: list[dict[str, Any]] = []
    for name, rate in (("encoder", settings.encoder_learning_rate), ("head", settings.learning_rate)):
        for decay in (settings.weight_decay, 0.0):
            groups.append({"name": name, "lr": rate, "weight_decay": decay, "params": []})
    for _, parameter in model.named_parameters():
        if parameter.requires_grad:
            group = 2 * (id(parameter) not in pretrained) + (parameter.ndim < 2)
            groups[group]["params"].append(parameter)
    return groups


def last_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint that is whole: its state is written last, so a broken-off one has none."""
    found = [
        path for path in folder.glob("checkpoint-*") if path.name.split("-")[1].isdigit() and _is_whole(path)
    ]
    return max(found, key=lambda path: int(path.name.split("-")[1]), default=None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / _STATE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
