"""`fencepost export`: write a model as ONNX graphs that run without PyTorch."""

from __future__ import annotations

from pathlib import Path

from fencepost.cli.frame import command
from fencepost.cli.groups import argument, option
from fencepost.cli.models import find_text_rules, resolve_model
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError, require_extra
from fencepost.runtime.folder import compute_sums, files_of, list_members, write_sums


@command("export")
def export(
    *,
    model: Path = argument("MODEL", "Folder or name of a trained model."),
    reading: ReadingOptions,
    int8: bool = option(
        False, "Add a graph of the encoder with 8-bit weights: a quarter of the size, and faster."
    ),
    check: str | None = option(
        None,
        "Annotated corpus on which the graphs are compared with the model; graphs that fail are removed.",
        metavar="DATA",
    ),
    max_loss: float = option(0.5, "With --check: maximum loss of F1 with int8, in points.", min=0.0),
) -> None:
    """Write ONNX graphs into the folder of a model, for prediction without PyTorch.

    Graphs in single precision predict the same entities as the model. 8-bit weights may lose accuracy: use
    --check to measure how much.

    Example: fencepost export my-model --int8 --check dev.conll
    """
    model = Path(resolve_model(str(model)))
    sentences = reading.read(check, find_text_rules([model])) if check else None
    if sentences is not None and not sentences:
        raise UsageError(f"{check}: contains no sentences to check the graphs with")
    with require_extra("train"):
        from fencepost.runtime import export as exporting
        from fencepost.runtime.pytorch import load_model
    parts = list_members(model) or [model]
    try:
        for part in parts:
            folder = exporting.export(load_model(part), part, int8=int8)
            for path in sorted(folder.glob("*.onnx")):
                reading.say(f"{path}: {path.stat().st_size / 1e6:,.1f} MB")
            if sentences is not None:
                exporting.check(part, sentences, max_loss=max_loss, log=reading.say)
    finally:  # also if the graphs of a member fail the check
        if parts != [model]:
            write_sums(model, compute_sums(model, files_of(model)))
    if sentences is None:
        reading.say("not checked: give annotated data with --check to compare the graphs with the model")
    else:
        reading.say(f"the export passed the check on {check}")
