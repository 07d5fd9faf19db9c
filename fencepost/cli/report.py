"""`fencepost report`: write an HTML report on a model or a training run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fencepost.cli.frame import command, say
from fencepost.cli.groups import argument, option
from fencepost.cli.models import ModelOptions, find_text_rules, measure_peak_memory, resolve_model
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError, describe_error

if TYPE_CHECKING:
    from fencepost.analysis.report import Contents
    from fencepost.data.entity import Sentence
    from fencepost.training import Outcome

FILE = "report.html"


@command("report")
def report(
    options: ModelOptions,
    reading: ReadingOptions,
    model: Path = argument("RUN_OR_MODEL", "Folder of a model or a run, or name of a model."),
    data: str | None = option(
        None,
        "Corpus to score the model on. Without it, the report has the final scores of the training, but "
        "no intervals or examples.",
        metavar="FILE",
    ),
    out: Path | None = option(
        None, f"File to write. Default: {FILE} in the folder of the model.", metavar="FILE.html"
    ),
    examples: int = option(3, "Number of example sentences for each kind of error.", min=0, max=20),
) -> None:
    """Write a report on a model: scores with intervals, errors with examples, learning curves and more.

    The report is one HTML file that needs no network and runs no code.

    Example: fencepost report my-model --data test.conll --out report.html
    """
    from fencepost.analysis.report import Speed, read_contents

    target = out if out is not None else model / FILE
    folder = Path(resolve_model(str(model)))
    if out is None and folder != model:
        raise UsageError(f"{model}: a report does not go into an installed model; give a file with --out")
    model = folder
    contents = replace(read_contents(model), examples=examples)
    check_target(target)
    if data is None and out is None and target.is_file():
        raise UsageError(
            f"{target}: already exists, and without --data a new report would contain less than that of "
            "fencepost train; give --data, or another file with --out"
        )
    if data is None and (options != ModelOptions() or reading.format or reading.skip_invalid):
        raise UsageError("options for reading and predicting need --data")
    if data is not None:
        gold = reading.read(data, find_text_rules([model]))
        run = options.run(model, gold)
        speed = Speed(run.engine, run.sentences_per_second, measure_peak_memory()) if gold else None
        name = "standard input" if data == "-" else Path(data).name
        contents = replace(
            contents, data=name, settings=run.settings, gold=gold, predicted=run.predicted, speed=speed
        )
    write(contents, target)
    typer.echo(f"the report is in {target}")


def check_target(target: Path) -> None:
    """Raise `UsageError` if the target cannot be written or is not a report of Fencepost."""
    from fencepost.analysis.report import MARK

    if target.is_dir():
        raise UsageError(f"{target}: is a folder; give a file with --out")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: cannot be written: the folder {target.parent} does not exist")
    if not target.is_file():
        return
    try:
        with target.open("rb") as stream:
            start = stream.read(len(MARK))
    except OSError as error:
        raise UsageError(f"{target}: cannot be read: {error.strerror}") from None
    if start != MARK.encode():
        raise UsageError(
            f"{target}: already exists and is not a report of fencepost; give another file with --out"
        )


def write(contents: Contents, target: Path) -> None:
    """Write the report; an error leaves no incomplete file."""
    from fencepost.analysis.report import render
    from fencepost.data.output import whole_file

    page = render(contents)
    with whole_file(target) as stream:
        stream.write(page.encode("utf-8"))


def write_report(
    outcome: Outcome,
    out: Path,
    train: list[Sentence],
    dev: list[Sentence] | None,
    test: list[Sentence] | None,
    *,
    quiet: bool,
) -> None:
    """Write the report of a finished training run into its folder, from its predictions.

    The model is saved already, so an error is only printed.
    """
    target = out / FILE
    try:
        from fencepost.analysis.report import Speed, read_contents
        from fencepost.data import statistics

        contents = replace(read_contents(out), statistics={"training data": statistics(train).to_dict()})
        gold = test if test is not None else dev
        if gold is not None and outcome.predicted is not None:
            speed = Speed("pytorch", len(gold) / outcome.seconds, measure_peak_memory(), trained=True)
            name = "the test data" if test is not None else "the development data"
            contents = replace(contents, data=name, gold=gold, predicted=outcome.predicted, speed=speed)
        write(contents, target)
    except Exception as error:  # noqa: BLE001 - the training itself has succeeded
        say(
            f"the report could not be written ({type(error).__name__}: {describe_error(error)}); "
            f"the model is saved; fencepost report {out} writes a report",
            quiet=False,
        )
    else:
        say(f"the report is in {target}", quiet=quiet)
