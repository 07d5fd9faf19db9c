"""The model card: what a model finds, how it was made, how well it does, and what nobody has measured.

It is the `README.md` of a model's folder. The lines at its top are what the Hugging Face Hub reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fencepost import __version__
from fencepost.data.files import read_json_object
from fencepost.errors import DataError, describe_error
from fencepost.runtime.folder import read_saved_config

NAME = "name-or-folder-of-this-model"
"""Stands in a card for what the model is called, until it has a name on the hub."""

_MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PARTS = (("dev", "validation"), ("test", "test"))


@dataclass(frozen=True, slots=True)
class Facts:
    """What a card is made of: nothing that was not measured, and None where there is nothing."""

    types: Sequence[str]
    config: Mapping[str, Any]
    """All settings."""
    weights: int | None = None
    dev: Mapping[str, Any] | None = None
    """The record of the epoch that was kept."""
    test: Mapping[str, Any] | None = None
    """An `Evaluation`, as a dictionary."""
    calibration: Mapping[str, float | None] | None = None


def folder_card(folder: Path) -> str:
    """The card of the model in this folder, by what its files tell."""
    saved = read_saved_config(folder)
    metrics = folder / "metrics.json"
    result = read_json_object(metrics) if metrics.is_file() else {}
    try:
        return card(
            Facts(
                types=saved.types,
                config=saved.config,
                dev=result.get("dev"),
                test=result.get("test"),
                calibration=result.get("calibration"),
            )
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"config.json and metrics.json are not those of a fencepost model: {describe_error(error)}"
        raise DataError(message, source=str(folder)) from None


def card(facts: Facts) -> str:
    """Markdown for `README.md`."""
    parts = (_head(facts), _use(), _making(facts), _scores(facts), _confidences(facts), _limits(facts))
    body = "\n".join(line for part in parts for line in (*part, ""))
    return with_metadata(body, metadata(facts))


def metadata(facts: Facts) -> dict[str, Any]:
    """What the hub reads. A licence and the data's name are not known here, so neither is claimed."""
    found: dict[str, Any] = {
        "library_name": "fencepost",
        "pipeline_tag": "token-classification",
        "tags": ["named-entity-recognition", str(facts.config["method"]["name"])],
    }
    language = (facts.config.get("text") or {}).get("language") or "en"
    if language != "en":  # which it is too where nobody has said anything
        found["language"] = language
    base = _base_model(str(facts.config["encoder"]["name"]))
    if base is not None:
        found["base_model"] = base
    results = list(_results(facts))
    if results:
        found["model-index"] = [{"name": NAME, "results": results}]
    return found


def _base_model(encoder: str) -> str | None:
    """The encoder's name on the hub; one from a folder or from scratch has none."""
    if encoder == "minilm":
        return _MINILM
    local = encoder == "scratch" or Path(encoder).is_dir()
    return None if local or not _HUB_NAME.fullmatch(encoder) else encoder


def _results(facts: Facts) -> Iterator[dict[str, Any]]:
    """The scores as entries of a `model-index`."""
    for part, split in _PARTS:
        metrics = [
            {"type": key, "name": f"{name}, strict" if key != "ece" else name, "value": round(value, 4)}
            for key, name, value in _metrics(facts, part)
        ]
        if metrics:
            yield {
                "task": {"type": "token-classification", "name": "Named entity recognition"},
                "dataset": {"type": "unknown", "name": "Unknown", "split": split},
                "metrics": metrics,
            }


def _metrics(facts: Facts, part: str) -> Iterator[tuple[str, str, float]]:
    """Key, name and value of what was measured on a part of the data, confidences as they are now."""
    found = facts.dev if part == "dev" else facts.test
    if found is None:
        return
    prefix = "dev_" if part == "dev" else ""
    for key, name in (("precision", "Precision"), ("recall", "Recall"), ("f1", "F1")):
        yield key, name, found[prefix + key]
    ece = (facts.calibration or {}).get("dev_ece_after") if part == "dev" else found.get("ece")
    if ece is not None:
        yield "ece", "ECE", ece


def _head(facts: Facts) -> Iterator[str]:
    yield "# A named entity recogniser"
    yield ""
    yield f"Finds entities of {len(facts.types)} types: {', '.join(map(_code, facts.types))}."


def _use() -> Iterator[str]:
    yield from ("## Use", "", "```python", "from fencepost import Recogniser", "")
    yield f'ner = Recogniser.from_pretrained("{NAME}")'
    yield 'for entity in ner("A text."):'
    yield "    print(entity.text, entity.type, entity.start, entity.end, entity.score)"
    yield from ("```", "")
    yield "Needed: `pip install 'fencepost[hub,train]'`, or without `train` if it has graphs (folder `onnx`)."
    yield 'On the command line, after `ner.save_pretrained("my-model")`:'
    yield from ("", "```sh", 'fencepost predict my-model "A text."', "```")


