"""Adaptation of a pretrained encoder to raw text, by masked language modelling.

The text needs no annotations. The result is a folder in the format of the transformers library, which
`encoder.name` accepts.
"""

from __future__ import annotations

import json
import math
import shutil
import time
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
import torch
from accelerate.utils import set_seed  # type: ignore[import-untyped]
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fencepost.config import TrainingSettings, read_yaml
from fencepost.data.entity import Sentence
from fencepost.data.output import raise_write_errors, temporary_folder
from fencepost.encoder.arrays import number_subwords
from fencepost.encoder.pretrained import Pretrained, load_pretrained
from fencepost.encoder.settings import EncoderSettings
from fencepost.encoder.subwords import Subwords
from fencepost.errors import LanguageWarning, UsageError
from fencepost.runtime.engine import DeviceName
from fencepost.runtime.language import LanguageCheck
from fencepost.runtime.pytorch import choose_device
from fencepost.settings import Settings, or_auto
from fencepost.training import checkpoint as checkpoints
from fencepost.training.batches import LengthGroupedBatches
from fencepost.training.folder import (
    CHECKPOINTS,
    RESULT_FILE,
    RUN_FILE,
    begin_run,
    check_folder,
    has_data,
    list_differences,
    remove_checkpoints,
    write_text,
)
from fencepost.training.masking import MaskedBatch, MaskedLanguageModel, hide_words
from fencepost.training.optimizer import get_learning_rates, group_weights, make_schedule
from fencepost.training.processes import choose_precision
from fencepost.training.records import Display, Listener, Record, Records
from fencepost.training.trainer import Diverged

_HELD_OUT_SHARE, _MOST_HELD_OUT = 0.02, 500
"""Share and maximum number of the sentences on which the loss is measured and which are not trained on."""

_LEAST_WORDS = 3
"""Number of words of the shortest sentences that are used; others have too little context."""

_RECORD_EVERY, _SAVE_EVERY = 10, 300
"""Number of steps between records, and number of seconds between checkpoints."""

_WEIGHTS_FILE = "model.safetensors"


class AdaptSettings(Settings):
    """Settings of an adaptation."""

    encoder: str = Field("minilm", description="Encoder to adapt.")
    epochs: int = Field(3, ge=1, description="Number of epochs.")
    batch_size: int = Field(32, ge=1, description="Number of sentences in a batch.")
    learning_rate: Annotated[float | Literal["auto"], or_auto(Annotated[float, Field(gt=0)])] = Field(
        "auto", description="Highest learning rate of the encoder; auto depends on its width."
    )
    masked: float = Field(0.2, gt=0, lt=1, description="Share of the words that are hidden.")
    length: int = Field(128, ge=8, description="Maximum number of sub-words of a sentence; others are split.")
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="Number format of the computation, as in training."
    )
    seed: int = Field(1, ge=0, le=2**32 - 1, description="Random seed.")

    def compute_rate(self, width: int) -> float:
        """Return the learning rate of an encoder of this width: three times that of training by default."""
        if self.learning_rate != "auto":
            return self.learning_rate
        return 3 * TrainingSettings().compute_encoder_rate(width)


@dataclass(frozen=True)
class Adaptation:
    """Result of an adaptation: the mean loss of hidden sub-words in held-out sentences, and what was read."""

    sentences: int
    held_out: int
    loss_before: float
    loss_after: float
    steps: int
    seconds: float


