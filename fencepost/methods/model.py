"""Models: an encoder and a method's network, trained together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fencepost.data.entity import Sentence
from fencepost.encoder.embedder import Batch
from fencepost.encoder.encoder import Encoder, Words
from fencepost.encoder.windows import join_blocks
from fencepost.errors import UsageError
from fencepost.evaluation import Temperature
from fencepost.methods.decoder import GoldArrays, WordArrays
from fencepost.methods.network import Gold, Network
from fencepost.methods.registry import METHODS
from fencepost.methods.settings import PredictSettings
from fencepost.settings import Settings

if TYPE_CHECKING:
    from fencepost.config import Config


class Model(nn.Module):
    """An encoder and a method's network for entities of `types`, with all settings.

    `fencepost.runtime.pytorch` saves and loads it, and predicts with it.
    """

    def __init__(self, config: Config, types: Sequence[str], encoder: Encoder) -> None:
        super().__init__()
        self.config = config
        self.types = tuple(types)
        self.encoder = encoder
        network = METHODS[config.method.name].load_network()
        self.network: Network[Any] = network(config.method, encoder.width, self.types)
        self.calibration = Temperature()

    @classmethod
    def build(cls, config: Config, sentences: Sequence[Sentence]) -> Model:
        """Return an untrained model for this training data, which determines types and open settings."""
        types = sorted({entity.type for sentence in sentences for entity in sentence.entities})
        if not types:
            raise UsageError("the training data has no entities: there is nothing to learn")
        config.predict.thresholds(types)  # raises if a threshold is for a type that the data does not have
        config = config.model_copy(
            update={
                "method": config.method.fit_to(sentences),
                "predict": config.predict.fit_to(sentences),
                "text": config.text.fit_to(sentences),
            }
        )
        prompts, names = config.method.prompts(types), config.method.prompt_names(types)
        encoder = Encoder.build(config.encoder, sentences, prompts, names)
        return cls(config.model_copy(update={"encoder": encoder.settings}), types, encoder)

    def set_predict(self, predict: PredictSettings) -> None:
        """Replace the settings of prediction."""
        self.config = self.config.model_copy(update={"predict": predict})

    def set_training(self, training: Settings) -> None:
        """Replace the settings of training."""
        self.config = self.config.model_copy(update={"training": training})

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def split(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences as the encoder reads them: in blocks, and in windows if they are too long."""
        parts = (part for sentence in sentences for part in self.encoder.inputs.split(sentence))
        return [part.sentence for part in join_blocks(parts, self.encoder.inputs.block)]

    def collate(self, sentences: Sequence[Sentence]) -> Batch:
        """Return the tensors of a batch of sentences, with their entities as `gold`, `[N, 4]`.

        If a sentence is annotated with some types only, `annotated`, `[B, C]`, says with which. If entities
        of a sentence are soft, `probability`, `[N]`, has their probabilities.
        """
        return self.encoder.collate(sentences) | self._collect_gold(sentences)

    def _collect_gold(self, sentences: Sequence[Sentence]) -> dict[str, Tensor]:
        gold = GoldArrays.from_sentences(sentences, self.types)
        columns = np.stack((gold.sentence, gold.start, gold.end, gold.type), axis=1)
        tensors = {"gold": torch.from_numpy(columns)}
        if gold.probability is not None:
            tensors["probability"] = torch.from_numpy(gold.probability)
        annotated = [sentence.annotated_types for sentence in sentences]
        if any(types is not None for types in annotated):
            rows = [[types is None or type_ in types for type_ in self.types] for types in annotated]
            tensors["annotated"] = torch.tensor(rows)
        return tensors

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the terms of the loss, and their sum as `loss`."""
        return self._compute_terms(self.encoder(batch), Gold.from_batch(batch))

    def _compute_terms(self, words: Words, gold: Gold) -> dict[str, Tensor]:
        if not self.network.has_soft_targets:
            gold = gold.draw()
        terms = self.network.loss(self.network.score(words, gold), gold)
        return {**terms, "loss": torch.stack(list(terms.values())).sum()}

    @torch.inference_mode()
    def compute_loss(self, sentences: Sequence[Sentence], words: WordArrays) -> float:
        """Return the loss of a batch, given its word vectors from prediction."""
        arrays = (words.vectors, words.lengths, words.prompts)
        tensors = [None if array is None else torch.from_numpy(array).to(self.device) for array in arrays]
        gold = {name: tensor.to(self.device) for name, tensor in self._collect_gold(sentences).items()}
        return self._compute_terms(Words(*tensors), Gold.from_batch(gold))["loss"].item()  # type: ignore[arg-type]
