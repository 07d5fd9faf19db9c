"""A training run, from sentences to a folder with a model in it."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PrinterCallback, ProgressCallback, TrainerCallback, TrainingArguments, set_seed
from transformers.utils import logging as transformers_logging

from fencepost.config import Config, TrainingSettings
from fencepost.data.context import with_context
from fencepost.data.entity import Sentence
from fencepost.data.files import read_json
from fencepost.data.output import remove_leftovers, temporary_folder, whole_file
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation, Mentions, Temperature, evaluate, match, reliability
from fencepost.methods.model import Model
from fencepost.training.card import model_card
from fencepost.training.checkpoint import checkpoint_to_resume, remove_newer
from fencepost.training.processes import as_launched
from fencepost.training.records import Display, Records, records_of
from fencepost.training.trainer import ModelTrainer

RUN_FILE, DATA_FILE, CHECKPOINTS = "run.yaml", "data.json", "checkpoints"
RESULT_FILE, CARD_FILE = "metrics.json", "README.md"

AfterEpoch = Callable[[int, float], None]
"""Is called with the number of an epoch, from 1, and its development F1; what it raises ends the run."""

AtEnd = Callable[["Outcome"], None]
"""Is called when the model and its scores are saved, and before the run counts as complete."""


@dataclass(frozen=True)
class Outcome:
    """What a run ended with: the model, its scores by epoch on the development set, and on the test set.

    `calibration` has its temperature and shift, and the expected calibration errors before and after.
    `predicted` is what the model finds in the test data, or else in the development data, and took `seconds`.
    """

    model: Model
    epochs: list[dict[str, Any]]
    best: dict[str, Any] | None
    test: Evaluation | None
    calibration: dict[str, float | None] | None = None
    predicted: list[Sentence] | None = None
    seconds: float = 0.0


def held_out(sentences: Sequence[Sentence], share: float, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """Splits off a share of the sentences, by whole documents, as a development set: (rest, held out).

    A sentence without `doc` is a document of its own. The share is reached, and exceeded by no more
    than the smallest document that is left; at least one document is left to learn from.
    """
    if not 0 < share < 1:
        raise UsageError(f"the share to hold out must be between 0 and 1, not {share:g}")
    names = [sentence.doc if sentence.doc is not None else index for index, sentence in enumerate(sentences)]
    sizes: dict[str | int, int] = {}
    for name in names:
        sizes[name] = sizes.get(name, 0) + 1
    if not sizes:
        raise UsageError("the training data has no sentences")
    if len(sizes) == 1:
        raise UsageError("the training data has 1 document: no part of it can be held out; give --dev")
    documents = list(sizes)
    shuffled = [documents[index] for index in np.random.default_rng(seed).permutation(len(documents))]
    chosen: set[str | int] = set()
    room = share * len(sentences)
    for name in shuffled:
        if sizes[name] <= room:
            chosen.add(name)
            room -= sizes[name]
    others = [name for name in shuffled if name not in chosen]
    if room > 0 and len(others) > 1:
        chosen.add(min(others, key=lambda name: sizes[name]))
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
    after_epoch: AfterEpoch | None = None,
    at_end: AtEnd | None = None,
) -> Outcome:
    """Train a model and save it in the folder `out`, with records of the training.

    The best epoch by development F1 is kept; without `dev`, the last one. With `resume`, a run that
    was stopped continues from its last undamaged checkpoint, and ends as if nothing had happened. What
    `after_epoch` and `at_end` raise stops it, too; a run that stops in `at_end` is resumed there. Of several
    processes, the first one calls them, and the `Outcome` of the others has no scores.

    Raises `WriteError` if the disk is full, and `DataError` if all checkpoints are damaged.
    """
    out, config = Path(out), as_launched(config)
    learnt = learnt_from(sentences, config)
    if not learnt:
        raise UsageError("the training data has no sentences")
    if dev is not None and not dev:
        raise UsageError("the development data has no sentences")
    if test is not None and not test:
        raise UsageError("the test data has no sentences")
    data = {"train": fingerprint(learnt), "dev": None if dev is None else fingerprint(dev)}
    arguments = _arguments(config, out, dev)
    first = arguments.process_index == 0  # of several, where torchrun or its like has started them
    if first:
        _check(out, config, data, resume=resume)
    checkpoint = checkpoint_to_resume(out / CHECKPOINTS, _warn) if resume else None
    set_seed(config.training.seed)
    model = Model.build(config, learnt)
    if first:
        _begin(out, config, data)
    with _only_errors():
        trainer = ModelTrainer(model, config.training, arguments, learnt, dev)
        if first and after_epoch is not None:
            trainer.add_callback(_Hook(after_epoch))
        trainer.accelerator.wait_for_everyone()  # until all have found the checkpoint
        if first:
            remove_newer(out / CHECKPOINTS, checkpoint)
        _run(trainer, checkpoint, [Records(out), *([Display()] if first and not quiet else [])])
        trainer.load_best()
        trainer.accelerator.wait_for_everyone()  # the checkpoints are removed when nobody needs them
        trainer.accelerator.unwrap_model(model, keep_fp32_wrapper=False)  # a `forward` in bfloat16
    model.eval()
    if not first:
        return Outcome(model, [], None, None)
    outcome = _finish(model, out, test, trainer)
    if at_end is not None:
        at_end(outcome)
    remove_checkpoints(out)
    return outcome


def _warn(message: str) -> None:
    sys.stderr.write(f"{message}\n")


def remove_checkpoints(out: Path) -> None:
    """Remove the checkpoints of a run, at once: a run without them, and with its scores, is complete."""
    if (out / CHECKPOINTS).exists():
        with temporary_folder(out) as temporary:
            (out / CHECKPOINTS).rename(temporary / CHECKPOINTS)


class _Hook(TrainerCallback):
    """For someone who watches the scores."""

    def __init__(self, call: AfterEpoch) -> None:
        self.call = call

    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
        self.call(round(state.epoch), more["metrics"]["eval_f1"])


def learnt_from(sentences: Iterable[Sentence], config: Config) -> list[Sentence]:
    """The sentences as a model sees them in training: with their neighbours, and none without words."""
    return [s for s in with_context(sentences, config.encoder.context) if s.words]


def idle_settings(
    config: Config, sentences: Sequence[Sentence], dev: Sequence[Sentence] | None
) -> Iterator[str]:
    """Settings that were given and can have no effect, each with the reason."""
    encoder, usual = config.encoder, EncoderSettings()
    if encoder.name == "scratch":
        for key in ("pooling", "layers", "frozen_layers", "freeze_embeddings", "context", "window"):
            if getattr(encoder, key) != getattr(usual, key):
                yield f"encoder.{key} has no effect: it is for pretrained encoders, not for scratch"
    elif encoder.context and not any(s.doc is not None or s.left or s.right for s in sentences):
        yield "encoder.context has no effect: the training data does not tell the sentences' documents"
    if encoder.name != "scratch" and encoder.scratch != usual.scratch and not encoder.features.characters:
        yield "encoder.scratch has no effect: it is for the encoder scratch"
    if encoder.features.pos and not any(sentence.pos for sentence in sentences):
        yield "encoder.features.pos has no effect: the training data has no parts of speech"
    yield from config.method.idle(encoder)
    yield from _idle_freezing(config.training, encoder)
    if config.training.patience and dev is None:
        yield "training.patience has no effect: without development data there is no F1 to wait for"


def _idle_freezing(training: TrainingSettings, encoder: EncoderSettings) -> Iterator[str]:
    if not training.frozen_epochs:
        if training.frozen_rate != TrainingSettings().frozen_rate:
            yield "training.frozen_rate has no effect: training.frozen_epochs is 0"
    elif encoder.name == "scratch":
        yield "training.frozen_epochs has no effect: the encoder scratch has no pretrained weights"
    elif training.frozen_epochs >= training.epochs:
        yield "training.frozen_epochs is not below training.epochs: the pretrained weights never learn"


def _run(trainer: ModelTrainer, checkpoint: Path | None, tellers: Sequence[Records | Display]) -> None:
    for shown in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(shown)
    for teller in tellers:
        trainer.add_callback(teller)
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    finally:
        for teller in tellers:
            teller.close()


@contextmanager
def _only_errors() -> Iterator[None]:
    """Silences transformers, which warns of checkpoints less than a second apart and the like."""
    before = transformers_logging.get_verbosity()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(before)


def check_folder(out: Path, *, resume: bool) -> None:
    """Refuse a folder for a new run that is not empty, and one to resume that has no incomplete run.

    What a killed process has left in it is removed.
    """
    run_file, complete = out / RUN_FILE, is_complete(out)
    remove_leftovers(out)
    if not resume:
        try:
            taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
        except OSError as error:
            raise UsageError(f"{out}: cannot be read: {error.strerror}") from None
        if taken:
            resumable = run_file.is_file() and not complete
            todo = "go on with --resume, or give another name" if resumable else "give another name"
            raise UsageError(f"{out}: is there already and not an empty folder; {todo}")
        return
    if not run_file.is_file():
        raise UsageError(
            f"{out}: there is no training run to resume here (no {RUN_FILE}); "
            "check the name, or start one without --resume"
        )
    if complete:
        raise UsageError(
            f"{out}: this training run is complete and there is nothing to resume; "
            "for another one leave out --resume and give another folder"
        )


def is_complete(out: Path) -> bool:
    """Return whether the run in this folder has its scores, and nothing to be resumed."""
    return (out / RESULT_FILE).is_file() and not (out / CHECKPOINTS).exists()


def _check(out: Path, config: Config, data: Mapping[str, Any], *, resume: bool) -> None:
    """The folder must do; a run that is resumed must be the same."""
    check_folder(out, resume=resume)
    if not resume:
        return
    changed = other_settings(out, config)
    if changed:
        raise UsageError(
            f"{out}: the run there has other settings; resume it with the same, which are in "
            f"{out / RUN_FILE} ({changed})"
        )
    if not has_data(out, data):
        raise UsageError(
            f"{out}: the run there has other training or development data; resume it with the same"
        )


def other_settings(out: Path, config: Config) -> str:
    """In which settings the run in this folder differs from these; nothing if they are the same."""
    there = Config.compose(out / RUN_FILE)
    if there == config:
        return ""
    return "; ".join(_differences(there.model_dump(mode="json"), config.model_dump(mode="json")))


def has_data(out: Path, data: Mapping[str, Any]) -> bool:
    """Return whether the run in this folder has data with these fingerprints, or none yet.

    Raises `DataError` if the file that says so is damaged, or missing in a run that has a checkpoint.
    """
    if not (out / DATA_FILE).exists() and not (out / CHECKPOINTS).exists() and not is_complete(out):
        return True
    return bool(read_json(out / DATA_FILE) == data)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in sorted(there.keys() | here.keys()):
        old, new = there.get(key), here.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key} is {old} there and {new} here"


def _begin(out: Path, config: Config, data: Mapping[str, Any]) -> None:
    """Write what a resumed run is compared with, of which a killed process may have left the first file."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    for name, text in ((RUN_FILE, config.to_yaml()), (DATA_FILE, json.dumps(data, indent=2) + "\n")):
        if not (out / name).exists():
            _write(out / name, text)


