"""`fencepost.load`: make a recogniser from a model folder, on the fastest engine that it has."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from fencepost.data.text.lines import Lines
from fencepost.errors import DataError, UsageError, check_path, quote, require_extra
from fencepost.runtime.combination import load_combination
from fencepost.runtime.engine import DeviceName, EngineName, Predictor
from fencepost.runtime.folder import CONFIG_FILE, compute_sums, files_of, format_sums, list_members
from fencepost.runtime.onnx import Precision, find_trusted_precision, load_predictor
from fencepost.runtime.recogniser import MinConfidence, Recogniser

SHIPPED = Path(__file__).parents[1] / "models" / "names"
"""Default model, which comes with the package."""

_PACKAGES = "fencepost.models"
"""Entry points of installed packages with models: name of the model, and module whose folder has it."""

_OTHERS = {"mentions": "fencepost-models"}
"""Packages of our models that are installed separately."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def load(
    path: str | Path | None = None,
    *,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
    min_confidence: MinConfidence = 0.0,
    types: Collection[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int | None = None,
    language: str | None = None,
    lines: Lines | None = None,
) -> Recogniser:
    """Return a recogniser: a model that finds entities in texts.

    Args:
        path: Folder of the model, or its name: `names` (the default, which ships with Fencepost), that of an
            installed package (`mentions` in fencepost-models), or one on the Hugging Face Hub
            (`owner/name`), from where it is downloaded. A folder of the same name takes precedence.
        engine: What runs the model: `int8` or `onnx` (graphs made by `fencepost export`, without PyTorch), or
            `pytorch`. `auto` is the first of these that is available; `int8` only if its export was checked.
        device: Device of PyTorch: `cuda` and `mps` choose the engine `pytorch`; `auto` is an accelerator if
            there is one.
        min_confidence: Minimum confidence of returned entities: one number, or one by type, as
            `{"person": 0.7}`, which is 0 for types that are not given. The model's own threshold, the setting
            `predict.threshold`, applies as well.
        types: Entity types to return, by default all of the model.
        settings: Settings of prediction of the model's method, as `{"select": "flat"}`.
        threads: Number of threads of the graphs; PyTorch has a setting of its own.
        language: Language whose rules split texts into sentences and words, by default that of the model.
        lines: Line breaks at which a sentence ends: `auto`, `break` (all) or `join` (blank lines only), by
            default as the model was trained.

    Raises:
        UsageError: There is no model in the folder, or an option is wrong.
        DataError: A file of the model is damaged.
    """
    if path is not None:
        check_path(path, "the folder of a model")
    if path is not None and _is_on_hub(path):
        options: dict[str, Any] = {"engine": engine, "device": device, "types": types}
        options |= {
            "min_confidence": min_confidence,
            "settings": settings,
            "threads": threads,
            "language": language,
            "lines": lines,
        }
        return Recogniser.from_pretrained(path, **options)
    folder = find_model(path)
    predictor = load_engine(folder, engine, device=device, threads=threads)
    if settings:
        predictor = predictor.with_options(dict(settings))
    recogniser = Recogniser(
        predictor, min_confidence=min_confidence, types=types, language=language, lines=lines
    )
    recogniser.folder = folder.resolve()
    return recogniser


def find_model(path: str | Path | None = None) -> Path:
    """Return the folder of a model: that of an installed model by its name, or else the path itself.

    Raises `UsageError` for one of our models whose package is not installed.
    """
    name = str(path)
    if path is None or (name == SHIPPED.name and not Path(name).exists()):
        return SHIPPED
    if re.fullmatch(r"[\w.-]+", name) and not Path(name).exists():
        for point in entry_points(group=_PACKAGES, name=name):
            spec = find_spec(point.value)
            if spec is not None and spec.origin is not None:
                return Path(spec.origin).parent / name
        if name in _OTHERS:
            raise UsageError(
                f"the model {name} is in a package of its own: pip install {_OTHERS[name]}, or in a checkout "
                f"pip install ./{_OTHERS[name]}"
            )
    return Path(path)


def suggest_model(path: str | Path) -> str:
    """Return the end of a message that there is no such folder: how to get a model."""
    if _is_on_hub(str(path)):
        return (
            f"; save a model of the hub in a folder first: fencepost.load('{path}').save_pretrained(FOLDER)"
        )
    names = sorted({SHIPPED.name, *(point.name for point in entry_points(group=_PACKAGES))})
    return f"; give a model folder, or an installed model: {', '.join(names)}"


def _is_on_hub(path: str | Path) -> bool:
    """Return whether a string is a name on the hub rather than a path: no folder has its first part."""
    return isinstance(path, str) and bool(_HUB_NAME.fullmatch(path)) and not Path(path).parent.exists()


def load_engine(
    folder: Path,
    engine: EngineName = "auto",
    *,
    device: DeviceName = "auto",
    threads: int | None = None,
) -> Predictor:
    """Return a predictor for the model in a folder; see `load`."""
    if not (folder / CONFIG_FILE).is_file():
        raise UsageError.no_model(folder, "" if folder.exists() else suggest_model(folder))
    if threads is not None and not (isinstance(threads, int) and threads >= 1):
        raise UsageError(f"threads: should be at least 1, or None for one per core, not {quote(threads)}")
    if engine not in ("auto", "int8", "onnx", "pytorch"):
        raise UsageError.unknown("engine", engine, ("auto", "int8", "onnx", "pytorch"))
    if device not in get_args(DeviceName):
        raise UsageError.unknown("device", device, get_args(DeviceName))
    if members := list_members(folder):
        if any(list_members(member) for member in members):
            raise DataError("a member of a combination cannot be one itself", source=str(folder))
        return load_combination(
            folder, [load_engine(member, engine, device=device, threads=threads) for member in members]
        )
    on_accelerator = device not in ("auto", "cpu")
    if engine in ("int8", "onnx") and on_accelerator:
        raise UsageError(f"device: the engine {engine} runs on the CPU; use the engine pytorch for {device}")
    precision: Precision | None = {"int8": "int8", "onnx": "float32"}.get(engine)  # type: ignore[assignment]
    if engine == "auto" and not on_accelerator:
        precision = find_trusted_precision(folder)
    if precision is not None:
        return load_predictor(folder, precision, threads=threads)
    with require_extra("train", f"{folder}: without graphs (fencepost export) the model"):
        from fencepost.runtime import pytorch
    return pytorch.load_predictor(folder, device)


def describe_model(recogniser: Recogniser) -> dict[str, Any]:
    """Return what determines the predictions of a model, for files that record how they were made."""
    folder = recogniser.folder or SHIPPED
    sums = format_sums(compute_sums(folder, files_of(folder)))
    return {
        "name": folder.name,
        "engine": recogniser.engine,
        "language": recogniser.language,
        "lines": recogniser.lines,
        "settings": recogniser.settings,
        "sha256": hashlib.sha256(sums.encode()).hexdigest(),
    }
