"""A trained model as the start of a new one: its weights are kept, and new types are added to its own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.encoder.encoder import Encoder
from fencepost.errors import UsageError
from fencepost.evaluation import evaluate
from fencepost.methods.model import Model
from fencepost.runtime.folder import WEIGHTS_FILE, compute_sums, files_of, format_sums, read_saved_config
from fencepost.runtime.pytorch import load_model
from fencepost.training.scoring import make_recogniser


@dataclass(frozen=True)
class Start:
    """The folder of a model, and test data of it by which forgetting is measured."""

    folder: Path
    test: Sequence[Sentence] | None = None

    def settings(self, method: str | None = None) -> dict[str, Any]:
        """Return the settings that the new model shares with the old one, as the base of all settings.

        Raises `UsageError` if another method is wanted.
        """
        saved = read_saved_config(self.folder).parse_config().model_dump(mode="json")
        if not (self.folder / WEIGHTS_FILE).is_file():
            raise UsageError(
                f"{self.folder}: has graphs for prediction, but no weights ({WEIGHTS_FILE}) to start from"
            )
        if method not in (None, saved["method"]["name"]):
            raise UsageError(
                f"{self.folder}: is a model of {saved['method']['name']}, whose weights {method} cannot use; "
                "leave out the method, or train without a model to start from"
            )
        return {part: saved[part] for part in ("method", "encoder", "text")}

    def compute_fingerprint(self) -> str:
        """Return what identifies the model as the same one."""
        sums = format_sums(compute_sums(self.folder, files_of(self.folder)))
        return hashlib.sha256(sums.encode()).hexdigest()

    def build(self, config: Config, sentences: Sequence[Sentence]) -> Model:
        """Return a model with the old types and those of these sentences, and with the old weights.

        What belongs to a new type is as in a model without training. Raises `UsageError` if the settings
        describe another network than the old one.
        """
        old = load_model(self.folder)
        new_types = {entity.type for sentence in sentences for entity in sentence.entities}
        if not new_types:
            raise UsageError("the training data has no entities: there is nothing to learn")
        types = sorted({*old.types, *new_types})
        config = config.model_copy(update={"predict": config.predict.fitted(sentences)})
        prompts = config.method.prompts(types)
        model = Model(config, types, Encoder.read(config.encoder, self.folder, prompts)())
        weights = extend_weights(old.state_dict(), model.state_dict(), old.types, types, str(self.folder))
        model.load_state_dict(weights)
        return model

    def measure(self, model: Model) -> dict[str, Any] | None:
        """Return the strict scores of both models on the old test data, for the types of the old one."""
        if self.test is None:
            return None
        old = load_model(self.folder)
        scores = {}
        for name, one in (("before", old), ("after", model)):
            recogniser = make_recogniser(one).with_options(types=list(old.types))
            overall = evaluate(self.test, list(recogniser.predict(self.test))).overall
            scores[name] = {"precision": overall.precision, "recall": overall.recall, "f1": overall.f1}
        return {"sentences": len(self.test), **scores}


def extend_weights(
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    old_types: Sequence[str],
    types: Sequence[str],
    name: str = "the model",
) -> dict[str, Tensor]:
    """Return the new weights with the old ones where both have them.

    A weight that has something for each type differs in one axis, whose size is the number of types, or one
    more if the first is for "no entity".
    """
    places = [types.index(type_) for type_ in old_types]
    extended = {}
    for key, fresh in new.items():
        trained = old.get(key)
        axis = None if trained is None else _find_axis(trained, fresh, len(old_types), len(types))
        if trained is None or axis is None:
            shape = None if trained is None else list(trained.shape)
            raise UsageError(
                f"{name}: its weights do not fit these settings ({key} is {shape}, and should be "
                f"{list(fresh.shape)}); leave out the settings of method and encoder that differ from its own"
            )
        if axis < 0:
            extended[key] = trained
        else:
            others = fresh.shape[axis] - len(types)
            rows = torch.tensor([*range(others), *(place + others for place in places)])
            extended[key] = fresh.clone().index_copy_(axis, rows, trained)
    return extended


def _find_axis(trained: Tensor, fresh: Tensor, old: int, new: int) -> int | None:
    """Return the axis of the types; -1 if the shapes are the same, None if they do not fit."""
    if trained.dim() != fresh.dim():
        return None
    pairs = list(zip(trained.shape, fresh.shape, strict=True))
    differing = [axis for axis, (one, other) in enumerate(pairs) if one != other]
    if not differing:
        return -1
    one, other = pairs[differing[0]]
    fits = len(differing) == 1 and other - one == new - old and one - old in (0, 1)
    return differing[0] if fits else None