def fingerprint(sentences: Iterable[Sentence]) -> dict[str, Any]:
    """What tells whether sentences are the same to a training."""
    count, content = 0, hashlib.sha256()
    for count, s in enumerate(sentences, start=1):  # noqa: B007 - the last one is the number
        entities = [entity.key for entity in s.entities]
        content.update(json.dumps([s.words, entities, s.doc, s.left, s.right, s.pos]).encode())
    return {"sentences": count, "sha256": content.hexdigest()}


def _arguments(config: Config, out: Path, dev: Sequence[Sentence] | None) -> TrainingArguments:
    settings = config.training
    arguments = TrainingArguments(
        output_dir=str(out / CHECKPOINTS),
        use_cpu=not torch.accelerator.is_available(),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulate,
        lr_scheduler_type=settings.schedule if settings.schedule != "constant" else "constant_with_warmup",
        warmup_steps=settings.warmup if settings.warmup < 1 else 0.999,
        max_grad_norm=settings.clip,
        seed=settings.seed,
        bf16=settings.precision == "bfloat16",
        eval_strategy="no" if dev is None else "epoch",
        save_strategy="epoch",
        metric_for_best_model=None if dev is None else "f1",
        greater_is_better=True,
        logging_steps=10,
        logging_nan_inf_filter=False,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        report_to="none",
        log_level="error",
        log_level_replica="error",
    )
    if arguments.n_gpu > 1:
        # `Trainer` would cut each batch into pieces for the GPUs, which ours does not survive; one
        # process for each of them, through torchrun, is the better way anyway.
        arguments._n_gpu = 1
    return arguments


