"""`fencepost predict`: predict entities in texts, files of texts and corpora."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from fencepost.cli.corpora import OVERLAPS_HELP, OverlapsName
from fencepost.cli.frame import command
from fencepost.cli.models import (
    MODEL,
    Changes,
    Device,
    EngineName,
    Threads,
    load_recogniser,
    parse_prediction_changes,
)
from fencepost.cli.options import TextOptions
from fencepost.cli.predict_arguments import (
    add_select,
    check_output,
    check_reading,
    find_source,
    parse_min_confidence,
    parse_types,
    split_arguments,
)
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.runtime.recogniser import Recogniser

PredictEngine = Literal["auto", "int8", "onnx", "pytorch", "ray", "ray:int8", "ray:onnx", "ray:pytorch"]
_ray_option = partial(typer.Option, rich_help_panel="With --engine ray")


@command("predict")
def predict(
    reading: TextOptions,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL|TEXT",
            help="Texts, after the folder or name of a model. Default: the shipped model, names.",
        ),
    ] = None,
    input: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            metavar="FILE",
            help="Input instead of texts: a file, - (standard input) or sample:test. Plain text has one text "
            'per line, JSON lines have a "text" each; their other keys are copied to the output. CSV, TSV, '
            "Excel and Parquet have one text per row, in the column text. A corpus is predicted sentence by "
            "sentence with its own words, and its entities are ignored. With --engine ray, also a folder or "
            "a quoted pattern of files, but not of CSV files.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Output file. Default: draw the entities in the terminal. FILE.jsonl and - (standard "
            "output) get one JSON object per text, with character offsets; FILE.csv, FILE.xlsx and "
            "FILE.parquet get one row per text; FILE.html is a page with the entities marked. Other names, "
            "or --to, write a corpus. With --engine ray, a folder.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Format of the output: csv, xlsx, parquet, html or a corpus format. Default: from the file "
            "name."
        ),
    ] = None,
    offsets: Annotated[
        Literal["characters", "utf-16", "bytes"],
        typer.Option(
            help="Unit of start and end in JSON lines and tables: characters, utf-16 (code units, as in "
            "JavaScript and Java) or bytes of UTF-8."
        ),
    ] = "characters",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the JSON lines of an interrupted run.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing output.")] = False,
    min_confidence: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|TYPE=NUMBER,...",
            help="Minimum confidence of an entity, from 0 to 1: one number, or one by type, as in "
            "person=0.7,place=0.5 (0 for other types).",
        ),
    ] = "0",
    types: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE,TYPE...", help="Predict only entities of these types; repeatable."),
    ] = None,
    flat: Annotated[
        bool | None,
        typer.Option(
            "--flat/--nested",
            help="Whether entities may be nested. Default: as in the model's training data.",
            show_default=False,
        ),
    ] = None,
    overlaps: Annotated[OverlapsName, typer.Option(help=OVERLAPS_HELP)] = "refuse",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Stop after this number of texts (in a corpus: sentences).")
    ] = None,
    engine: Annotated[
        PredictEngine,
        typer.Option(
            help="Engine that runs the model: int8 or onnx, after fencepost export, or pytorch; auto uses "
            "the first of these that is available, int8 only if the export was checked. ray uses many "
            "processes or machines, each with auto or the given engine.",
            rich_help_panel=MODEL,
        ),
    ] = "auto",
    device: Device = "auto",
    threads: Threads = None,
    changes: Changes = None,
    workers: Annotated[
        int | None,
        _ray_option(
            min=1,
            help="Number of processes, each with --threads threads (default 1). Default: as many as "
            "the processors allow.",
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        _ray_option(
            metavar="HOST:PORT",
            help="Address of a Ray cluster, or auto on one of its machines. Default: the variable "
            "RAY_ADDRESS, or a local Ray.",
        ),
    ] = None,
) -> None:
    """Predict entities in texts, and draw them in the terminal or write them to a file.

    Example: fencepost predict "Ada Lovelace was born in London."

    Example: fencepost predict my-model --input texts.txt --output entities.jsonl
    """
    check_reading(reading, "predict")
    folder, texts = split_arguments(arguments or [])
    source = find_source(texts, input)
    changes = add_select(changes, flat)
    from fencepost.cli.prediction import Prediction, check_flat, open_texts

    def load(threads: int | None) -> Recogniser:
        name = cast("EngineName", engine.removeprefix("ray").removeprefix(":") or "auto")
        recogniser = load_recogniser(folder, name, changes, threads, reading.language, device, reading.lines)
        selected_types = parse_types(types, recogniser.types)
        minimum = parse_min_confidence(min_confidence)
        return recogniser.with_options(min_confidence=minimum, types=selected_types)

    if engine.startswith("ray"):
        from fencepost.cli.predict_ray import RayPrediction

        unsupported = {"--to": to, "--limit": limit, "--overlaps": overlaps != "refuse"}
        unsupported["--device"] = device != "auto"
        job = RayPrediction(
            source,
            output,
            reading,
            unsupported,
            workers=workers,
            threads=threads or 1,
            address=ray_address,
            resume=resume,
            force=force,
        )
        recogniser = load(threads or 1)
        selected_types = parse_types(types, recogniser.types)
        filters = {"min_confidence": parse_min_confidence(min_confidence), "types": selected_types}
        job.run(recogniser, parse_prediction_changes(folder, changes), filters, offsets)
        return
    if workers or ray_address:
        raise UsageError(f"{'--workers' if workers else '--ray-address'} needs --engine ray")
    target = check_output(source, output, to, resume=resume, force=force)
    if offsets != "characters" and (output is None or target not in (None, "csv", "xlsx", "parquet")):
        raise UsageError(
            "--offsets works only with JSON lines and tables: give --output FILE.jsonl, FILE.csv, FILE.xlsx, "
            "FILE.parquet or -"
        )
    with open_texts(source, texts, reading) as (stream, file):
        recogniser = load(threads)
        if target and not isinstance(target, str) and overlaps == "refuse" and not reading.skip_invalid:
            check_flat(recogniser, target)
        prediction = Prediction(recogniser, islice(stream, limit), file, quiet=reading.quiet, unit=offsets)
        if output is None:
            prediction.draw()
        elif target is None:
            prediction.write_lines(output, resume=resume)
        elif isinstance(target, str):
            prediction.write_table(output, target)
        else:
            prediction.write_corpus(output, target, overlaps, skip_invalid=reading.skip_invalid)
