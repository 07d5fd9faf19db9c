"""A training run, from sentences to a folder with a model in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate.utils import set_seed  # type: ignore[import-untyped]

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation
from fencepost.methods.model import Model
from fencepost.runtime.card import Facts, render_card
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.pytorch import save_model
from fencepost.training.checkpoint import checkpoint_to_resume, load_best, remove_newer
from fencepost.training.data import fingerprint, held_out, idle_settings, learnt_from
from fencepost.training.diagnosis import explain_failure
from fencepost.training.folder import (
    CARD_FILE,
    CHECKPOINTS,
    RESULT_FILE,
    RUN_FILE,
    begin_run,
    check_folder,
    check_run,
    has_data,
    is_complete,
    other_settings,
    remove_checkpoints,
    write_text,
)
from fencepost.training.processes import as_launched, start_processes
from fencepost.training.records import Display, Listener, Record, Records, best_epoch
from fencepost.training.scoring import calibrate
from fencepost.training.start import Start
from fencepost.training.trainer import Trainer

__all__ = [
    "RESULT_FILE",
    "RUN_FILE",
    "AfterEpoch",
    "AtEnd",
    "Outcome",
    "Start",
    "check_folder",
    "fingerprint",
    "has_data",
    "held_out",
    "idle_settings",
    "is_complete",
    "learnt_from",
    "other_settings",
    "remove_checkpoints",
    "train",
]

AfterEpoch = Callable[[int, float], None]
"""Is called with the number of an epoch, from 1, and its development F1; what it raises ends the run."""

AtEnd = Callable[["Outcome"], None]
"""Is called when the model and its scores are saved, and before the run counts as complete."""


@dataclass(frozen=True)
class Outcome:
    """The result of a run: the model, its scores by epoch on the development set, and on the test set.

    `calibration` has its temperature and shift, and the expected calibration errors before and after.
    `predicted` are the predictions in the test data, or else in the development data, which took `seconds`.
    `warnings` say that the model has not learnt, and why; there are none if it has. `forgetting` has the
    scores of the model that it started from, and its own, on the old test data.
    """

    model: Model
    epochs: list[dict[str, Any]]
    best: dict[str, Any] | None
    test: Evaluation | None
    calibration: dict[str, float | None] | None = None
    predicted: list[Sentence] | None = None
    seconds: float = 0.0
    warnings: Sequence[str] = ()
    forgetting: dict[str, Any] | None = None


def train(
    config: Config,
    sentences: Sequence[Sentence],
    out: str | Path,
    dev: Sequence[Sentence] | None = None,
    test: Sequence[Sentence] | None = None,
    *,
    resume: bool = False,
    quiet: bool = True,
    after_epoch: AfterEpoch | None = None,
    at_end: AtEnd | None = None,
    device: DeviceName = "auto",
    start: Start | None = None,
) -> Outcome:
    """Train a model and save it in the folder `out`, with records of the training.

    `start` is a trained model whose weights and types it starts with, in place of none.
    The best epoch by development F1 is kept; without `dev`, the last one. With `resume`, a run that
    was stopped continues from its last undamaged checkpoint, and ends as if it had not been stopped. What
    `after_epoch` and `at_end` raise stops it, too; a run that stops in `at_end` is resumed there. Of several
    processes, the first one calls them, and the `Outcome` of the others has no scores. The `device` `auto`
    is the machine's accelerator, or else its CPU.

    Raises `WriteError` if the disk is full, `DataError` if all checkpoints are damaged, and `UsageError` if
    there is no such device.
    """
    out, config = Path(out), as_launched(config)
    learnt = learnt_from(sentences, config)
    for name, part in (("training", learnt), ("development", dev), ("test", test)):
        if part is not None and not part:
            raise UsageError(f"the {name} data has no sentences")
    data: dict[str, Any] = {"train": fingerprint(learnt), "dev": None if dev is None else fingerprint(dev)}
    if start is not None:
        data["start"] = start.fingerprint()
    accelerator, place = start_processes(device)
    first = accelerator.process_index == 0  # of several, where torchrun or a similar tool has started them
    if first:
        check_run(out, config, data, resume=resume)
    checkpoint = checkpoint_to_resume(out / CHECKPOINTS, _warn) if resume else None
    set_seed(config.training.seed)
    model = Model.build(config, learnt) if start is None else start.build(config, learnt)
    listeners: list[Listener] = []
    parts = model.split(learnt)
    trainer = Trainer(model, config.training, parts, dev, out / CHECKPOINTS, accelerator, place)
    model.set_training(trainer.resolved())
    accelerator.wait_for_everyone()  # until all have found the checkpoint
    if first:
        begin_run(out, config, data)
        remove_newer(out / CHECKPOINTS, checkpoint)
        listeners = [Records(out)] if quiet else [Records(out), Display()]
    trainer.train(checkpoint, listeners, after_epoch if first else None)
    accelerator.wait_for_everyone()  # until the last checkpoint is complete
    load_best(out / CHECKPOINTS, trainer.records, model)
    accelerator.wait_for_everyone()  # the checkpoints are removed when no process needs them
    model.eval()
    if not first:
        return Outcome(model, [], None, None)
    outcome = _finish(trainer, out, test, start)
    if at_end is not None:
        at_end(outcome)
    remove_checkpoints(out)
    return outcome


def _warn(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def _finish(trainer: Trainer, out: Path, test: Sequence[Sentence] | None, start: Start | None) -> Outcome:
    """Save the model with its scores and its card."""
    model, records = trainer.model, trainer.records
    calibration, result, predicted, seconds = calibrate(model, trainer.dev, test)
    epochs, best = [record for record in records if "dev_f1" in record], best_epoch(records)
    warnings = explain_failure(
        model, trainer.sentences, trainer.dev, best["dev_f1"] if best else None, trainer.step
    )
    forgetting = None if start is None else start.measure(model)
    outcome = Outcome(model, epochs, best, result, calibration, predicted, seconds, warnings, forgetting)
    save_model(model, out)
    scores = {
        "epochs": epochs,
        "kept_epoch": (best or records[-1])["epoch"],
        "dev": best,
        "calibration": calibration,
        "test": result.to_dict() if result else None,
        "warnings": warnings,
        **({"forgetting": forgetting} if forgetting else {}),
    }
    write_text(out / CARD_FILE, model_card(model, best, result, calibration))
    write_text(out / RESULT_FILE, json.dumps(scores, indent=2) + "\n")
    return outcome


def model_card(model: Model, dev: Record | None, test: Evaluation | None, fit: Record | None = None) -> str:
    """Return `README.md`, with the scores and the calibration that were measured."""
    return render_card(
        Facts(
            types=model.types,
            config=model.config.model_dump(mode="json"),
            weights=sum(parameter.numel() for parameter in model.parameters()),
            dev=dev,
            test=None if test is None else test.to_dict(),
            calibration=fit,
        )
    )
