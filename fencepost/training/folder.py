"""The folder of a training run: whether a run may start or continue in it, and what identifies the run."""

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
    """Refuse a folder for a new run that is not empty, and one to resume that has no incomplete run.

    What a killed process has left in it is removed.
    """
    run_file, complete = out / RUN_FILE, is_complete(out)
    remove_leftovers(out)
    if not resume:
        try:
            taken = out.exists() and (not out.is_dir() or any(out.iterdir()))
        except OSError as error:
            raise UsageError(f"{out}: cannot be read: {error.strerror}") from None
        if taken:
            resumable = run_file.is_file() and not complete
            todo = "continue with --resume, or give another name" if resumable else "give another name"
            raise UsageError(f"{out}: is there already and not an empty folder; {todo}")
        return
    if not run_file.is_file():
        raise UsageError(
            f"{out}: there is no training run to resume here (no {RUN_FILE}); "
            "check the name, or start one without --resume"
        )
    if complete:
        raise UsageError(
            f"{out}: this training run is complete and there is nothing to resume; "
            "for another one leave out --resume and give another folder"
        )


def is_complete(out: Path) -> bool:
    """Return whether the run in this folder has its scores, and nothing to be resumed."""
    return (out / RESULT_FILE).is_file() and not (out / CHECKPOINTS).exists()


def check_run(out: Path, config: Config, data: Mapping[str, Any], *, resume: bool) -> None:
    """Check the folder, and that a run to be resumed there has the same settings and data."""
    check_folder(out, resume=resume)
    if not resume:
        return
    changed = other_settings(out, config)
    if changed:
        raise UsageError(
            f"{out}: the run there has other settings; resume it with the same, which are in "
            f"{out / RUN_FILE} ({changed})"
        )
    if not has_data(out, data):
        there = read_json(out / DATA_FILE) if (out / DATA_FILE).is_file() else {}
        if isinstance(there, dict) and there.get("start") != data.get("start"):
            raise UsageError(f"{out}: the run there starts from another model; give the same --from, or none")
        raise UsageError(
            f"{out}: the run there has other training or development data; resume it with the same"
        )


def other_settings(out: Path, config: Config) -> str:
    """Describe in which settings the run in this folder differs from these; empty if they are the same."""
    there = Config.compose(out / RUN_FILE)
    if there == config:
        return ""
    return "; ".join(_differences(there.model_dump(mode="json"), config.model_dump(mode="json")))


def has_data(out: Path, data: Mapping[str, Any]) -> bool:
    """Return whether the run in this folder has data with these fingerprints, or none yet.

    Raises `DataError` if the file that says so is damaged, or missing in a run that has a checkpoint.
    """
    if not (out / DATA_FILE).exists() and not (out / CHECKPOINTS).exists() and not is_complete(out):
        return True
    return bool(read_json(out / DATA_FILE) == data)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key in sorted(there.keys() | here.keys()):
        old, new = there.get(key), here.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield f"{prefix}{key} is {old} there and {new} here"


def begin_run(out: Path, config: Config, data: Mapping[str, Any]) -> None:
    """Write what a resumed run is compared with, of which a killed process may have left the first file."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    for name, text in ((RUN_FILE, config.to_yaml()), (DATA_FILE, json.dumps(data, indent=2) + "\n")):
        if not (out / name).exists():
            write_text(out / name, text)
    (out / CHECKPOINTS).mkdir(exist_ok=True)


def remove_checkpoints(out: Path) -> None:
    """Remove the checkpoints of a run, at once: a run without them, and with its scores, is complete."""
    if (out / CHECKPOINTS).exists():
        with temporary_folder(out) as temporary:
            (out / CHECKPOINTS).rename(temporary / CHECKPOINTS)


def write_text(path: Path, text: str) -> None:
    """Write a file that is complete or absent."""
    with whole_file(path) as stream:
        stream.write(text.encode("utf-8"))
