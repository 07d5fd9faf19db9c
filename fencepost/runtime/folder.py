"""Model folders: names of their files, the content of `config.json`, and checksums.

Weights are read and written by `runtime/pytorch.py`, graphs by `runtime/onnx.py` and `runtime/export.py`.
Nothing slow is imported here, since spaCy imports this module for every pipeline.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fencepost import __version__
from fencepost.data.files import JSON_BYTES, SETTINGS_BYTES, read_json_object, read_text
from fencepost.errors import DataError, UsageError, describe_error, quote

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.evaluation import Temperature

CONFIG_FILE, CARD_FILE, SUMS_FILE = "config.json", "README.md", "SHA256SUMS"
WEIGHTS_FILE, GRAPH_FOLDER = "model.safetensors", "onnx"
FACTS_FILE = f"{GRAPH_FOLDER}/export.json"
MEMBER_FOLDER = "members"
"""Folder of a combination with the folders of its members, which are numbered from 1."""

FILES = (
    CARD_FILE,
    "encoder.json",
    "metrics.json",
    WEIGHTS_FILE,
    "special_tokens.json",
    "tokenizer.json",
    "vocabulary.json",
    "onnx/*.onnx",
    FACTS_FILE,
    SUMS_FILE,
    CONFIG_FILE,
)
"""Files of a model, in the order in which they are written: a folder with a config is a model."""

_WITHOUT_SUM = (CARD_FILE, "metrics.json", SUMS_FILE)
"""Files without a checksum: prediction does not read them, and users edit the card."""

_MAX_TYPES = 10_000

Status = Literal["ok", "changed", "missing", "not listed"]


@dataclass(frozen=True, slots=True)
class SavedConfig:
    """Content of a model's `config.json`, checked as far as all readers need it."""

    path: Path
    types: tuple[str, ...]
    config: dict[str, Any]
    """All settings."""
    calibration: dict[str, float]
    """`temperature` and `shift`; empty for a model without calibration."""

    def parse_config(self) -> Config:
        """Return the checked settings; raise `UsageError` or `DataError` if any is invalid."""
        from fencepost.config import Config

        for part in ("method", "encoder", "predict"):  # else defaults would replace the model's settings
            if not isinstance(self.config.get(part), dict):
                message = f"this is not the config of a fencepost model: {part} is missing"
                raise DataError(message, source=str(self.path))
        return Config.parse(self.config, where=str(self.path))

    def parse_calibration(self) -> Temperature:
        """Return the calibration of the model's confidences."""
        from fencepost.evaluation import Temperature

        try:
            return Temperature(**self.calibration)
        except ValueError as error:
            message = f"the model's calibration cannot be read: {describe_error(error)}"
            raise DataError(message, source=str(self.path)) from None


def format_config(config: Config, types: Sequence[str], calibration: Temperature) -> str:
    """Return the content of a model's `config.json`."""
    saved = {
        "fencepost": __version__,
        "types": types,
        "config": config.model_dump(mode="json"),
        "calibration": asdict(calibration),
    }
    return json.dumps(saved, ensure_ascii=False, indent=2) + "\n"


