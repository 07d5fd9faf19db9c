"""`fencepost.load`: a recogniser from a folder, on the fastest engine that it has."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fencepost.data.text.lines import Lines
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.engine import DeviceName, EngineName, Predictor
from fencepost.runtime.folder import CONFIG_FILE, compute_sums, files_of, format_sums
from fencepost.runtime.onnx import Precision, load_predictor, trusted_precision
from fencepost.runtime.recogniser import Recogniser

SHIPPED = Path(__file__).parents[1] / "models" / "english"
"""The model that comes with the package."""


def load(
    path: str | Path | None = None,
    *,
    engine: EngineName = "auto",
    device: DeviceName = "auto",
    min_confidence: float = 0.0,
    types: Collection[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    threads: int | None = None,
    language: str | None = None,
    lines: Lines | None = None,
) -> Recogniser:
    """Return the model in a folder, or the English one that ships with the package, ready for texts.

    `engine` is what runs: `int8` or `onnx` (graphs made by `fencepost export`; no PyTorch needed) or
    `pytorch`; `auto` is the first of these that there is, `int8` only if the export was checked. `device` is
    for PyTorch: `cuda` or `mps` choose the engine `pytorch`, and `auto` is an accelerator if there is one.
    `min_confidence` and `types` filter what is found, and `settings` changes how it is found: those under
    `predict` of the model's method, as `{"select": "flat"}`. `threads` is for graphs; PyTorch has its own.
    Texts are split into sentences and words by spaCy's rules for `language`, by default the model's own.
    `lines` says at which line breaks a sentence ends: `auto`, `break` (all) or `join` (blank lines alone).
    """
    folder = SHIPPED if path is None else Path(path)
    predictor = load_engine(folder, engine, device=device, threads=threads)
    if settings:
        predictor = predictor.with_options(dict(settings))
    recogniser = Recogniser(
        predictor, min_confidence=min_confidence, types=types, language=language, lines=lines
    )
    recogniser.folder = folder.resolve()
    return recogniser


def load_engine(
    folder: Path,
    engine: EngineName = "auto",
    *,
    device: DeviceName = "auto",
    threads: int | None = None,
) -> Predictor:
    """Return a predictor for the model in a folder; see `load`."""
    if not (folder / CONFIG_FILE).is_file():
        hub = "; Recogniser.from_pretrained fetches one from the hub" if not folder.exists() else ""
        raise UsageError(f"{folder}: there is no model here (a model is a folder with a {CONFIG_FILE}){hub}")
    if engine not in ("auto", "int8", "onnx", "pytorch"):
        raise UsageError.unknown("engine", engine, ("auto", "int8", "onnx", "pytorch"))
    on_accelerator = device not in ("auto", "cpu")
    if engine in ("int8", "onnx") and on_accelerator:
        raise UsageError(f"device: the engine {engine} runs on the CPU; use the engine pytorch for {device}")
    precision: Precision | None = {"int8": "int8", "onnx": "float32"}.get(engine)  # type: ignore[assignment]
    if engine == "auto" and not on_accelerator:
        precision = trusted_precision(folder)
    if precision is not None:
        return load_predictor(folder, precision, threads=threads)
    with require_extra("train", f"{folder}: without graphs (fencepost export) the model"):
        from fencepost.runtime import pytorch
    return pytorch.load_predictor(folder, device)


def describe_model(recogniser: Recogniser) -> dict[str, Any]:
    """Return what of a model determines its predictions, for files that say what they were made with."""
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
