"""What the commands that use a model share: its options, and loading it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.model import Model

Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of prediction, as predict.select=flat; repeatable.",
    ),
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


def load_model(folder: str, changes: Sequence[str] | None) -> Model:
    with training_installed():
        from fencepost.model import Model
    return Model.load(folder, changes or ())