def read_saved_config(folder: Path) -> SavedConfig:
    """Return the content of the `config.json` of the model in this folder.

    Raises `UsageError` if there is no such file, and `DataError` if it is not that of a fencepost model.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise UsageError.no_model(folder)
    saved = read_json_object(path, limit=SETTINGS_BYTES)
    try:
        return SavedConfig(
            path=path,
            types=_check_types(saved["types"]),
            config=_check_object(saved["config"], "config"),
            calibration=_check_calibration(saved["calibration"]) if "calibration" in saved else {},
        )
    except (KeyError, ValueError) as error:
        message = f"this is not the config of a fencepost model: {describe_error(error)}"
        raise DataError(message, source=str(path)) from None


def _check_types(types: object) -> tuple[str, ...]:
    if not isinstance(types, list) or not 1 <= len(types) <= _MAX_TYPES:
        raise ValueError(f"types must be a list of 1 to {_MAX_TYPES:,} names")
    for type_ in types:
        if not isinstance(type_, str) or not type_ or re.search(r"[\ud800-\udfff]", type_):
            raise ValueError(f"a type must be text, not {quote(type_)}")
    if len(set(types)) != len(types):
        raise ValueError("types contains a name more than once")
    return tuple(types)


def _check_object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, not {quote(value)}")
    return value


def _check_calibration(calibration: object) -> dict[str, float]:
    calibration = _check_object(calibration, "calibration")
    if calibration.keys() != {"temperature", "shift"}:
        raise ValueError(f"calibration must have temperature and shift, not {quote(sorted(calibration))}")
    for key, value in calibration.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"calibration.{key} must be a number, not {quote(value)}")
    return calibration


def list_members(folder: Path) -> list[Path]:
    """Return the folders of the members of a combination, in order; of any other model, none."""
    numbered = [path for path in folder.glob(f"{MEMBER_FOLDER}/*") if re.fullmatch(r"[1-9]\d?", path.name)]
    return sorted((path for path in numbered if path.is_dir()), key=lambda path: int(path.name))


def files_of(folder: Path) -> list[str]:
    """Return the names of the files of the model in this folder, in the order of `FILES`.

    The files of the members of a combination are first.
    """
    of_members = [
        f"{MEMBER_FOLDER}/{member.name}/{name}"
        for member in list_members(folder)
        for name in _files_of_one(member)
    ]
    return of_members + _files_of_one(folder)


def _files_of_one(folder: Path) -> list[str]:
    has_graphs = (folder / FACTS_FILE).is_file()  # else no graph would be used
    names = [
        path.relative_to(folder).as_posix()
        for pattern in FILES
        if has_graphs or not pattern.startswith("onnx/")
        for path in sorted(folder.glob(pattern))
        if path.is_file()
    ]
    return [name for name in names if is_model_file(name)]


def is_model_file(name: object) -> bool:
    """Return whether a file of a model may have this name; such a name never leads out of the folder."""
    if not isinstance(name, str):
        return False
    _, name = _split_name(name)
    return (name in FILES and "*" not in name) or re.fullmatch(r"onnx/[\w.]+\.onnx", name) is not None


def _split_name(name: str) -> tuple[str, str]:
    """Return the folder of a member, or nothing, and the name of a file in it."""
    match = re.match(rf"{MEMBER_FOLDER}/[1-9]\d?/", name)
    return ("", name) if match is None else (match[0], name[match.end() :])


def compute_sums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 checksums of these files of a folder, except those that have none."""
    return {name: compute_sha256(folder / name) for name in sorted(names) if name not in _WITHOUT_SUM}


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file as hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_sums(folder: Path) -> dict[str, str] | None:
    """Return the checksums that the folder's `SHA256SUMS` lists; None if it has no such file.

    Raises `DataError` for a line that `sha256sum` would not write, or for a file that no model has.
    """
    path = folder / SUMS_FILE
    if not path.is_file():
        return None
    sums: dict[str, str] = {}
    for number, line in enumerate(read_text(path, limit=JSON_BYTES).splitlines(), start=1):
        match = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if match is None or not is_model_file(match[2]) or match[2] in sums:
            message = "this is not a SHA-256 checksum of a file of a model; see fencepost check"
            raise DataError(message, source=str(path), line=number)
        sums[match[2]] = match[1]
    return sums


def format_sums(sums: Mapping[str, str]) -> str:
    """Return the content of `SHA256SUMS`, in the format of `sha256sum --check`."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def write_sums(folder: Path, sums: Mapping[str, str]) -> None:
    """Write the folder's `SHA256SUMS`; an existing file is replaced atomically."""
    temporary = folder / f".{SUMS_FILE}.{os.getpid()}"
    temporary.write_text(format_sums(sums), encoding="utf-8")
    temporary.replace(folder / SUMS_FILE)


def compare_sums(folder: Path, sums: Mapping[str, str]) -> dict[str, Status]:
    """Compare the files of a folder with their checksums; return the status of each file.

    Missing files that are not needed have no status: weights beside graphs, and graphs without an
    `onnx/export.json`, which are never loaded.
    """
    actual = compute_sums(folder, files_of(folder))
    statuses: dict[str, Status] = {}
    for name in sorted(actual.keys() | sums.keys()):
        if name not in actual:
            member, file = _split_name(name)
            has_graphs = (folder / member / FACTS_FILE).is_file()
            if (has_graphs and file != WEIGHTS_FILE) or not (has_graphs or file.startswith("onnx/")):
                statuses[name] = "missing"
        elif name not in sums:
            statuses[name] = "not listed"
        else:
            statuses[name] = "ok" if actual[name] == sums[name] else "changed"
    return statuses


def verify_sums(folder: Path, source: str) -> None:
    """Raise `DataError` if a file does not have its listed checksum; `source` is the name of the model."""
    sums = read_sums(folder)
    statuses = {} if sums is None else compare_sums(folder, sums)
    wrong = [f"{name} ({status})" for name, status in statuses.items() if status != "ok"]
    if wrong:
        raise DataError(
            f"the SHA-256 checksums of these files in {folder} do not match: {', '.join(wrong)}. "
            "Download or copy the model again, or see fencepost check",
            source=source,
        )
