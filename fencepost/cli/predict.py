"""`fencepost predict`: the entities that a model finds in texts, files of texts and corpora."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from fencepost.cli.frame import Quiet, command
from fencepost.cli.models import MODEL, Changes, Device, EngineName, Threads, load_recogniser, settings_of
from fencepost.cli.options import FormatOptions, SkipInvalid, reading_option
from fencepost.cli.predict_arguments import (
    check_output,
    check_reading,
    model_and_texts,
    source_of,
    types_of,
    with_select,
)
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.runtime.recogniser import Recogniser

PredictEngine = Literal["auto", "int8", "onnx", "pytorch", "ray", "ray:int8", "ray:onnx", "ray:pytorch"]
_ray_option = partial(typer.Option, rich_help_panel="With --engine ray")


@command("predict")
def predict(
    formats: FormatOptions,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL|TEXT",
            help="Texts; before them the folder of a model, unless the one that ships is wanted.",
        ),
    ] = None,
    input: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help="Instead of texts: a file, - (standard input) or sample:test. Plain text is one text a "
            'line; so is JSON with a "text" and no annotation, whose other keys go to the output. A corpus '
            "is predicted sentence by sentence with its own words; its entities are ignored. CSV, TSV, Excel "
            "and Parquet have a text a row, in the column text. With --engine ray also a folder, or a quoted "
            "pattern, of such files of texts, but not of CSV.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Where to write; unless set, entities are drawn. FILE.jsonl and - get a JSON object a text, "
            "with the entities by character, and FILE.csv, FILE.xlsx and FILE.parquet a row; FILE.html is "
            "a page that shows them. Other names, and --to, get a corpus of sentences. With --engine ray a "
            "folder.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Format of the output, if its name does not tell it: csv, xlsx, parquet, html, or that of "
            "a corpus.",
        ),
    ] = None,
    offsets: Annotated[
        Literal["characters", "utf-16", "bytes"],
        typer.Option(
            "--offsets",
            help="JSON: what start and end count: characters, utf-16 (units, as in JavaScript and Java) or "
            "bytes of UTF-8.",
        ),
    ] = "characters",
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue after the JSON lines of an earlier run."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    min_confidence: Annotated[
        float, typer.Option("--min-confidence", help="Leave out entities with a lower score; from 0 to 1.")
    ] = 0.0,
    types: Annotated[
        list[str] | None,
        typer.Option("--types", metavar="TYPE,TYPE...", help="Only entities of these types; repeatable."),
    ] = None,
    flat: Annotated[
        bool | None,
        typer.Option(
            "--flat/--nested",
            help="Whether entities may lie inside others; unless set, as in the model's training data.",
            show_default=False,
        ),
    ] = None,
    overlaps: Annotated[
        Literal["refuse", "outermost", "innermost", "best"],
        typer.Option("--overlaps", help="Overlapping entities to keep where the format cannot hold all."),
    ] = "refuse",
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Stop after this number of texts (of a corpus, sentences)."),
    ] = None,
    engine: Annotated[
        PredictEngine,
        typer.Option(
            "--engine",
            help="Graphs made by fencepost export (int8, onnx), or pytorch; auto is the first of these that "
            "the model has, int8 only if the export was checked. ray is many processes, or machines, with "
            "auto or another engine in each.",
            rich_help_panel=MODEL,
        ),
    ] = "auto",
    device: Device = "auto",
    threads: Threads = None,
    changes: Changes = None,
    format: Annotated[  # noqa: A002
        str | None,
        reading_option(
            "--format",
            "The input's format, instead of detecting it: text (one text a line), csv, or that of a corpus.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        reading_option(
            "--text-column",
            "CSV, TSV, Excel and Parquet: the column with the texts; JSON: the key. Unless set, text.",
        ),
    ] = None,
    skip_invalid: SkipInvalid = False,
    workers: Annotated[
        int | None,
        _ray_option(
            "--workers",
            min=1,
            help="Number of processes, with --threads threads each (1 unless set); unless set, as many as "
            "the processors allow.",
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        _ray_option(
            "--ray-address",
            metavar="HOST:PORT",
            help="A Ray cluster to use, or auto on one of its machines; unless set, RAY_ADDRESS, or else a "
            "local Ray.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Find entities in texts, and draw them in the terminal or write them to a file.

    Example: fencepost predict "Ada Lovelace was born in London."

    Example: fencepost predict my-model --input texts.txt --output entities.jsonl
    """
    options = formats.read_options()
    check_reading(options, "predict")
    folder, texts = model_and_texts(arguments or [])
    source = source_of(texts, input)
    changes = with_select(changes, flat)
    from fencepost.cli.prediction import Input, Prediction, check_flat

    reading = Input(options, format, text_column, skip_invalid=skip_invalid, quiet=quiet)

    def load(threads: int | None) -> Recogniser:
        name = cast("EngineName", engine.removeprefix("ray").removeprefix(":") or "auto")
        recogniser = load_recogniser(folder, name, changes, threads, options.language, device, options.lines)
        return recogniser.with_options(min_confidence=min_confidence, types=types_of(types, recogniser.types))

    if engine.startswith("ray"):
        from fencepost.cli.predict_ray import RayPrediction

        refused = {"--to": to, "--limit": limit, "--overlaps": overlaps != "refuse"}
        refused["--device"] = device != "auto"
        job = RayPrediction(
            source,
            output,
            reading,
            refused,
            workers=workers,
            threads=threads or 1,
            address=ray_address,
            resume=resume,
            force=force,
        )
        recogniser = load(threads or 1)
        filters = {"min_confidence": min_confidence, "types": types_of(types, recogniser.types)}
        job.run(recogniser, settings_of(folder, changes), filters, offsets)
        return
    if workers or ray_address:
        raise UsageError(f"{'--workers' if workers else '--ray-address'} is for --engine ray")
    target = check_output(source, output, to, resume=resume, force=force)
    if offsets != "characters" and (output is None or target not in (None, "csv", "xlsx", "parquet")):
        raise UsageError(
            "--offsets is about JSON lines and tables: give --output FILE.jsonl, FILE.csv, FILE.xlsx or "
            "FILE.parquet, or --output -"
        )
    with reading.open(source, texts) as (opened, file):
        recogniser = load(threads)
        if target and not isinstance(target, str) and overlaps == "refuse" and not skip_invalid:
            check_flat(recogniser, target)
        prediction = Prediction(recogniser, islice(opened, limit), file, quiet=quiet, unit=offsets)
        if output is None:
            prediction.draw()
        elif target is None:
            prediction.write_lines(output, resume=resume)
        elif isinstance(target, str):
            prediction.write_table(output, target)
        else:
            prefer = None if overlaps == "refuse" else overlaps
            prediction.write_corpus(output, target, prefer, leave_out=skip_invalid)
