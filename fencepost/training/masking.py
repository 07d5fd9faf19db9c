"""Masked language modelling: sentences with some words hidden, and a network that predicts these words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from fencepost.encoder.arrays import Arrays
from fencepost.encoder.pretrained import Pretrained, get_embedding

_MASKED, _REPLACED = 0.8, 0.1
"""Shares of the hidden words that become the mask token, or other words; the rest are not changed.

(Devlin et al., 2019; without the last two, the encoder would see the mask token in all its training.)
"""


class MaskedBatch(NamedTuple):
    """A batch in which some words are hidden: N of its sub-words are to be predicted."""

    ids: Tensor  # [B, S]
    lengths: Tensor  # [B], in sub-words
    row: Tensor  # [N], the sentence of each hidden sub-word
    column: Tensor  # [N], its position
    target: Tensor  # [N], its id


def hide_words(arrays: Arrays, share: float, mask: int, random: np.random.Generator) -> MaskedBatch:
    """Return a batch with this share of the words of each sentence hidden, but at least one.

    `arrays` are those of `number_subwords`. All sub-words of a word are hidden together, since the others
    would reveal one of them.
    """
    owner = arrays["piece_words"]  # [B, S], -1 for special tokens and padding
    chance = random.random((len(owner), int(owner.max(initial=0)) + 1))  # [B, T]
    chance[np.arange(chance.shape[1]) > owner.max(axis=1)[:, None]] = 1.0
    hidden = (chance < share) | (chance == chance.min(axis=1, keepdims=True))
    fate = random.random(hidden.shape)
    of_subwords = (np.arange(len(owner))[:, None], owner)
    is_hidden = hidden[of_subwords] & (owner >= 0)  # [B, S]
    fate_of_subwords = fate[of_subwords]
    ids = arrays["ids"].copy()
    ids[is_hidden & (fate_of_subwords < _MASKED)] = mask
    replaced = is_hidden & (fate_of_subwords >= _MASKED) & (fate_of_subwords < _MASKED + _REPLACED)
    ids[replaced] = random.choice(arrays["ids"][owner >= 0], int(replaced.sum()))
    row, column = np.nonzero(is_hidden)
    columns = (ids, arrays["piece_counts"], row, column, arrays["ids"][row, column])
    return MaskedBatch(*map(torch.from_numpy, columns))


class MaskedLanguageModel(nn.Module):
    """A pretrained encoder, and a head that predicts the hidden sub-words from its vectors.

    The head is that of BERT: a dense layer, GELU, a normalisation, and the product with the encoder's own
    embeddings. It starts as the identity where the widths allow it, and is not saved with the encoder.
    """

    def __init__(self, encoder: Pretrained) -> None:
        super().__init__()
        self.encoder = encoder
        embedding = get_embedding(encoder.transformer)
        self.dense = nn.Linear(encoder.width, embedding.embedding_dim)
        if encoder.width == embedding.embedding_dim:
            nn.init.eye_(self.dense.weight)
            nn.init.zeros_(self.dense.bias)
        self.norm = nn.LayerNorm(embedding.embedding_dim)
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings))

    def forward(self, batch: MaskedBatch) -> Tensor:
        """Return the sum of the cross entropies of the hidden sub-words; no others are computed."""
        vectors = self.encoder.transform(batch.ids, batch.lengths, None)[batch.row, batch.column]  # [N, d]
        features = self.norm(nn.functional.gelu(self.dense(vectors)))
        logits = nn.functional.linear(features, get_embedding(self.encoder.transformer).weight, self.bias)
        return nn.functional.cross_entropy(logits, batch.target, reduction="sum")