def _making(facts: Facts) -> Iterator[str]:
    config = facts.config
    training = config["training"]
    encoder = str(config["encoder"]["name"])
    size = f"; {facts.weights / 1e6:.1f} M weights in all" if facts.weights is not None else ""
    yield from ("## How it was made", "")
    yield f"- method: {_code(config['method']['name'])}"
    yield f"- encoder: {_code(Path(encoder).name if Path(encoder).is_dir() else encoder)}{size}"
    yield f"- selection: {_code(config['predict']['select'])}"
    slower = (
        f" ({training['encoder_learning_rate']:g} for pretrained weights)" if encoder != "scratch" else ""
    )
    yield (
        f"- training: up to {training['epochs']} epochs, batches of {training['batch_size']}, learning rate "
        f"{training['learning_rate']:g}{slower}, seed {training['seed']}"
    )
    yield f"- made with fencepost {__version__}; all settings are in `config.json`"


def _scores(facts: Facts) -> Iterator[str]:
    yield from ("## Scores", "")
    if facts.dev is None and facts.test is None:
        yield "It has not been scored: there was neither development nor test data."
        return
    yield "Strict scores (start, end and type must all be right), in percent:"
    yield from ("", "| data | precision | recall | F1 |", "|---|---|---|---|")
    if facts.dev is not None:
        yield _row(f"development, epoch {facts.dev['epoch']:.0f}", facts.dev, "dev_")
    if facts.test is not None:
        yield _row("test", facts.test)
    by_type = facts.test.get("by_type") if facts.test is not None else None
    if facts.test is not None and by_type:
        yield from ("", f"On the {facts.test['sentences']:,} sentences of the test data, by type:")
        yield from ("", "| type | precision | recall | F1 | entities |", "|---|---|---|---|---|")
        for type_, score in by_type.items():
            name = _code(type_).replace("|", "\\|")
            yield f"{_row(name, score)} {score['support']:,} |"


def _row(name: str, score: Mapping[str, Any], prefix: str = "") -> str:
    cells = (f"{100 * score[prefix + key]:.1f}" for key in ("precision", "recall", "f1"))
    return f"| {name} | {' | '.join(cells)} |"


def _confidences(facts: Facts) -> Iterator[str]:
    """How they were calibrated, and what it changed where something was predicted."""
    calibration = facts.calibration
    yield from ("## Confidences", "")
    if calibration is None:
        yield "They are the network's own, and nobody has mended them: 0.8 need not mean four in five."
        return
    yield (
        f"Confidences are calibrated on the development data: temperature {calibration['temperature']:.2f}, "
        f"shift {calibration['shift']:z.2f}."
    )
    for part, name in (("dev", "development"), ("test", "test")):
        before, after = calibration.get(f"{part}_ece_before"), calibration.get(f"{part}_ece_after")
        if before is not None and after is not None:
            yield (
                f"On the {name} data that takes their expected calibration error from {before:.3f} "
                f"to {after:.3f}."
            )


def _limits(facts: Facts) -> Iterator[str]:
    yield from ("## Limits", "")
    if facts.test is None and facts.dev is not None:
        yield (
            "- Without test data, the scores are those of the development data, by which the epoch was "
            "chosen: they may flatter it."
        )
    elif facts.test is None:
        yield "- Without test or development data, nothing is known of how well it does."
    yield "- Nothing has been measured on other kinds of text than that of its data."
    if facts.config["predict"]["select"] == "flat":
        yield "- It finds no entity inside another."
    language = (facts.config.get("text") or {}).get("language") or "en"
    yield f"- Raw text is split into sentences and words by the rules for {_code(language)}."


def _code(text: object) -> str:
    """As code; what would end it is left out."""
    plain = " ".join(str(text).replace("`", "'").split())
    return f"`{plain}`"


def with_metadata(text: str, more: Mapping[str, Any]) -> str:
    """A card whose top says this too; what it says there already stays, unless it is said anew.

    A `ValueError` is a top that cannot be read.
    """
    top = _FRONT.match(text)
    body = text[top.end() :] if top else text
    try:
        if top and any(isinstance(token, yaml.AliasToken) for token in yaml.scan(top[1])):
            raise ValueError("it has aliases; write their values out")
        said = (yaml.safe_load(top[1]) or {}) if top else {}
        if not isinstance(said, dict):
            raise ValueError("it has no keys")
        front = yaml.safe_dump({**said, **more}, sort_keys=False, allow_unicode=True, width=110)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(getattr(error, "problem", None) or describe_error(error)) from None
    return f"---\n{front}---\n" + (body if top else f"\n{body}")


def has_metadata(text: str) -> bool:
    return _FRONT.match(text) is not None
