"""`fencepost report`: a model or a training run as one HTML file, for a person who decides about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.frame import command, say
from fencepost.cli.groups import argument, option
from fencepost.cli.models import ModelOptions, common_text, peak_memory_mb
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
    model: Annotated[Path, argument("RUN_OR_MODEL", "The folder of a model, or of a training run.")],
    data: Annotated[
        str | None,
        option(
            "--data",
            "A corpus to score the model on. Without it there are the scores that training ended with, and "
            "no intervals and no examples.",
            metavar="FILE",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option("--out", f"Where to write; unless set, {FILE} in the folder.", metavar="FILE.html"),
    ] = None,
    examples: Annotated[
        int, option("--examples", "Sentences to show of each kind of mistake.", min=0, max=20)
    ] = 3,
) -> None:
    """Write a report on a model: scores with intervals, mistakes with examples, learning curves and more.

    One HTML file that needs no network and runs no code.

    Example: fencepost report my-model --data test.conll --out report.html
    """
    from fencepost.analysis.report import Speed, read_contents

    contents = replace(read_contents(model), examples=examples)
    target = out if out is not None else model / FILE
    check_target(target)
    if data is None and out is None and target.is_file():
        raise UsageError(
            f"{target}: is there already, and without --data a new one would say less than that of "
            "fencepost train; give --data, or another name with --out"
        )
    if data is None and (options != ModelOptions() or reading.format or reading.skip_invalid):
        raise UsageError(
            "without --data nothing is read or predicted: give it, or leave out the other options"
        )
    if data is not None:
        gold = reading.read(data, common_text([model]))
        run = options.run(model, gold)
        speed = Speed(run.engine, run.sentences_per_second, peak_memory_mb()) if gold else None
        name = "standard input" if data == "-" else Path(data).name
        contents = replace(
            contents, data=name, settings=run.settings, gold=gold, predicted=run.predicted, speed=speed
        )
    write(contents, target)
    typer.echo(f"the report is in {target}")


def check_target(target: Path) -> None:
    """Refuse to overwrite anything but a report, before any work is done."""
    from fencepost.analysis.report import MARK

    if target.is_dir():
        raise UsageError(f"{target}: is a folder; give the name of a file with --out")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: cannot be written: there is no folder {target.parent}")
    if not target.is_file():
        return
    try:
        with target.open("rb") as stream:
            begins = stream.read(len(MARK))
    except OSError as error:
        raise UsageError(f"{target}: cannot be read: {error.strerror}") from None
    if begins != MARK.encode():
        raise UsageError(
            f"{target}: is there already and no report of fencepost; give another name with --out"
        )


def write(contents: Contents, target: Path) -> None:
    """Write the report as a file, whole or not at all."""
    from fencepost.analysis.report import render
    from fencepost.data.output import whole_file

    page = render(contents)
    with whole_file(target) as stream:
        stream.write(page.encode("utf-8"))


def write_report(
    outcome: Outcome,
    out: Path,
    learnt: list[Sentence],
    dev: list[Sentence] | None,
    test: list[Sentence] | None,
    *,
    quiet: bool,
) -> None:
    """Write the report of a training run that has just ended into its folder, from its predictions.

    The model is saved, so an error here is only reported.
    """
    target = out / FILE
    try:
        from fencepost.analysis.report import Speed, read_contents
        from fencepost.data import statistics

        contents = replace(read_contents(out), statistics={"training data": statistics(learnt).to_dict()})
        gold = test if test is not None else dev
        if gold is not None and outcome.predicted is not None:
            speed = Speed("pytorch", len(gold) / outcome.seconds, peak_memory_mb(), trained=True)
            name = "the test data" if test is not None else "the development data"
            contents = replace(contents, data=name, gold=gold, predicted=outcome.predicted, speed=speed)
        write(contents, target)
    except Exception as error:  # noqa: BLE001 - hours of training are not called a failure for this
        say(
            f"the report could not be written ({type(error).__name__}: {describe_error(error)}); "
            f"the model is saved, and fencepost report {out} writes one",
            quiet=False,
        )
    else:
        say(f"the report is in {target}", quiet=quiet)
