"""Training that starts from a trained model: its weights are reused, and new types are added to its types."""

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
from fencepost.runtime.folder import (
    WEIGHTS_FILE,
    compute_sums,
    files_of,
    format_sums,
    list_members,
    read_saved_config,
)
from fencepost.runtime.pytorch import load_model
from fencepost.training.scoring import make_recogniser


@dataclass(frozen=True)
class Start:
    """The folder of a trained model, and its test data, on which forgetting is measured."""

    folder: Path
    test: Sequence[Sentence] | None = None

    def read_settings(self, method: str | None = None) -> dict[str, Any]:
        """Return the settings that the new model shares with the old one.

        Raises `UsageError` if the model has no weights, or another method than the given one.
        """
        saved = read_saved_config(self.folder).parse_config().model_dump(mode="json")
        if members := list_members(self.folder):
            raise UsageError(
                f"{self.folder}: a combination cannot be trained; start from one of its members, "
                f"as {members[0]}"
            )
        if not (self.folder / WEIGHTS_FILE).is_file():
            raise UsageError(
                f"{self.folder}: this model has graphs for prediction, but no weights ({WEIGHTS_FILE}) to "
                "start from"
            )
        if method not in (None, saved["method"]["name"]):
            raise UsageError(
                f"{self.folder}: this model is of {saved['method']['name']}, and {method} cannot use its "
                "weights; leave out the method, or train without a model to start from"
            )
        return {part: saved[part] for part in ("method", "encoder", "text")}

    def compute_fingerprint(self) -> str:
        """Return a hash of the model's files, to recognise the same model."""
        sums = format_sums(compute_sums(self.folder, files_of(self.folder)))
        return hashlib.sha256(sums.encode()).hexdigest()

    def build(self, config: Config, sentences: Sequence[Sentence]) -> Model:
        """Return a model with the old weights, and with the old types and those of the sentences.

        The weights of new types are untrained. Raises `UsageError` if the settings are of another network
        than that of the old model.
        """
        old = load_model(self.folder)
        new_types = {entity.type for sentence in sentences for entity in sentence.entities}
        if not new_types:
            raise UsageError("the training data has no entities: there is nothing to learn")
        types = sorted({*old.types, *new_types})
        config = config.model_copy(update={"predict": config.predict.fit_to(sentences)})
        prompts = config.method.prompts(types)
        model = Model(config, types, Encoder.read(config.encoder, self.folder, prompts)())
        weights = extend_weights(old.state_dict(), model.state_dict(), old.types, types, str(self.folder))
        model.load_state_dict(weights)
        return model

    def measure(self, model: Model) -> dict[str, Any] | None:
        """Return the strict scores of both models on the old test data, for the old types."""
        if self.test is None:
            return None
        old = load_model(self.folder)
        scores = {}
        for name, version in (("before", old), ("after", model)):
            recogniser = make_recogniser(version).with_options(types=list(old.types))
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
    """Return the new weights, with the old weights wherever both models have them.

    A weight that depends on the types differs in one axis, whose size is the number of types, or one more if
    the first row is for "no entity". Raises `UsageError` if weights differ in another way.
    """
    positions = [types.index(type_) for type_ in old_types]
    extended = {}
    for key, fresh in new.items():
        trained = old.get(key)
        axis = None if trained is None else _find_axis(trained, fresh, len(old_types), len(types))
        if trained is None or axis is None:
            shape = None if trained is None else list(trained.shape)
            raise UsageError(
                f"{name}: the weights do not fit these settings ({key} is {shape}, but should be "
                f"{list(fresh.shape)}); leave out settings of method and encoder that differ from the model's"
            )
        if axis < 0:
            extended[key] = trained
        else:
            others = fresh.shape[axis] - len(types)
            rows = torch.tensor([*range(others), *(position + others for position in positions)])
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
