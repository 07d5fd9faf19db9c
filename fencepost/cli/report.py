"""`fencepost report`: a model or a training run as one HTML file, for a person who decides about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.corpora import read_all
from fencepost.cli.evaluate import Engine
from fencepost.cli.frame import Quiet, command, say
from fencepost.cli.models import (
    Changes,
    EngineName,
    Threads,
    common_language,
    load_model,
    load_recogniser,
    saved_config,
    wants_pytorch,
)
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.cli.scoring import peak_memory_mb
from fencepost.errors import UsageError, describe_error

if TYPE_CHECKING:
    from fencepost.analysis.report import Contents
    from fencepost.data import ReadOptions
    from fencepost.data.entity import Sentence
    from fencepost.training import Outcome

FILE = "report.html"

ModelFolder = Annotated[
    Path,
    typer.Argument(metavar="RUN_OR_MODEL", help="The folder of a model, or of a training run."),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="A corpus to score the model on. Without it there are the scores that training ended with, and "
        "no intervals and no examples.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE.html",
        help=f"Where to write; unless set, {FILE} in the folder.",
        show_default=False,
    ),
]
Examples = Annotated[
    int,
    typer.Option("--examples", min=0, max=20, help="Sentences to show of each kind of mistake; 0 is none."),
]


@command("report")
@reads_corpora
def report(
    options: ReadOptions,
    model: ModelFolder,
    data: Data = None,
    out: Out = None,
    examples: Examples = 3,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    changes: Changes = None,
    engine: Engine = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Write a report on a model: scores with intervals, mistakes with examples, learning curves and more.

    One HTML file that needs no network and runs no code.
    """
    from fencepost.analysis.report import run_contents

    contents = replace(run_contents(model), examples=examples)
    target = out if out is not None else model / FILE
    check_target(target)
    if data is None and out is None and target.is_file():
        raise UsageError(
            f"{target}: is there already, and without --data a new one would say less than that of "
            "fencepost train; give --data, or another name with --out"
        )
    if data is None and (changes or engine != "auto" or threads or format or skip_invalid):
        raise UsageError(
            "without --data nothing is read or predicted: give it, or leave out the other options"
        )
    if data is not None:
        options = options.with_default_language(common_language([model]))
        gold = read_all(data, format, options, skip_invalid=skip_invalid, quiet=quiet)
        named = replace(contents, data="standard input" if data == "-" else Path(data).name)
        contents = _scored(named, model, gold, engine, changes, threads)
    write(contents, target)
    typer.echo(f"the report is in {target}")


def _scored(
    contents: Contents,
    folder: Path,
    gold: list[Sentence],
    engine: EngineName,
    changes: Sequence[str] | None,
    threads: int | None,
) -> Contents:
    """With what the model finds in the sentences, and how fast."""
    from fencepost.analysis.report import Speed

    predict: Callable[[list[Sentence]], Any]
    settings: dict[str, Any]
    if wants_pytorch(folder, engine):
        loaded = load_model(str(folder), changes, threads)
        name, predict, settings = "pytorch", loaded.predict, loaded.settings.model_dump(mode="json")
    else:
        recogniser = load_recogniser(folder, engine, changes, threads)
        name, predict = recogniser.engine, recogniser.predict
        settings = {**saved_config(folder), "predict": recogniser.settings}
    start = time.perf_counter()
    predicted = list(predict(gold))
    seconds = time.perf_counter() - start
    speed = Speed(name, len(gold) / seconds, peak_memory_mb()) if gold else None
    return replace(contents, settings=settings, gold=gold, predicted=predicted, speed=speed)


def check_target(target: Path) -> None:
    """Refuses to overwrite anything but a report, before any work is done."""
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
    """The report as a file, whole or not at all."""
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
    """The report of a training run that has just ended, in its folder, from what the run has found already.

    The model is saved, so whatever goes wrong here is told and costs nothing else.
    """
    target = out / FILE
    try:
        from fencepost.analysis.report import Speed, run_contents
        from fencepost.data import statistics

        contents = replace(run_contents(out), statistics={"training data": statistics(learnt).to_dict()})
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
