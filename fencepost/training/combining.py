"""Combination of trained models into one: `combine` writes its folder, and fits it to development data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fencepost.config import Config
from fencepost.data.entity import Sentence
from fencepost.data.output import raise_write_errors, temporary_folder
from fencepost.errors import UsageError
from fencepost.evaluation import Evaluation, Temperature, evaluate, fit_threshold, match
from fencepost.methods.candidates import BoolArray, FloatArray
from fencepost.methods.combination.decode import CombinationDecoder, JoinedCandidates
from fencepost.methods.combination.settings import FLOOR, MOST_MEMBERS, CombinationSettings
from fencepost.methods.decoder import GoldArrays, Graphs, WordArrays
from fencepost.runtime.card import make_card
from fencepost.runtime.combination import CombinedPredictor
from fencepost.runtime.engine import DeviceName, EngineName, Predictor
from fencepost.runtime.folder import (
    CARD_FILE,
    CONFIG_FILE,
    MEMBER_FOLDER,
    SUMS_FILE,
    compute_sums,
    files_of,
    format_config,
    format_sums,
    list_members,
    read_saved_config,
    verify_sums,
)
from fencepost.runtime.loading import load, load_engine
from fencepost.runtime.recogniser import Recogniser
from fencepost.training.folder import RESULT_FILE
from fencepost.training.scoring import compute_errors

_DEVIATION = 1.0
"""Standard deviation of the weights in their prior, whose mean are equal weights."""


@dataclass(frozen=True)
class Combined:
    """Result of `combine`: scores on the development data, of the combination and of each member."""

    settings: CombinationSettings
    dev: Evaluation | None = None
    members: Sequence[Evaluation] = ()
    calibration: dict[str, float | None] | None = None
    threshold: float | None = None


def combine(
    folders: Sequence[Path],
    out: str | Path,
    dev: Sequence[Sentence] | None = None,
    *,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
) -> Combined:
    """Combine trained models into one, in the new folder `out`, which has copies of their files.

    With development data, the weights of the members, the threshold and the calibration are fitted to it;
    it should not be data that the members were trained on. Without, the members have equal weights and the
    threshold is the default one.

    Raises `UsageError` for models that cannot be combined, and for a folder that is not empty.
    """
    out = Path(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: already exists and is not an empty folder; give another name")
    configs, types = _read_members(folders)
    first = configs[0]
    names = _name_members([config.method.name for config in configs])
    settings = CombinationSettings.from_members(names)
    config = Config.parse(
        {
            "method": settings.model_dump(mode="json"),
            "encoder": first.encoder.model_dump(mode="json"),
            "predict": {"select": _choose_select(configs), "trim": first.predict.trim},
            "text": first.text.model_dump(mode="json"),
        }
    )
    out.mkdir(parents=True, exist_ok=True)
    with raise_write_errors(out), temporary_folder(out) as temporary:
        for number, folder in enumerate(folders, start=1):
            for name in files_of(folder):
                target = temporary / MEMBER_FOLDER / str(number) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(folder / name, target)
        result, calibration = Combined(settings), Temperature()
        _write_config(temporary, config, types, calibration)
        if dev is not None:
            result, config, calibration = _fit(temporary, config, dev, engine, device)
            _write_config(temporary, config, types, calibration)
        (temporary / RESULT_FILE).write_text(json.dumps(_describe(result), indent=2) + "\n", encoding="utf-8")
        (temporary / CARD_FILE).write_text(make_card(temporary), encoding="utf-8")
        sums = compute_sums(temporary, files_of(temporary))
        (temporary / SUMS_FILE).write_text(format_sums(sums), encoding="utf-8")
        for name in (MEMBER_FOLDER, RESULT_FILE, CARD_FILE, SUMS_FILE, CONFIG_FILE):  # the config is last
            (temporary / name).replace(out / name)
    return result


def _read_members(folders: Sequence[Path]) -> tuple[list[Config], tuple[str, ...]]:
    """Return the configs of the members and their types; raise `UsageError` if they cannot be combined."""
    if not 2 <= len(folders) <= MOST_MEMBERS:
        raise UsageError(f"give 2 to {MOST_MEMBERS} models to combine, not {len(folders)}")
    saved = [read_saved_config(folder) for folder in folders]
    configs = [one.parse_config() for one in saved]
    types = saved[0].types
    for folder, one, config in zip(folders, saved, configs, strict=True):
        verify_sums(folder, str(folder))
        if list_members(folder):
            raise UsageError(f"{folder}: this is a combination already; give its members instead")
        if different := set(one.types) ^ set(types):
            raise UsageError(
                f"{folder} and {folders[0]} have different types, which cannot be combined; only one of them "
                f"has {', '.join(sorted(different))}"
            )
        for key, value, other in (
            ("text.language", config.text.language or "en", configs[0].text.language or "en"),
            ("encoder.context", config.encoder.context, configs[0].encoder.context),
        ):
            if value != other:
                raise UsageError(
                    f"{folder} and {folders[0]} cannot be combined: {key} is {value} in the first and "
                    f"{other} in the second"
                )
    return configs, types


def _name_members(methods: Sequence[str]) -> list[str]:
    """Return the names of the members: their methods, numbered where there are several of one."""
    return [
        method if methods.count(method) == 1 else f"{method} {methods[: index + 1].count(method)}"
        for index, method in enumerate(methods)
    ]


def _choose_select(configs: Sequence[Config]) -> str:
    """Return how candidates that clash are selected: `flat` if all members do so."""
    return "flat" if all(config.predict.select == "flat" for config in configs) else "nested"


def _write_config(folder: Path, config: Config, types: Sequence[str], calibration: Temperature) -> None:
    (folder / CONFIG_FILE).write_text(format_config(config, types, calibration), encoding="utf-8")


class _CachingPredictor(CombinedPredictor):
    """Predictor that computes the scores of each batch once, whatever the settings of prediction."""

    def __init__(self, predictor: Predictor) -> None:
        vars(self).update(vars(predictor))
        self._cache: dict[Any, tuple[WordArrays, Any]] = {}

    def compute_scores(self, sentences: Sequence[Sentence], graphs: Graphs) -> tuple[WordArrays, Any]:
        key = tuple((sentence.words, sentence.left, sentence.right) for sentence in sentences)
        if key not in self._cache:
            words, scores = super().compute_scores(sentences, graphs)
            nothing = WordArrays(words.vectors[:, :, :0], words.lengths)  # vectors would need much memory
            self._cache[key] = nothing, scores
        return self._cache[key]


def _fit(
    folder: Path, config: Config, dev: Sequence[Sentence], engine: EngineName, device: DeviceName
) -> tuple[Combined, Config, Temperature]:
    """Fit weights, threshold and calibration of the combination in a folder to development data."""
    predictor = _CachingPredictor(load_engine(folder, engine, device=device))
    types = predictor.types
    if not any(entity.type in types for sentence in dev for entity in sentence.entities):
        raise UsageError(f"the development data has no entities of the models' types ({', '.join(types)})")
    collected: list[tuple[JoinedCandidates, BoolArray]] = []

    def watch(sentences: Sequence[Sentence], words: WordArrays, scores: JoinedCandidates) -> None:
        gold = GoldArrays.from_sentences(sentences, types)
        collected.append((scores, scores.find_entities(gold, words.vectors.shape[1])))

    list(Recogniser(predictor).predict(dev, watch))
    assert isinstance(config.method, CombinationSettings)  # noqa: S101 - made by `combine`
    settings = fit_weights(
        config.method,
        np.concatenate([scores.probability for scores, _ in collected]),
        np.concatenate([correct for _, correct in collected]),
    )
    predictor.decoder = CombinationDecoder(settings, types)
    recogniser = Recogniser(predictor)
    threshold = fit_threshold(match(dev, list(recogniser.with_options(threshold=FLOOR).predict(dev))))
    predict = config.predict
    if threshold is not None:
        predict = predict.with_changes({"threshold": dict.fromkeys(types, threshold)})
    predicted = list(recogniser.with_options(threshold=predict.threshold).predict(dev))
    entities = match(dev, predicted).predicted
    calibration = Temperature.fit(entities.score, entities.matched)
    errors = asdict(calibration) | compute_errors("dev", entities, calibration)
    members = [
        evaluate(dev, list(load(member, engine=engine, device=device).predict(dev)))
        for member in list_members(folder)
    ]
    result = Combined(settings, evaluate(dev, predicted), members, errors, threshold)
    return result, config.model_copy(update={"method": settings, "predict": predict}), calibration


def fit_weights(
    settings: CombinationSettings, probability: FloatArray, correct: BoolArray
) -> CombinationSettings:
    """Return the weights with the lowest log loss for candidates `[N, M]`, given which are correct.

    A normal prior around the given weights, which counts as much as a few candidates, keeps them finite.
    """
    from scipy.optimize import minimize

    empty = np.zeros((len(probability), 0), dtype=np.int64)
    candidates = JoinedCandidates(empty, empty, empty, probability)
    proposed = ~np.isnan(probability)
    features = np.concatenate((candidates.compute_logits(), proposed, np.ones((len(proposed), 1))), axis=1)
    start = np.array([*settings.slopes, *settings.offsets, settings.bias])

    def compute_cost(weights: FloatArray) -> tuple[float, FloatArray]:
        value, distance = features @ weights, (weights - start) / _DEVIATION**2
        loss = np.logaddexp(0, np.where(correct, -value, value)).sum()
        gradient = features.T @ (1 / (1 + np.exp(-value)) - correct) + distance
        return float(loss + (distance * (weights - start)).sum() / 2), gradient

    weights = minimize(compute_cost, start, jac=True, method="L-BFGS-B").x.tolist()
    count = len(settings.members)
    return settings.model_copy(
        update={
            "slopes": tuple(weights[:count]),
            "offsets": tuple(weights[count : 2 * count]),
            "bias": weights[-1],
        }
    )


def _describe(result: Combined) -> dict[str, Any]:
    """Return the content of `metrics.json`."""
    overall = None if result.dev is None else result.dev.overall
    dev = (
        None
        if overall is None
        else {f"dev_{key}": getattr(overall, key) for key in ("precision", "recall", "f1")}
    )
    members = {
        name: one.to_dict()["f1"] for name, one in zip(result.settings.members, result.members, strict=False)
    }
    return {"dev": dev, "members": members, "calibration": result.calibration, "test": None}
