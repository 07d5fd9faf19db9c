"""The model: an encoder and a method, trained together, and saved and loaded as one folder.

words -> batch -> word vectors -> scores -> candidates -> entities
"""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fencepost import __version__
from fencepost.config import Config
from fencepost.data.context import with_context
from fencepost.data.entity import Entity, Sentence
from fencepost.data.output import naming, remove_leftovers, temporary_folder
from fencepost.encoder.embedder import Batch
from fencepost.encoder.encoder import Encoder, Words
from fencepost.errors import DataError, FencepostError, UsageError, describe_error, shorten
from fencepost.evaluation import Temperature
from fencepost.methods.decoder import PredictSettings
from fencepost.methods.network import Gold, Method, Report
from fencepost.methods.networks import METHODS
from fencepost.runtime.engine import (
    FACTS_FILE,
    GRAPH_FOLDER,
    LOOK_AHEAD,
    batches,
    calibration_of,
    entities_of,
    try_out,
)
from fencepost.runtime.folder import (
    CONFIG_FILE,
    SUMS_FILE,
    WEIGHTS_FILE,
    compute_sums,
    format_sums,
    read_saved_config,
)

__all__ = ["CONFIG_FILE", "WEIGHTS_FILE", "Model", "Watch", "read_calibration", "read_config"]


Watch = Callable[[Sequence[Sentence], Words, Any, Gold], None]
"""Gets a batch of sentences, their word vectors, the method's scores, and the gold entities."""


def read_config(folder: Path) -> tuple[Config, tuple[str, ...]]:
    """Return the settings of the model in this folder, and its types."""
    saved = read_saved_config(folder)
    return Config.parse(saved.config, where=str(folder / CONFIG_FILE)), saved.types


def read_calibration(folder: Path) -> Temperature:
    """Return what the confidences of the model in this folder are calibrated with."""
    return calibration_of(read_saved_config(folder), folder)


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
        """Return a model that was saved; `changes` are `predict.key=value`.

        Raises `DataError` for a file that is not as it should be, and for a model that does not work.
        """
        folder = Path(folder)
        saved = read_saved_config(folder)
        config = Config.parse(saved.config, where=str(folder / CONFIG_FILE)).changed(changes)
        prompts = METHODS[config.method.name].prompts(config.method, saved.types)
        build_encoder = Encoder.read(config.encoder, folder, prompts)
        model = _build_with_weights(
            lambda: cls(config, saved.types, build_encoder()), folder / WEIGHTS_FILE
        ).eval()
        model.calibration = calibration_of(saved, folder)
        try_out(partial(model.found, watch=_check_finite), folder)
        return model

    def save(self, folder: str | Path) -> None:
        """Save the model in a folder: the config after all that it needs, and the checksums last.

        Raises `WriteError` if a file cannot be written, as when the disk is full.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder, ".saving-*")  # of a version that called its temporary folders so
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
            names = [path.name for path in temporary.iterdir() if path.name != CONFIG_FILE]
            sums = compute_sums(temporary, [*names, CONFIG_FILE])
            (temporary / SUMS_FILE).write_text(format_sums(sums), encoding="utf-8")
            (folder / GRAPH_FOLDER / FACTS_FILE).unlink(missing_ok=True)  # graphs of other weights are no use
            (folder / SUMS_FILE).unlink(missing_ok=True)  # a save that is cut short leaves no wrong sums
            for name in (*names, CONFIG_FILE, SUMS_FILE):
                (temporary / name).replace(folder / name)

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


def _build_with_weights(build: Callable[[], Model], path: Path) -> Model:
    """Return what `build` makes, with the weights from a file.

    The network is first built without memory for its weights, and its shapes are compared with those in the
    header of the file: so a config with sizes that no memory holds is refused at no cost.
    """
    try:
        network = _build_without_memory(build)
        if network is not None:
            network.load_state_dict(_read_shapes(path))
        model = build()
        weights = load_file(path)
        model.load_state_dict(weights)
    except FencepostError:
        raise
    except (OSError, SafetensorError) as error:
        message = f"the model's weights cannot be read: {describe_error(error)}"
        raise DataError(message, source=str(path)) from None
    except Exception as error:  # noqa: BLE001 - each network checks its sizes in its own way
        lines = str(error).splitlines()  # if there are several, the first says only that
        reasons = "; ".join(shorten(line.strip()) for line in lines[1:4]) or describe_error(error)
        raise DataError(f"the weights do not fit the model's config: {reasons}", source=str(path)) from None
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.isfinite().all():
            message = f"the weights of this model contain NaN or infinity (in {shorten(name)})"
            raise DataError(f"{message}; train it again", source=str(path))
    return model


def _build_without_memory(build: Callable[[], Model]) -> Model | None:
    """Return what `build` makes, on the meta device, or None if a part of it cannot be built there."""
    try:
        with torch.device("meta"):
            return build()
    except FencepostError:
        raise
    except Exception:  # noqa: BLE001 - a method of another package may need numbers; then they are made
        return None


def _read_shapes(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file as tensors without memory: only its header is read."""
    with safe_open(path, "pt") as weights:
        names: list[str] = weights.keys()
        return {name: torch.empty(weights.get_slice(name).get_shape(), device="meta") for name in names}


def _check_finite(sentences: Sequence[Sentence], words: Words, scores: Any, gold: Gold) -> None:  # noqa: ARG001
    if not words.vectors.isfinite().all():
        raise ValueError("the word vectors are not finite numbers")
