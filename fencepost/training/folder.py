"""The folder of a training run: checks before a run starts or continues in it, and the files in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fencepost.config import Config
from fencepost.data.files import read_json
from fencepost.data.output import remove_leftovers, temporary_folder, whole_file
from fencepost.errors import UsageError

RUN_FILE, DATA_FILE, CHECKPOINTS = "run.yaml", "data.json", "checkpoints"
RESULT_FILE, CARD_FILE = "metrics.json", "README.md"


def check_folder(out: Path, *, resume: bool) -> None:
    """Raise `UsageError` if a training run cannot start in a folder, or be resumed there.

    A new run needs an empty folder or none, and `resume` an incomplete run. Leftovers of a killed process are
    removed.
    """
    run_file, complete = out / RUN_FILE, is_complete(out)
    remove_leftovers(out)
    if not resume:
        try:
            is_used = out.exists() and (not out.is_dir() or any(out.iterdir()))
        except OSError as error:
            raise UsageError(f"{out}: cannot be read: {error.strerror}") from None
        if is_used:
            resumable = run_file.is_file() and not complete
            todo = "use --resume to continue, or give another name" if resumable else "give another name"
            raise UsageError(f"{out}: already exists and is not an empty folder; {todo}")
        return
    if not run_file.is_file():
        raise UsageError(
            f"{out}: there is no training run to resume here (no {RUN_FILE}); "
            "check the name, or start a new run without --resume"
        )
    if complete:
        raise UsageError(
            f"{out}: this training run is complete and there is nothing to resume; "
            "for a new run, leave out --resume and give another folder"
        )


def is_complete(out: Path) -> bool:
    """Return whether the training in a folder is complete: it has its scores, and no checkpoints."""
    return (out / RESULT_FILE).is_file() and not (out / CHECKPOINTS).exists()


def check_run(out: Path, config: Config, data: Mapping[str, Any], *, resume: bool) -> None:
    """Raise `UsageError` if `check_folder` does, or if settings or data of a resumed training run differ."""
    check_folder(out, resume=resume)
    if not resume:
        return
    differences = describe_differences(out, config)
    if differences:
        raise UsageError(
            f"{out}: this training run has other settings; resume it with the same settings, which are in "
            f"{out / RUN_FILE} ({differences})"
        )
    if not has_data(out, data):
        saved = read_json(out / DATA_FILE) if (out / DATA_FILE).is_file() else {}
        if isinstance(saved, dict) and saved.get("start") != data.get("start"):
            raise UsageError(
                f"{out}: this training run started from another model; give the same --from, or none"
            )
        if isinstance(saved, dict) and saved.get("soft") != data.get("soft"):
            raise UsageError(
                f"{out}: this training run has other texts or another teacher; resume it with the same ones"
            )
        raise UsageError(
            f"{out}: this training run has other training or development data; resume it with the same data"
        )


def describe_differences(out: Path, config: Config) -> str:
    """Describe the differences between the settings of the training in a folder and these; may be empty."""
    saved = Config.compose(out / RUN_FILE)
    if saved == config:
        return ""
    return "; ".join(list_differences(saved.model_dump(mode="json"), config.model_dump(mode="json")))


def has_data(out: Path, data: Mapping[str, Any]) -> bool:
    """Return whether the training in a folder has data with these fingerprints, or none yet.

    Raises `DataError` if the file with the fingerprints is damaged, or missing despite a checkpoint.
    """
    if not (out / DATA_FILE).exists() and not (out / CHECKPOINTS).exists() and not is_complete(out):
        return True
    return bool(read_json(out / DATA_FILE) == data)


def list_differences(saved: Mapping[str, Any], current: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a description of each setting that differs between two trees of settings."""
    for key in sorted(saved.keys() | current.keys()):
        old, new = saved.get(key), current.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from list_differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key} is {old} there and {new} here"


def begin_run(out: Path, settings: str, data: Mapping[str, Any]) -> None:
    """Write the settings, as YAML, and fingerprints to compare a resumed run with, unless they exist."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    for name, text in ((RUN_FILE, settings), (DATA_FILE, json.dumps(data, indent=2) + "\n")):
        if not (out / name).exists():
            write_text(out / name, text)
    (out / CHECKPOINTS).mkdir(exist_ok=True)


def remove_checkpoints(out: Path) -> None:
    """Remove all checkpoints of a training run atomically, which marks it as complete."""
    if (out / CHECKPOINTS).exists():
        with temporary_folder(out) as temporary:
            (out / CHECKPOINTS).rename(temporary / CHECKPOINTS)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8"))
