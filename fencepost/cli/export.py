"""`fencepost export`: a model as graphs that run without PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fencepost.cli.frame import command
from fencepost.cli.groups import argument, option
from fencepost.cli.models import common_text
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError, require_extra


@command("export")
def export(
    model: Annotated[Path, argument("MODEL", "The folder of a trained model.")],
    reading: ReadingOptions,
    int8: Annotated[
        bool,
        option("--int8", "Add a graph of the encoder in 8-bit integers: a quarter of the size, faster."),
    ] = False,
    check: Annotated[
        str | None,
        option(
            "--check",
            "An annotated corpus on which the graphs are compared with the model; what fails is removed.",
            metavar="DATA",
        ),
    ] = None,
    max_loss: Annotated[
        float,
        option("--max-loss", "With --check: the largest loss of int8 that passes, in points of F1.", min=0.0),
    ] = 0.5,
) -> None:
    """Write a model's graphs beside its weights, for prediction without PyTorch.

    Graphs in single precision find the same entities as the model. 8-bit weights lose a little, or much:
    an export is called good only if --check has shown it.

    Example: fencepost export my-model --int8 --check dev.conll
    """
    sentences = reading.read(check, common_text([model])) if check else None
    if sentences is not None and not sentences:
        raise UsageError(f"{check}: there are no sentences to check the graphs with")
    with require_extra("train"):
        from fencepost.runtime import export as exporting
        from fencepost.runtime.pytorch import load_model
    folder = exporting.export(load_model(model), model, int8=int8)
    for path in sorted(folder.glob("*.onnx")):
        reading.say(f"{path}: {path.stat().st_size / 1e6:,.1f} MB")
    if sentences is None:
        reading.say("not checked: give annotated data with --check to know whether these graphs are good")
        return
    exporting.check(model, sentences, max_loss=max_loss, log=reading.say)
    reading.say(f"the export is good on {check}")
