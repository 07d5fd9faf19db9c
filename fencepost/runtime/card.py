"""Model card (`README.md` in a model's folder) with the types, settings and scores of the model.

The text is in `templates/card.md`. It starts with the metadata that the Hugging Face Hub reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fencepost import __version__
from fencepost.data.files import read_json_object
from fencepost.errors import DataError, describe_error
from fencepost.runtime.folder import read_saved_config

if TYPE_CHECKING:
    from jinja2 import Template

NAME = "name-or-folder-of-this-model"
"""Placeholder for the model's name in a card, until it has a name on the hub."""

_MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Facts:
    """Content of a card; None means not measured."""

    types: Sequence[str]
    config: Mapping[str, Any]
    """All settings."""
    weights: int | None = None
    dev: Mapping[str, Any] | None = None
    """Record of the selected epoch."""
    test: Mapping[str, Any] | None = None
    """An `Evaluation`, as a dictionary."""
    calibration: Mapping[str, float | None] | None = None

    @property
    def language(self) -> str:
        return (self.config.get("text") or {}).get("language") or "en"

    @property
    def encoder(self) -> str:
        return str(self.config["encoder"]["name"])


def make_card(folder: Path) -> str:
    """Return the card of the model in this folder."""
    from jinja2 import TemplateError

    saved = read_saved_config(folder)
    metrics = folder / "metrics.json"
    result = read_json_object(metrics) if metrics.is_file() else {}
    measured = {name: result.get(name) for name in ("dev", "test", "calibration")}
    try:
        return render_card(Facts(saved.types, saved.config, **measured))
    except (AttributeError, KeyError, TypeError, ValueError, TemplateError) as error:
        message = f"config.json and metrics.json are not those of a fencepost model: {describe_error(error)}"
        raise DataError(message, source=str(folder)) from None


def render_card(facts: Facts) -> str:
    """Return the Markdown of `README.md`."""
    body = _load_template().render(
        name=NAME,
        version=__version__,
        encoder=Path(facts.encoder).name if Path(facts.encoder).is_dir() else facts.encoder,
        language=facts.language,
        **vars(facts),
    )
    return add_metadata(body, make_metadata(facts))


@cache
def _load_template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(  # noqa: S701 - Markdown, not HTML
        loader=PackageLoader("fencepost.runtime"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(code=_format_code, percent=lambda share: f"{100 * share:.1f}")
    return environment.get_template("card.md")


def _format_code(text: object) -> str:
    """Return the text as Markdown code, without backticks and line breaks, which would end the code."""
    plain = " ".join(str(text).replace("`", "'").split())
    return f"`{plain}`"


def make_metadata(facts: Facts) -> dict[str, Any]:
    """Return the metadata for the hub, except the licence and the name of the data, which are unknown."""
    metadata: dict[str, Any] = {
        "library_name": "fencepost",
        "pipeline_tag": "token-classification",
        "tags": ["named-entity-recognition", str(facts.config["method"]["name"])],
    }
    if facts.language != "en":  # "en" is the default, and need not be the language of the data
        metadata["language"] = facts.language
    base = _MINILM if facts.encoder == "minilm" else facts.encoder
    if base != "scratch" and not Path(base).is_dir() and _HUB_NAME.fullmatch(base):
        metadata["base_model"] = base
    dev_ece = (facts.calibration or {}).get("dev_ece_after")
    results = [
        *_make_results("validation", facts.dev, dev_ece, "dev_"),
        *_make_results("test", facts.test, (facts.test or {}).get("ece")),
    ]
    if results:
        metadata["model-index"] = [{"name": NAME, "results": results}]
    return metadata


def _make_results(
    split: str, scores: Mapping[str, Any] | None, ece: float | None, prefix: str = ""
) -> list[dict[str, Any]]:
    """Return the scores on one part of the data as entries of a `model-index`."""
    if scores is None:
        return []
    names = {"precision": "Precision, strict", "recall": "Recall, strict", "f1": "F1, strict"}
    metrics = [
        {"type": key, "name": name, "value": round(scores[prefix + key], 4)} for key, name in names.items()
    ]
    if ece is not None:
        metrics.append({"type": "ece", "name": "ECE", "value": round(ece, 4)})
    return [
        {
            "task": {"type": "token-classification", "name": "Named entity recognition"},
            "dataset": {"type": "unknown", "name": "Unknown", "split": split},
            "metrics": metrics,
        }
    ]


def add_metadata(text: str, more: Mapping[str, Any]) -> str:
    """Return the card with further metadata, which replace those with the same keys.

    Raises `ValueError` if the card's own metadata cannot be read.
    """
    top = _FRONT.match(text)
    body = text[top.end() :] if top else text
    try:
        if top and any(isinstance(token, yaml.AliasToken) for token in yaml.scan(top[1])):
            raise ValueError("it contains aliases; replace them with their values")
        own = (yaml.safe_load(top[1]) or {}) if top else {}
        if not isinstance(own, dict):
            raise ValueError("it must be a mapping")
        front = yaml.safe_dump({**own, **more}, sort_keys=False, allow_unicode=True, width=110)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(getattr(error, "problem", None) or describe_error(error)) from None
    return f"---\n{front}---\n" + (body if top else f"\n{body}")


def has_metadata(text: str) -> bool:
    return _FRONT.match(text) is not None
