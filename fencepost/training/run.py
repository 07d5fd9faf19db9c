"""Training of a model on sentences, from the checks of the folder to the saved model and its scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
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
from fencepost.training.checkpoint import find_resumable, load_best, remove_newer
from fencepost.training.data import SoftData, compute_fingerprint, prepare_sentences
from fencepost.training.diagnosis import explain_failure
from fencepost.training.folder import (
    CARD_FILE,
    CHECKPOINTS,
    RESULT_FILE,
    begin_run,
    check_run,
    remove_checkpoints,
    write_text,
)
from fencepost.training.processes import apply_launch_precision, keep_freed_memory, start_processes
from fencepost.training.records import Display, Listener, Record, Records, find_best_epoch
from fencepost.training.scoring import calibrate
from fencepost.training.start import Start
from fencepost.training.trainer import Trainer

AfterEpoch = Callable[[int, float], None]
"""Function called with the number of an epoch, from 1, and its development F1; it may raise to stop."""

AtEnd = Callable[["Outcome"], None]
"""Function called when the model and its scores are saved, before the training is marked as complete."""


@dataclass(frozen=True)
class Outcome:
    """Result of a training run: the model, and its scores.

    `epochs` has the scores of each epoch on the development data, `best` those of the best epoch, and `test`
    the scores on the test data. `calibration` has temperature and shift, and the expected calibration errors
    before and after calibration. `predicted` has the predictions on the test data, or else on the development
    data, which took `seconds`. `warnings` are not empty if the training failed, and give likely reasons.
    `forgetting` has the scores on the old test data of the model that training started from, and of the new
    model. `raw_sentences` has the numbers of raw sentences that `distil` read, drew at random and used.
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
    raw_sentences: Mapping[str, int] | None = None


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
    soft: SoftData | None = None,
) -> Outcome:
    """Train a model and save it in the folder `out`, with records of the training.

    `start` is a trained model whose weights and types the new model starts with. `soft` has more training
    sentences, which do not determine types and settings (see `distil`). The saved model is that of
    the epoch with the best development F1; without `dev`, of the last one. With `resume`, an interrupted
    training continues from its last undamaged checkpoint, with the same result as without interruption. An
    exception in `after_epoch` or `at_end` also interrupts it; after one in `at_end`, only that is repeated.
    Of several processes, the first one calls them, and the `Outcome` of the others has no scores. The device
    `auto` is an accelerator if there is one, else the CPU.

    Raises `WriteError` if the disk is full, `DataError` if all checkpoints are damaged, and `UsageError` for
    empty data, a folder that cannot be used, or an unknown device.
    """
    out, config = Path(out), apply_launch_precision(config)
    prepared = prepare_sentences(sentences, config)
    for name, part in (("training", prepared), ("development", dev), ("test", test)):
        if part is not None and not part:
            raise UsageError(f"the {name} data has no sentences")
    data: dict[str, Any] = {
        "train": compute_fingerprint(prepared),
        "dev": None if dev is None else compute_fingerprint(dev),
    }
    if start is not None:
        data["start"] = start.compute_fingerprint()
    if soft is not None:
        data["soft"] = soft.fingerprint
    accelerator, own_device = start_processes(device)
    first = accelerator.process_index == 0
    if first:
        check_run(out, config, data, resume=resume)
    checkpoint = find_resumable(out / CHECKPOINTS) if resume else None
    set_seed(config.training.seed)
    model = Model.build(config, prepared) if start is None else start.build(config, prepared)
    listeners: list[Listener] = []
    parts = model.split([*prepared, *prepare_sentences(soft.sentences if soft else (), config)])
    trainer = Trainer(model, config.training, parts, dev, out / CHECKPOINTS, accelerator, own_device)
    model.set_training(trainer.resolve_settings())
    accelerator.wait_for_everyone()  # until all processes have chosen the checkpoint
    if first:
        begin_run(out, config.to_yaml(), data)
        remove_newer(out / CHECKPOINTS, checkpoint)
        listeners = [Records(out)] if quiet else [Records(out), Display()]
    with keep_freed_memory():
        trainer.train(checkpoint, listeners, after_epoch if first else None)
    accelerator.wait_for_everyone()  # until the last checkpoint is complete
    load_best(out / CHECKPOINTS, trainer.records, model)
    accelerator.wait_for_everyone()  # the checkpoints are removed when no process needs them
    model.eval()
    if not first:
        return Outcome(model, [], None, None)
    outcome = _finish(trainer, out, test, start, None if soft is None else soft.counts)
    if at_end is not None:
        at_end(outcome)
    remove_checkpoints(out)
    return outcome


def _finish(
    trainer: Trainer,
    out: Path,
    test: Sequence[Sentence] | None,
    start: Start | None,
    raw: Mapping[str, int] | None,
) -> Outcome:
    """Calibrate and score the model, and save it with its scores and its card."""
    model, records = trainer.model, trainer.records
    calibration, result, predicted, seconds = calibrate(model, trainer.dev, test)
    epochs, best = [record for record in records if "dev_f1" in record], find_best_epoch(records)
    annotated = [sentence for sentence in trainer.sentences if not sentence.has_soft_entities]
    warnings = explain_failure(model, annotated, trainer.dev, best["dev_f1"] if best else None, trainer.step)
    forgetting = None if start is None else start.measure(model)
    outcome = Outcome(model, epochs, best, result, calibration, predicted, seconds, warnings, forgetting, raw)
    save_model(model, out)
    scores = {
        "epochs": epochs,
        "kept_epoch": (best or records[-1])["epoch"],
        "dev": best,
        "calibration": calibration,
        "test": result.to_dict() if result else None,
        "warnings": warnings,
        **({"forgetting": forgetting} if forgetting else {}),
        **({"raw_sentences": raw} if raw else {}),
    }
    write_text(out / CARD_FILE, make_model_card(model, best, result, calibration))
    write_text(out / RESULT_FILE, json.dumps(scores, indent=2) + "\n")
    return outcome


def make_model_card(
    model: Model, dev: Record | None, test: Evaluation | None, fit: Record | None = None
) -> str:
    """Return the model card, `README.md`, with the scores and the calibration."""
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
