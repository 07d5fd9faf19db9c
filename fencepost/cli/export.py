"""`fencepost export`: a model as graphs that run without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.corpora import read_all
from fencepost.cli.frame import Quiet, command, say
from fencepost.cli.models import common_language, training_installed
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data import ReadOptions

ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a trained model.")]
Int8 = Annotated[
    bool,
    typer.Option(
        "--int8", help="Also a graph of the encoder with 8-bit weights: a quarter of the size, faster."
    ),
]
Check = Annotated[
    str | None,
    typer.Option(
        "--check",
        metavar="DATA",
        help="An annotated corpus on which the graphs are held against the model; what fails is removed.",
    ),
]
MaxLoss = Annotated[
    float,
    typer.Option(
        "--max-loss", min=0.0, help="With --check: how many points of F1 int8 may lose before it fails."
    ),
]


@command("export")
@reads_corpora
def export(
    model: ModelFolder,
    options: ReadOptions,
    int8: Int8 = False,
    check: Check = None,
    max_loss: MaxLoss = 0.5,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Write a model's graphs beside its weights, for prediction without PyTorch.

    Graphs in single precision find the same entities as the model. 8-bit weights lose a little, or much:
    an export is called good only if --check has shown it.
    """
    options = options.with_default_language(common_language([model]))
    sentences = read_all(check, format, options, skip_invalid=skip_invalid, quiet=quiet) if check else None
    if sentences is not None and not sentences:
        raise UsageError(f"{check}: there are no sentences to check the graphs with")
    with training_installed():
        from fencepost.methods.model import Model
        from fencepost.runtime import export as exporting
    folder = exporting.export(Model.load(model), model, int8=int8)
    for path in sorted(folder.glob("*.onnx")):
        say(f"{path}: {path.stat().st_size / 1e6:,.1f} MB", quiet=quiet)
    if sentences is None:
        say(
            "not checked: give annotated data with --check to know whether these graphs are good", quiet=quiet
        )
        return
    exporting.check(model, sentences, max_loss=max_loss, tell=lambda line: say(line, quiet=quiet))
    say(f"the export is good on {check}", quiet=quiet)
