"""What the commands that use a model share: its options, and loading it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fencepost.errors import FencepostError, UsageError
from fencepost.runtime.folder import WEIGHTS_FILE, read_saved_config

if TYPE_CHECKING:
    from fencepost.methods.model import Model
    from fencepost.runtime.recogniser import Recogniser

EngineName = Literal["auto", "int8", "onnx", "pytorch"]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of prediction, as predict.select=flat; repeatable.",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="How many threads compute; unless set, one a core.")
]


@contextmanager
def training_installed() -> Iterator[None]:
    """Around the first import of what needs PyTorch: its absence is told in words."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "fencepost":
            raise
        raise UsageError(
            f"this needs {error.name}, which is not installed: pip install 'fencepost[train]'"
        ) from None


def load_model(folder: str, changes: Sequence[str] | None, threads: int | None = None) -> Model:
    """A model in PyTorch."""
    with training_installed():
        from fencepost.methods.model import Model
    model = Model.load(folder, changes or ())
    if threads is not None:
        _use_threads(threads)
    return model


def load_recogniser(
    folder: Path,
    engine: EngineName,
    changes: Sequence[str] | None,
    threads: int | None = None,
    language: str | None = None,
) -> Recogniser:
    """A model on any engine; without PyTorch where it was exported."""
    from fencepost.runtime.loading import load

    settings = settings_of(folder, changes)
    recogniser = load(folder, engine=engine, threads=threads, settings=settings, language=language)
    if threads is not None and recogniser.engine == "pytorch":
        _use_threads(threads)
    return recogniser


def settings_of(folder: Path, changes: Sequence[str] | None) -> dict[str, Any]:
    """The settings of prediction that these changes set, checked against those of the model."""
    return _changed(changes or (), _settings(folder))


def saved_config(folder: Path) -> dict[str, Any]:
    """Return the settings of the model in this folder as they are saved, or none if they cannot be read."""
    try:
        return read_saved_config(folder).config
    except FencepostError:
        return {}


def common_language(models: Iterable[str | Path]) -> str | None:
    """Return the language of these models; None where they differ or none says its language."""
    texts = [saved_config(Path(model)).get("text") for model in models]
    languages = [text.get("language") for text in texts if isinstance(text, dict)]
    first = languages[0] if languages else None
    return first if isinstance(first, str) and all(one == first for one in languages) else None


def _settings(folder: Path) -> dict[str, Any]:
    settings = saved_config(folder).get("predict")
    return settings if isinstance(settings, dict) else {}


def wants_pytorch(folder: Path, engine: EngineName) -> bool:
    """Whether PyTorch is what a command shall run that can do more with it."""
    if engine != "auto":
        return engine == "pytorch"
    from fencepost.runtime.exported import exported_precisions

    weights = (folder / WEIGHTS_FILE).is_file()
    return find_spec("torch") is not None and (weights or not exported_precisions(folder))


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _use_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)


def _changed(changes: Sequence[str], before: dict[str, Any]) -> dict[str, Any]:
    """The settings of prediction that `predict.key=value` changes set; no others can change."""
    from fencepost.settings import Tree, change_of, merged

    tree: Tree = {}
    for change in changes:
        if not change.startswith("predict."):
            raise UsageError(
                f"--set {change}: the model is trained; only predict.* can change now, "
                f"that is {', '.join(f'predict.{key}' for key in before)}"
            )
        tree = merged(tree, change_of(change)["predict"])
    if tree.get("select") == "auto" != before.get("select", "auto"):
        raise UsageError(
            f"predict.select: auto is for training; this model was trained for {before['select']}"
        )
    return tree
