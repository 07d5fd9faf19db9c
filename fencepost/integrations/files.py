"""The files of a model, for those who carry it elsewhere. Nothing heavy is imported here."""

from __future__ import annotations

import re
from pathlib import Path

CONFIG_FILE, CARD_FILE = "config.json", "README.md"
FACTS_FILE = "onnx/export.json"
FILES = (
    CARD_FILE,
    "encoder.json",
    "metrics.json",
    "model.safetensors",
    "special_tokens.json",
    "tokenizer.json",
    "vocabulary.json",
    "onnx/*.onnx",
    FACTS_FILE,
    CONFIG_FILE,
)
"""What a model consists of; the config comes last, since it is what makes a folder a model."""


def files_of(folder: Path) -> list[str]:
    """The names of the files of the model in this folder, in the order of `FILES`."""
    graphs = (folder / FACTS_FILE).is_file()  # else there are none that would be used
    names = [
        path.relative_to(folder).as_posix()
        for pattern in FILES
        if graphs or not pattern.startswith("onnx/")
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    ]
    return [name for name in names if is_model_file(name)]


def is_model_file(name: object) -> bool:
    """Whether a file of a model may be called so; none of these names leads out of its folder."""
    return isinstance(name, str) and (
        (name in FILES and "*" not in name) or re.fullmatch(r"onnx/[\w.]+\.onnx", name) is not None
    )