class SentenceFile:
    """Sentences in a file, so that texts may be larger than the memory; an index finds them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._starts = array("q", [0])
        self.sizes = array("i")  # numbers of sub-words
        self._hash = sha256()

    def __len__(self) -> int:
        return len(self.sizes)

    def add(self, words: Sequence[str], size: int) -> None:
        """Add a sentence of this number of sub-words."""
        line = json.dumps(words).encode()
        self._stream.write(line)
        self._hash.update(line)
        self._starts.append(self._starts[-1] + len(line))
        self.sizes.append(size)

    def read(self, indices: Iterable[int]) -> list[Sentence]:
        """Return the sentences with these numbers."""
        sentences = []
        for index in indices:
            self._stream.seek(self._starts[index])
            words = json.loads(self._stream.read(self._starts[index + 1] - self._starts[index]))
            sentences.append(Sentence(words))
        return sentences

    @property
    def fingerprint(self) -> str:
        """Hash of all sentences."""
        return self._hash.hexdigest()


def adapt(
    settings: AdaptSettings,
    sentences: Iterable[Sequence[str]],
    out: str | Path,
    *,
    resume: bool = False,
    quiet: bool = True,
    device: DeviceName = "auto",
    language: str = "en",
) -> Adaptation:
    """Adapt an encoder to raw text and save it in the folder `out`.

    `sentences` are the words of sentences, and `language` is theirs. Warns (`LanguageWarning`) if the encoder
    does not seem to know it. With `resume`, an interrupted adaptation continues from its last checkpoint.

    Raises `UsageError` for too little text, an encoder that cannot be adapted, or a folder in use.
    """
    out = Path(out)
    check_folder(out, resume=resume)
    if resume:
        _check_settings(out, settings)
    set_seed(settings.seed)
    transformer, tokenizer = _load(settings)
    pooler = getattr(transformer, "pooler", None)  # word vectors do not need it, but its users may
    model = _build(settings, transformer, tokenizer)
    model.to(choose_device(device))
    with raise_write_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out) as temporary, (temporary / "sentences.jsonl").open("w+b") as stream:
        corpus = _write_sentences(sentences, SentenceFile(stream), model.encoder, language)
        stream.flush()
        if not has_data(out, {"texts": corpus.fingerprint}):
            raise UsageError(f"{out}: this adaptation has other texts; resume it with the same texts")
        begin_run(out, settings.to_yaml(), {"texts": corpus.fingerprint})
        run = _Run(model, settings, corpus, tokenizer.mask_token_id, out / CHECKPOINTS)
        result = run.train(resume=resume, listeners=[Records(out)] if quiet else [Records(out), Display()])
    with raise_write_errors(out):
        if pooler is not None:
            transformer.pooler = pooler
        transformer.save_pretrained(out)
        tokenizer.save_pretrained(out)
        for weights in out.glob("*.safetensors"):  # which only the owner could read
            shutil.copymode(out / RUN_FILE, weights)
    write_text(out / RESULT_FILE, json.dumps(vars(result), indent=2) + "\n")
    remove_checkpoints(out)
    return result


def _load(settings: AdaptSettings) -> tuple[Any, Any]:
    """Return the transformer and its tokenizer; raise `UsageError` if it cannot be adapted."""
    if settings.encoder == "scratch":
        raise UsageError("scratch is not a pretrained encoder: there is nothing to adapt")
    transformer, tokenizer = load_pretrained(settings.encoder)
    if tokenizer.mask_token_id is None:
        raise UsageError(f"{settings.encoder}: its tokenizer has no mask token; adapt another encoder")
    return transformer, tokenizer


def _build(settings: AdaptSettings, transformer: Any, tokenizer: Any) -> MaskedLanguageModel:
    """Return the part of the transformer that reads sentences, with a new head."""
    encoder = Pretrained.from_library(EncoderSettings(name=settings.encoder), transformer, tokenizer)
    encoder.room = min(encoder.room, settings.length)
    return MaskedLanguageModel(encoder)


def _check_settings(out: Path, settings: AdaptSettings) -> None:
    """Raise `UsageError` if the adaptation in a folder has other settings."""
    saved = read_yaml(out / RUN_FILE)
    if not isinstance(saved, dict) or "masked" not in saved:
        raise UsageError(f"{out}: this is not an adaptation; give the folder of one, or another name")
    differences = "; ".join(list_differences(saved, settings.model_dump(mode="json")))
    if differences:
        raise UsageError(f"{out}: this adaptation has other settings; resume it with those ({differences})")


def _write_sentences(
    sentences: Iterable[Sequence[str]], corpus: SentenceFile, encoder: Pretrained, language: str
) -> SentenceFile:
    """Add the sentences to the file, those that are too long for the encoder in parts."""
    check = LanguageCheck(None, encoder.subwords, language)
    for words in sentences:
        if check.rest:
            check.add(words)
        for part in _split(words, encoder.subwords, encoder.room):
            corpus.add(part, sum(map(len, encoder.subwords(part))))
    reason = check.judge()
    if reason is not None:
        message = f"the encoder may not be made for the language of these texts: {reason}"
        warnings.warn(message, LanguageWarning, stacklevel=3)
    if len(corpus) < 10:
        raise UsageError(
            f"the texts have fewer than 10 sentences of {_LEAST_WORDS} words or more; give more text"
        )
    return corpus


def _split(words: Sequence[str], subwords: Subwords, room: int) -> Iterator[Sequence[str]]:
    """Yield the parts of a sentence that fit into `room` sub-words and have enough words."""
    start = size = 0
    for end, ids in enumerate(subwords(words)):
        if size + len(ids) > room:
            if end - start >= _LEAST_WORDS:
                yield words[start:end]
            start, size = end, 0
        size += min(len(ids), room)
    if len(words) - start >= _LEAST_WORDS:
        yield words[start:]


class _Run:
    """The training loop of an adaptation."""

    def __init__(
        self,
        model: MaskedLanguageModel,
        settings: AdaptSettings,
        corpus: SentenceFile,
        mask: int,
        folder: Path,
    ) -> None:
        self.model, self.settings, self.corpus, self.mask, self.folder = model, settings, corpus, mask, folder
        order = np.random.default_rng(settings.seed).permutation(len(corpus))
        held_out = max(1, min(_MOST_HELD_OUT, round(_HELD_OUT_SHARE * len(corpus))))
        self.held_out, self.trained = order[:held_out], np.sort(order[held_out:])
        sizes = np.asarray(corpus.sizes)
        self.batches = LengthGroupedBatches(sizes[self.trained], settings.batch_size, settings.seed)  # type: ignore[arg-type]
        self.held_out = self.held_out[np.argsort(sizes[self.held_out], kind="stable")]
        training = TrainingSettings(learning_rate=1e-3, warmup=0.1)
        rate = settings.compute_rate(model.encoder.width)
        groups = group_weights(model, model.encoder.pretrained_weights(), rate, training)
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        self.schedule = make_schedule(self.optimizer, training, settings.epochs, len(self.batches))
        self.clip, self.device = training.clip, model.bias.device
        precision = choose_precision(settings.precision, self.device, pretrained=True)
        self.half = torch.autocast(self.device.type, torch.bfloat16, enabled=precision == "bfloat16")
        self.step, self.records = 0, list[Record]()
        self.steps = settings.epochs * len(self.batches)

    def train(self, *, resume: bool, listeners: Sequence[Listener]) -> Adaptation:
        """Train to the end, from the last checkpoint if `resume`; return the result."""
        start = time.perf_counter()
        checkpoint = checkpoints.find_resumable(self.folder) if resume else None
        checkpoints.remove_newer(self.folder, checkpoint)
        if checkpoint is None:
            self._record({"dev_loss": self._compute_held_out_loss()}, ())
        else:
            self._load_checkpoint(checkpoint)
        try:
            for listener in listeners:
                listener.begin(self.records, self.step, self.steps, self.settings.epochs)
            for epoch in range(self.step // len(self.batches), self.settings.epochs):
                self._train_epoch(epoch, listeners)
        finally:
            for listener in listeners:
                listener.close()
        losses = [record["dev_loss"] for record in self.records if "dev_loss" in record]
        return Adaptation(
            sentences=len(self.trained),
            held_out=len(self.held_out),
            loss_before=losses[0],
            loss_after=losses[-1],
            steps=self.steps,
            seconds=round(time.perf_counter() - start, 1),
        )

    def _train_epoch(self, epoch: int, listeners: Sequence[Listener]) -> None:
        self.batches.set_epoch(epoch)
        losses: list[float] = []
        saved = time.monotonic()
        first = self.step - epoch * len(self.batches)
        for batch in islice(self.batches, first, None):
            self.model.train()
            losses.append(self._take_step(self.trained[batch]))
            is_last = self.step == (epoch + 1) * len(self.batches)
            for listener in listeners:
                listener.after_step(self.step, self.step / len(self.batches))
            if self.step % _RECORD_EVERY == 0 or is_last:
                rates = get_learning_rates(self.optimizer)
                self._record({"loss": float(np.mean(losses)), **rates}, listeners)
                losses = []
            if not is_last and time.monotonic() - saved > _SAVE_EVERY and not losses:
                self._save_checkpoint()
                saved = time.monotonic()
        scores = self._record({"dev_loss": self._compute_held_out_loss()}, listeners)
        for listener in listeners:
            listener.after_epoch(epoch + 1, scores)
        self._save_checkpoint()

    def _take_step(self, indices: Iterable[int]) -> float:
        """Update the weights by one batch; return its mean loss."""
        batch = self._make_batch(indices, np.random.default_rng((self.settings.seed, self.step)))
        with self.half:
            loss = self.model(batch) / len(batch.target)
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(
                f"the loss is no longer finite at step {self.step + 1}: the adaptation diverges; start again "
                f"with a lower learning rate (it is {self.settings.compute_rate(self.model.encoder.width):g})"
            )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.schedule.step()
        self.model.zero_grad()
        self.step += 1
        return float(value)

    def _make_batch(self, indices: Iterable[int], random: np.random.Generator) -> MaskedBatch:
        encoder = self.model.encoder
        arrays = number_subwords(
            self.corpus.read(indices), encoder.subwords, encoder.room, context=False, first_only=False
        )
        batch = hide_words(arrays, self.settings.masked, self.mask, random)
        return MaskedBatch(*(tensor.to(self.device) for tensor in batch))

    @torch.inference_mode()
    def _compute_held_out_loss(self) -> float:
        """Return the mean loss of the held-out sentences, in which the same words are hidden every time."""
        self.model.eval()
        random = np.random.default_rng(self.settings.seed)
        total, count = 0.0, 0
        for first in range(0, len(self.held_out), self.settings.batch_size):
            batch = self._make_batch(self.held_out[first : first + self.settings.batch_size], random)
            total += self.model(batch).item()
            count += len(batch.target)
        return total / count

    def _record(self, values: dict[str, Any], listeners: Sequence[Listener]) -> Record:
        record = {"step": self.step, "epoch": round(self.step / len(self.batches), 4), **values}
        self.records.append(record)
        for listener in listeners:
            listener.record(record)
        return record

    def _save_checkpoint(self) -> None:
        path = checkpoints.checkpoint_path(self.folder, self.step)
        with raise_write_errors(path, SafetensorError):
            path.mkdir(parents=True)
            weights = {name: weight.contiguous() for name, weight in self.model.state_dict().items()}
            save_file(weights, path / _WEIGHTS_FILE)
            checkpoints.save_optimizer(path, self.optimizer, self.schedule)
            checkpoints.save_random_state(path, 0)
            checkpoints.save_state(path, {"step": self.step, "records": self.records})
            checkpoints.seal(path)
            checkpoints.remove_older(self.folder, self.records)

    def _load_checkpoint(self, path: Path) -> None:
        self.model.load_state_dict(load_file(path / _WEIGHTS_FILE))
        checkpoints.load_optimizer(path, self.optimizer, self.schedule)
        state = checkpoints.load_state(path)
        self.step, self.records = state["step"], state["records"]
        checkpoints.load_random_state(path, 0)
