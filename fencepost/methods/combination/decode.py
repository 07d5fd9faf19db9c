"""Prediction: the candidates of all members, each with one probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fencepost.methods.candidates import BoolArray, Candidates, FloatArray, IntArray
from fencepost.methods.combination.settings import FLOOR, CombinationSettings
from fencepost.methods.decoder import Decoder, GoldArrays, GraphMismatch, Graphs, WordArrays
from fencepost.methods.settings import PredictSettings

_CLIP = 1e-6
"""Minimum distance of a probability from 0 and 1, since a logit must be finite."""


class JoinedCandidates(NamedTuple):
    """Each different candidate of the members, and the probability that each member gives it."""

    start: IntArray  # [N]
    end: IntArray  # [N]
    type: IntArray  # [N]
    probability: FloatArray  # [N, M], NaN where a member does not propose the candidate

    def compute_logits(self) -> FloatArray:
        """Return the logits of the members' probabilities, `[N, M]`; 0 where there is none."""
        probability = np.clip(np.nan_to_num(self.probability, nan=0.5), _CLIP, 1 - _CLIP)
        return np.asarray(np.log(probability) - np.log1p(-probability))

    def find_entities(self, gold: GoldArrays, length: int) -> BoolArray:
        """Return which candidates are gold entities, `[N]`, in a batch that is padded to `length` words."""
        offset = gold.sentence * length
        rows = np.stack((offset + gold.start, offset + gold.end, gold.type), axis=1)
        entities = set(map(tuple, rows.tolist()))
        keys = zip(self.start.tolist(), self.end.tolist(), self.type.tolist(), strict=True)
        return np.array([key in entities for key in keys], dtype=np.bool_)

    def combine(self, settings: CombinationSettings) -> FloatArray:
        """Return the probability of each candidate, `[N]`."""
        proposed = ~np.isnan(self.probability)
        logit = settings.bias + self.compute_logits() @ settings.slopes + proposed @ settings.offsets
        return np.asarray(1 / (1 + np.exp(-logit)))


def join_candidates(members: Sequence[Candidates]) -> JoinedCandidates:
    """Return the candidates of all members for the same batch; equal spans of one type are one candidate."""
    rows = np.concatenate([np.stack((one.start, one.end, one.type), axis=1) for one in members])  # [R, 3]
    keys, number = np.unique(rows, axis=0, return_inverse=True)
    owner = np.repeat(np.arange(len(members)), [len(one) for one in members])
    probability = np.full((len(keys), len(members)), np.nan)
    confidence = np.concatenate([one.confidence for one in members])
    np.fmax.at(probability, (number, owner), confidence)
    start, end, type_ = keys.T
    return JoinedCandidates(start, end, type_, probability)


class CombinationDecoder(Decoder[JoinedCandidates]):
    """Decoder of candidates that the members' own decoders have computed."""

    def score(self, words: WordArrays, graphs: Graphs, predict: PredictSettings) -> JoinedCandidates:  # noqa: ARG002
        raise GraphMismatch("the members of this combination are missing")

    def candidates(self, scores: JoinedCandidates, predict: PredictSettings) -> Candidates:
        confidence = scores.combine(self.settings)
        probable = confidence >= min(predict.lowest_threshold(), FLOOR)
        return Candidates(scores.start, scores.end, scores.type, confidence).take(probable)
