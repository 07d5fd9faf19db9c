"""A training run, from sentences to a folder with a model in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from transformers import EarlyStoppingCallback, PrinterCallback, ProgressCallback, TrainingArguments, set_seed

from fencepost.config import Config
from fencepost.corpus.context import with_context
from fencepost.corpus.output import whole_file
from fencepost.entity import Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation, evaluate
from fencepost.model import CONFIG_FILE, Model
from fencepost.training.card import model_card
from fencepost.training.records import METRICS_FILE, TENSORBOARD_FOLDER, Display, Records, read_metrics
from fencepost.training.trainer import ModelTrainer, last_checkpoint

RUN_FILE, CHECKPOINTS, RESULT_FILE, CARD_FILE = "run.yaml", "checkpoints", "metrics.json", "README.md"


@dataclass(frozen=True)
class Outcome:
    """What a run ended with: the model, its scores by epoch on the development set, and on the test set."""

    model: Model
    epochs: list[dict[str, Any]]
    best: dict[str, Any] | None
    test: Evaluation | None


def held_out(
    sentences: Sequence[Sentence], share: float, seed: int
) -> tuple[list[Sentence], list[Sentence]]:
    """Splits off a share of the sentences, by whole documents, as a development set: (rest, held out).

    A sentence without `doc` is a document of its own.
    """
    if not 0 < share < 1:
        raise UsageError(f"the share to hold out must be between 0 and 1, not {share:g}")
    names = [sentence.doc if sentence.doc is not None else index for index, sentence in enumerate(sentences)]
    sizes: dict[str | int, int] = {}
    for name in names:
        sizes[name] = sizes.get(name, 0) + 1
    documents = list(sizes)
    chosen: set[str | int] = set()
    wanted, got = share * len(sentences), 0
    for index in np.random.default_rng(seed).permutation(len(documents)).tolist():
        if got >= wanted or len(chosen) == len(documents) - 1:
            break
        chosen.add(documents[index])
        got += sizes[documents[index]]
    if not chosen:
        raise UsageError("the training data is a single document: no part of it can be held out; give --dev")
    kept = [sentence for sentence, name in zip(sentences, names, strict=True) if name not in chosen]
    out = [sentence for sentence, name in zip(sentences, names, strict=True) if name in chosen]
    return kept, out


def train(
    config: Config,
    sentences: Sequence[Sentence],
    out: str | Path,
    dev: Sequence[Sentence] | None = None,
    test: Sequence[Sentence] | None = None,
    *,
    resume: bool = False,
    quiet: bool = True,
) -> Outcome:
    """Trains a model and saves it in the folder `out`, with records of how it went.

    The best epoch by development F1 is kept; without `dev`, the last one. With `resume`, a run that
    was broken off goes on from its last checkpoint, and ends as if nothing had happened.
    """
    out = Path(out)
    checkpoint = _prepare(out, config, resume=resume)
    set_seed(config.training.seed)
    learnt = [s for s in with_context(sentences, config.encoder.context) if s.words]
    if not learnt:
        raise UsageError("the training data has no sentences")
    if dev is not None and not dev:
        raise UsageError("the development data has no sentences")
    model = Model.build(config, learnt)
    trainer = ModelTrainer(model, config.training, _arguments(config, out, dev), learnt, dev)
    for shown in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(shown)
    trainer.add_callback(Records(out))
    display = None if quiet else Display()
    if display:
        trainer.add_callback(display)
    if dev is not None and config.training.patience:
        trainer.add_callback(EarlyStoppingCallback(config.training.patience))
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        if display:
            display.close()
    model.eval()
    return _finish(model, out, test, trainer)


def _prepare(out: Path, config: Config, *, resume: bool) -> Path | None:
    """The checkpoint to go on from, if any; a new run gets an empty folder."""
    run_file = out / RUN_FILE
    if resume:
        if not run_file.is_file():
            raise UsageError(f"{out}: there is no training run to resume here (no {RUN_FILE})")
        if (out / RESULT_FILE).is_file():
            raise UsageError(f"{out}: this training run is complete; there is nothing to resume")
        if Config.compose(run_file) != config:
            raise UsageError(f"{out}: the run there has other settings ({run_file}); resume it with the same")
        return last_checkpoint(out / CHECKPOINTS)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        ours = run_file.is_file()
        todo = "go on with --resume, or give another name" if ours else "give another name"
        raise UsageError(f"{out}: is there already and not an empty folder; {todo}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        run_file.write_text(config.to_yaml(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    return None


def _arguments(config: Config, out: Path, dev: Sequence[Sentence] | None) -> TrainingArguments:
    settings = config.training
    every = "no" if dev is None else "epoch"
    return TrainingArguments(
        output_dir=str(out / CHECKPOINTS),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        lr_scheduler_type=settings.schedule if settings.schedule != "constant" else "constant_with_warmup",
        warmup_steps=settings.warmup if settings.warmup < 1 else 0.999,
        max_grad_norm=settings.clip,
        seed=settings.seed,
        bf16=settings.precision == "bfloat16",
        eval_strategy=every,
        save_strategy="epoch",
        save_total_limit=2,
        load_best_model_at_end=dev is not None,
        metric_for_best_model="f1" if dev is not None else None,
        greater_is_better=True,
        logging_steps=10,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
    )


def _finish(model: Model, out: Path, test: Sequence[Sentence] | None, trainer: ModelTrainer) -> Outcome:
    """Saves the model with its scores and its card, and removes what only a resumption would need."""
    if not trainer.is_world_process_zero():
        return Outcome(model, [], None, None)
    result = evaluate(test, model.predict(test)) if test is not None else None
    epochs = [record for record in read_metrics(out) if "dev_f1" in record]
    best = max(epochs, key=lambda record: record["dev_f1"], default=None)
    outcome = Outcome(model, epochs, best, result)
    model.save(out)
    scores = {
        "epochs": epochs,
        "kept_epoch": best["epoch"] if best else float(trainer.state.epoch or 0),
        "dev": best,
        "test": result.to_dict() if result else None,
    }
    _write(out / CARD_FILE, model_card(model, best, result))
    _write(out / RESULT_FILE, json.dumps(scores, indent=2) + "\n")
    shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return outcome


def _write(path: Path, text: str) -> None:
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8"))
