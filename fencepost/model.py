"""The model: an encoder and a method, trained together, and saved and loaded as one folder.

words -> batch -> word vectors -> scores -> candidates -> entities
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice, tee
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fencepost import __version__
from fencepost.config import Config
from fencepost.corpus.context import with_context
from fencepost.corpus.output import naming, temporary_folder
from fencepost.encoder import Batch, Encoder, Words
from fencepost.entity import Entity, Sentence
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import Temperature
from fencepost.methods import METHODS, Gold, Method, PredictSettings, Report
from fencepost.runtime.engine import FACTS_FILE, GRAPH_FOLDER, LOOK_AHEAD, batches, entities_of

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"


Watch = Callable[[Sequence[Sentence], Words, Any, Gold], None]
"""Gets a batch of sentences, their word vectors, the method's scores, and the gold entities."""


def read_config(folder: Path) -> tuple[Config, list[str]]:
    """The settings of the model in this folder, and its types."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise UsageError(f"{folder}: there is no model here (a model is a folder with a {CONFIG_FILE})")
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        types, tree = [str(type_) for type_ in saved["types"]], dict(saved["config"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"this is not the config of a fencepost model: {error!r}"
        raise DataError(message, source=str(path)) from None
    return Config.parse(tree, where=str(path)), types


def read_calibration(folder: Path) -> Temperature:
    """What the confidences of the model in this folder are calibrated with; an old one has none."""
    path = folder / CONFIG_FILE
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if "calibration" not in saved:
            return Temperature()
        return Temperature(saved["calibration"]["temperature"], saved["calibration"]["shift"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"the model's calibration cannot be read: {error!r}"
        raise DataError(message, source=str(path)) from None


class Model(nn.Module):
    """Finds entities of `types`."""

    def __init__(self, config: Config, types: Sequence[str], encoder: Encoder) -> None:
        super().__init__()
        self.settings = config
        self.types = tuple(types)
        self.encoder = encoder
        self.method: Method[Any] = METHODS[config.method.name](
            config.method, config.predict, encoder.width, self.types
        )
        self._numbers = {type_: number for number, type_ in enumerate(self.types)}
        self.calibration = Temperature()

    @classmethod
    def build(cls, config: Config, sentences: Sequence[Sentence]) -> Model:
        """A new one for this training data, which decides the types and all settings left open."""
        types = sorted({entity.type for sentence in sentences for entity in sentence.entities})
        if not types:
            raise UsageError("the training data has no entities: there is nothing to learn")
        config = config.model_copy(
            update={
                "method": config.method.fitted(sentences),
                "predict": config.predict.fitted(sentences),
                "text": config.text.fitted(sentences),
            }
        )
        method = METHODS[config.method.name]
        prompts, names = method.prompts(config.method, types), method.prompt_names(config.method, types)
        return cls(config, types, Encoder.build(config.encoder, sentences, prompts, names))

    @classmethod
    def load(cls, folder: str | Path, changes: Sequence[str] = ()) -> Model:
        """A model that was saved; `changes` are `predict.key=value`."""
        folder = Path(folder)
        config, types = read_config(folder)
        config = config.changed(changes)
        prompts = METHODS[config.method.name].prompts(config.method, types)
        model = cls(config, types, Encoder.load(config.encoder, folder, prompts))
        model.calibration = read_calibration(folder)
        weights = folder / WEIGHTS_FILE
        try:
            model.load_state_dict(load_file(weights))
        except (OSError, SafetensorError) as error:
            raise DataError(f"the model's weights cannot be read: {error}", source=str(weights)) from None
        except RuntimeError as error:
            _, *reasons = str(error).splitlines()  # the first line says only that there are some
            message = f"the weights do not fit the model's config: {'; '.join(map(str.strip, reasons[:3]))}"
            raise DataError(message, source=str(weights)) from None
        return model.eval()

    def save(self, folder: str | Path) -> None:
        """Save the model in a folder; the config, which makes it a model, is put there last.

        Raises `WriteError` if a file cannot be written, as when the disk is full.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with naming(folder), temporary_folder(folder) as temporary:
            self.encoder.save(temporary)
            weights = {key: value.contiguous() for key, value in self.state_dict().items()}
            with naming(folder / WEIGHTS_FILE, SafetensorError):
                save_file(weights, temporary / WEIGHTS_FILE)
            config = self.settings.model_dump(mode="json")
            saved = {"fencepost": __version__, "types": self.types, "config": config}
            saved["calibration"] = asdict(self.calibration)
            text = json.dumps(saved, ensure_ascii=False, indent=2) + "\n"
            (temporary / CONFIG_FILE).write_text(text, encoding="utf-8")
            # safetensors lets nobody but the owner read; the user's own rule for new files shall count
            shutil.copymode(temporary / CONFIG_FILE, temporary / WEIGHTS_FILE)
            (folder / GRAPH_FOLDER / FACTS_FILE).unlink(missing_ok=True)  # graphs of other weights are no use
            for path in sorted(temporary.iterdir(), key=lambda path: path.name == CONFIG_FILE):
                path.replace(folder / path.name)

    def use(self, predict: PredictSettings) -> None:
        """Other settings for prediction from now on."""
        self.settings = self.settings.model_copy(update={"predict": predict})
        self.method.predict = predict

    def using(self, predict: PredictSettings) -> Self:
        """A copy with the same weights and other settings for prediction."""
        other = copy.copy(self)
        other._modules = {**self._modules, "method": copy.copy(self.method)}
        other.use(predict)
        return other

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def collate(self, sentences: Sequence[Sentence]) -> Batch:
        """Sentences as tensors, with their entities (each once) as columns `[N, 4]`."""
        gold = [
            (index, start, end, self._numbers[type_])
            for index, sentence in enumerate(sentences)
            for start, end, type_ in dict.fromkeys(entity.key for entity in sentence.entities)
            if type_ in self._numbers
        ]
        return self.encoder.collate(sentences) | {"gold": torch.tensor(gold).view(-1, 4).long()}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The terms of the loss, and their sum as `loss`."""
        gold = Gold.of(batch["gold"])
        return self._losses(self.method.score(self.encoder(batch), gold), gold)

    def _losses(self, scores: Any, gold: Gold) -> dict[str, Tensor]:
        terms = self.method.loss(scores, gold)
        return {**terms, "loss": torch.stack(list(terms.values())).sum()}

    def predict(self, sentences: Iterable[Sentence], watch: Watch | None = None) -> Iterator[Sentence]:
        """The same sentences, in the same order, with the entities that the model finds.

        Streams: a bounded number of sentences is in memory at once. `watch` is told of each batch.
        """
        originals, sentences = tee(sentences)  # what is told of neighbours is for the encoder alone
        stream = iter(with_context(sentences, self.settings.encoder.context))
        while chunk := list(islice(stream, LOOK_AHEAD)):
            for entities, sentence in zip(self.found(chunk, watch), originals, strict=False):
                yield sentence.with_entities(entities)

    def found(self, sentences: Sequence[Sentence], watch: Watch | None = None) -> list[list[Entity]]:
        """The entities of each of these sentences, which are all that is looked at."""
        entities: list[list[Entity]] = [[] for _ in sentences]
        sizes = [self.encoder.size(sentence) if sentence.words else 0 for sentence in sentences]
        lengths = [len(sentence) for sentence in sentences]
        for batch in batches(sizes, lengths, self.settings.predict.batch_size):
            together = [sentences[index] for index in batch]
            for index, of_sentence in zip(batch, self._predict_batch(together, watch), strict=True):
                entities[index] = of_sentence
        return entities

    @torch.inference_mode()
    def _predict_batch(self, sentences: Sequence[Sentence], watch: Watch | None) -> list[list[Entity]]:
        batch = {name: tensor.to(self.device) for name, tensor in self.collate(sentences).items()}
        words = self.encoder(batch)
        scores = self.method.score(words)
        if watch is not None:
            watch(sentences, words, scores, Gold.of(batch["gold"]))
        kept = self.method.select(self.method.candidates(scores))
        return entities_of(kept, self.calibration, self.types, len(sentences), words.vectors.shape[1])

    def report(self, name: str) -> Report:
        """What this method tells about itself, to be filled in by `watch` and read when all is predicted."""
        makers = self.method.reports
        if name not in makers:
            method, has = self.settings.method.name, ", ".join(f"--{name}" for name in makers) or "none"
            raise UsageError(f"--{name}: {method} has no such report; it has {has}")
        return makers[name](self.method)

    def loss_of(self, words: Words, scores: Any, gold: Gold) -> float:
        """The loss of what was predicted, for `watch`."""
        if self.method.learns_from_gold:
            scores = self.method.score(words, gold)
        return self._losses(scores, gold)["loss"].item()
