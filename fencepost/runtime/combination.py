"""Combinations: several models that predict as one.

The folder of a combination has those of its members. Each member computes candidates, with a low threshold;
`methods/combination` joins them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.encoder.subwords import Subwords
from fencepost.errors import DataError
from fencepost.evaluation import Temperature
from fencepost.methods.candidates import Candidates
from fencepost.methods.combination.decode import join_candidates
from fencepost.methods.combination.settings import FLOOR, CombinationSettings
from fencepost.methods.decoder import Graphs, WordArrays
from fencepost.runtime.engine import Engine, Predictor
from fencepost.runtime.folder import read_saved_config


class CombinedEngine:
    """The engines of the members; their graphs are named by the member's number, as `0.encoder`."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self.name = "+".join(dict.fromkeys(engine.name for engine in engines))
        self.threads = min(engine.threads for engine in engines)
        self.graphs = _number_graphs(engine.graphs for engine in engines)

    @property
    def subwords_per_batch(self) -> int | None:
        sizes = [size for engine in self._engines if (size := engine.subwords_per_batch) is not None]
        return min(sizes, default=None)

    def open_single(self) -> Graphs | None:
        singles = [engine.open_single() for engine in self._engines]
        complete = [graphs for graphs in singles if graphs is not None]
        return _number_graphs(complete) if len(complete) == len(singles) else None


def _number_graphs(graphs: Iterable[Graphs]) -> dict[str, Any]:
    return {f"{number}.{name}": graph for number, one in enumerate(graphs) for name, graph in one.items()}


class CombinedPredictor(Predictor):
    """Prediction by several models together."""

    def __init__(
        self,
        members: Sequence[Predictor],
        config: Config,
        types: Sequence[str],
        calibration: Temperature,
        source: str,
    ) -> None:
        engine = CombinedEngine([member.engine for member in members])
        super().__init__(engine, config, types, members[0].inputs, calibration, source)
        self.members = [member.with_options({"threshold": FLOOR}) for member in members]
        self._numbers = [np.array([types.index(one) for one in member.types]) for member in members]

    @property
    def room(self) -> int | None:
        rooms = [member.room for member in self.members if member.room is not None]
        return min(rooms, default=None)

    @property
    def block(self) -> int:
        """The largest block of the members; those that read each sentence by itself ignore the others."""
        return min(max(member.block for member in self.members), self.room or 0)

    def sizes(self, words: Sequence[str]) -> list[int]:
        """Return the largest size of each word, so that what fits into `room` fits into every member."""
        return [max(of_word) for of_word in zip(*(one.sizes(words) for one in self.members), strict=True)]

    @property
    def subwords(self) -> Subwords | None:
        return next((one.subwords for one in self.members if one.subwords is not None), None)

    def compute_scores(self, sentences: Sequence[Sentence], graphs: Graphs) -> tuple[WordArrays, Any]:
        """Return the word vectors of the first member, and the joined candidates of all."""
        vectors: list[WordArrays] = []
        candidates: list[Candidates] = []
        for number, member in enumerate(self.members):
            prefix = f"{number}."
            own = {name.removeprefix(prefix): run for name, run in graphs.items() if name.startswith(prefix)}
            words, scores = member.compute_scores(sentences, own)
            of_member = member.decoder.candidates(scores, member.predict_settings)
            candidates.append(
                replace(
                    of_member,
                    type=self._numbers[number][of_member.type],
                    confidence=member.calibration.apply(of_member.confidence),
                )
            )
            vectors.append(words)
        return vectors[0], join_candidates(candidates)


def load_combination(folder: Path, members: Sequence[Predictor]) -> Predictor:
    """Return a predictor for the combination in a folder, given those of its members.

    Raises `DataError` if the members do not fit the combination or each other.
    """
    saved = read_saved_config(folder)
    config = saved.parse_config()
    if not isinstance(config.method, CombinationSettings) or len(config.method.members) != len(members):
        message = f"config.json is not that of a combination of {len(members)} members"
        raise DataError(message, source=str(folder))
    if any(set(member.types) != set(saved.types) for member in members):
        raise DataError("the members have other types than the combination", source=str(folder))
    calibration = saved.parse_calibration()
    return CombinedPredictor(members, config, saved.types, calibration, str(folder)).try_out(folder)
