"""`fencepost check`: check that the files of a model are unchanged and that it works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fencepost.cli.frame import Json, Quiet, check_json_target, command, output_result, say
from fencepost.cli.groups import argument, option
from fencepost.errors import FencepostError
from fencepost.runtime.folder import (
    SUMS_FILE,
    WEIGHTS_FILE,
    compare_sums,
    compute_sums,
    files_of,
    list_members,
    read_saved_config,
    read_sums,
    write_sums,
)

if TYPE_CHECKING:
    from fencepost.runtime.engine import EngineName


@command("check")
def check(
    model: Path | None = argument(
        "[MODEL]", "Folder or name of a model. Default: the shipped model, names.", None
    ),
    write: bool = option(False, f"Write a new {SUMS_FILE} for the current files, if the model works."),
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compare the files of a model with their checksums, and run the model on each of its engines.

    The checksums are in the file SHA256SUMS of the model folder, which `sha256sum --check` reads too. They
    show that a file was damaged or replaced by mistake; they do not protect against deliberate changes.

    Example: fencepost check my-model
    """
    from fencepost.runtime.loading import find_model

    check_json_target(json)
    folder = find_model(model)
    read_saved_config(folder)
    sums = compute_sums(folder, files_of(folder)) if write else read_sums(folder)
    files = {} if sums is None else compare_sums(folder, sums)
    intact = all(status == "ok" for status in files.values())
    engines = _run_engines(folder) if intact else {}
    works = intact and all(error is None for error in engines.values())
    if write and works and sums is not None:
        write_sums(folder, sums)

    def show() -> None:
        for name, status in files.items():
            typer.echo(f"{name}: {status}")
        for name, error in engines.items():
            typer.echo(f"engine {name}: {'works' if error is None else error}")

    result: dict[str, Any] = {"model": str(folder), "ok": works, "checksums": sums is not None}
    output_result({**result, "files": files, "engines": engines}, json, show)
    if sums is None:
        say(f"{folder}: has no checksums; use --write to compute them for the current files", quiet=quiet)
    if not works:
        reason = "the model does not work" if intact else "files have changed, so none was loaded"
        raise FencepostError(f"{folder}: {reason}")


def _run_engines(folder: Path) -> dict[str, str | None]:
    """Predict a text with each engine that the model has; return the error of each, or None."""
    from importlib.util import find_spec

    from fencepost.runtime.loading import load
    from fencepost.runtime.onnx import list_precisions

    names: list[EngineName] = ["onnx" if one == "float32" else one for one in list_precisions(folder)]
    parts = list_members(folder) or [folder]
    if all((part / WEIGHTS_FILE).is_file() for part in parts) and find_spec("torch") is not None:
        names.append("pytorch")
    if not names:
        return {"none": "nothing to load: no exported graphs, and no weights or no PyTorch to load them"}
    errors: dict[str, str | None] = {}
    for name in names:
        try:
            load(folder, engine=name)("Ada Lovelace met Charles Babbage in London.")
            errors[name] = None
        except FencepostError as error:
            errors[name] = str(error)
    return errors