def _finish(model: Model, out: Path, test: Sequence[Sentence] | None, trainer: ModelTrainer) -> Outcome:
    """Save the model with its scores and its card."""
    calibration, result, predicted, seconds = _calibrate(model, trainer.dev, test)
    epochs = [record for record in records_of(trainer.state) if "dev_f1" in record]
    best = max(epochs, key=lambda record: record["dev_f1"], default=None)
    outcome = Outcome(model, epochs, best, result, calibration, predicted, seconds)
    model.save(out)
    scores = {
        "epochs": epochs,
        "kept_epoch": best["epoch"] if best else float(trainer.state.epoch or 0),
        "dev": best,
        "calibration": calibration,
        "test": result.to_dict() if result else None,
    }
    _write(out / CARD_FILE, model_card(model, best, result, calibration))
    _write(out / RESULT_FILE, json.dumps(scores, indent=2) + "\n")
    return outcome


def _calibrate(
    model: Model, dev: Sequence[Sentence] | None, test: Sequence[Sentence] | None
) -> tuple[dict[str, float | None] | None, Evaluation | None, list[Sentence] | None, float]:
    """Calibrates the model on the development data, if there is some, and scores it on the test data.

    Also what it finds in the last of these that there is, and how many seconds that took.
    """
    temperature, calibration = Temperature(), None
    predicted, seconds = None, 0.0  # not calibrated yet, and so good for both errors
    if dev is not None:
        predicted, seconds = _timed(model, dev)
        found = match(dev, predicted).predicted
        temperature = Temperature.fit(found.score, found.matched)
        calibration = asdict(temperature) | _calibration_errors("dev", found, temperature)
    if test is not None:
        predicted, seconds = _timed(model, test)
        if calibration is not None:
            found = match(test, predicted).predicted
            calibration |= _calibration_errors("test", found, temperature)
    model.calibration = temperature
    if predicted is not None:
        predicted = list(_calibrated(predicted, temperature))
    result = None if test is None or predicted is None else evaluate(test, predicted)
    return calibration, result, predicted, seconds


def _timed(model: Model, sentences: Sequence[Sentence]) -> tuple[list[Sentence], float]:
    start = time.perf_counter()
    return list(model.predict(sentences)), time.perf_counter() - start


def _calibration_errors(part: str, found: Mentions, temperature: Temperature) -> dict[str, float | None]:
    return {
        f"{part}_ece_before": reliability(found.score, found.matched).ece,
        f"{part}_ece_after": reliability(temperature.apply(found.score), found.matched).ece,
    }


def _calibrated(sentences: Sequence[Sentence], temperature: Temperature) -> Iterator[Sentence]:
    """What the model would have predicted with this temperature."""
    scores = np.array([entity.score for sentence in sentences for entity in sentence.entities])
    rest = iter(temperature.apply(scores).tolist())
    for sentence in sentences:
        yield sentence.with_entities(replace(entity, score=next(rest)) for entity in sentence.entities)


def _write(path: Path, text: str) -> None:
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8"))
