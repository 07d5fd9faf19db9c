"""`fencepost predict`: predict entities in texts, files of texts and corpora."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

from fencepost.cli.corpora import OVERLAPS_HELP, OverlapsName
from fencepost.cli.frame import command
from fencepost.cli.groups import argument, option
from fencepost.cli.models import (
    MODEL,
    Changes,
    Device,
    EngineName,
    ModelOptions,
    Threads,
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
_RAY = "With --engine ray"


@command("predict")
def predict(
    reading: TextOptions,
    arguments: list[str] | None = argument(
        "MODEL|TEXT", "Texts, after the folder or name of a model. Default: the shipped model, names.", None
    ),
    input: str | None = option(  # noqa: A002
        None,
        "Input instead of texts: a file, - (standard input) or sample:test. Plain text has one text "
        'per line, JSON lines have a "text" each; their other keys are copied to the output. CSV, TSV, '
        "Excel and Parquet have one text per row, in the column text. A corpus is predicted sentence by "
        "sentence with its own words, and its entities are ignored. With --engine ray, also a folder or "
        "a quoted pattern of files, but not of CSV files.",
        metavar="FILE",
    ),
    output: str | None = option(
        None,
        "Output file. Default: draw the entities in the terminal. FILE.jsonl and - (standard "
        "output) get one JSON object per text, with character offsets; FILE.csv, FILE.xlsx and "
        "FILE.parquet get one row per text; FILE.html is a page with the entities marked. Other names, "
        "or --to, write a corpus. With --engine ray, a folder.",
        metavar="FILE",
    ),
    to: str | None = option(
        None,
        "Format of the output: csv, xlsx, parquet, html or a corpus format. Default: from the file name.",
    ),
    offsets: Literal["characters", "utf-16", "bytes"] = option(
        "characters",
        "Unit of start and end in JSON lines and tables: characters, utf-16 (code units, as in "
        "JavaScript and Java) or bytes of UTF-8.",
    ),
    resume: bool = option(False, "Continue the JSON lines of an interrupted run."),
    force: bool = option(False, "Overwrite an existing output."),
    min_confidence: str = option(
        "0",
        "Minimum confidence of an entity, from 0 to 1: one number, or one by type, as in "
        "person=0.7,place=0.5 (0 for other types). The model's own threshold applies as well.",
        metavar="NUMBER|TYPE=NUMBER,...",
    ),
    types: list[str] | None = option(
        None, "Predict only entities of these types; repeatable.", metavar="TYPE,TYPE..."
    ),
    flat: bool | None = option(
        None,
        "Whether entities may be nested. Default: as in the model's training data.",
        "--flat/--nested",
        show_default=False,
    ),
    overlaps: OverlapsName = option("refuse", OVERLAPS_HELP),
    limit: int | None = option(None, "Stop after this number of texts (in a corpus: sentences).", min=1),
    engine: PredictEngine = option(
        "auto",
        "Engine that runs the model: int8 or onnx, after fencepost export, or pytorch; auto uses "
        "the first of these that is available, int8 only if the export was checked. ray uses many "
        "processes or machines, each with auto or the given engine.",
        panel=MODEL,
    ),
    device: Device = "auto",
    threads: Threads = None,
    changes: Changes = None,
    workers: int | None = option(
        None,
        "Number of processes. Default: as many as the processors allow. Each has --threads threads, "
        "by default one.",
        panel=_RAY,
        min=1,
    ),
    ray_address: str | None = option(
        None,
        "Address of a Ray cluster, or auto on one of its machines. Default: the variable "
        "RAY_ADDRESS, or a local Ray.",
        panel=_RAY,
        metavar="HOST:PORT",
    ),
) -> None:
    """Predict entities in texts, and draw them in the terminal or write them to a file.

    Example: fencepost predict "Ada Lovelace was born in London."

    Example: fencepost predict my-model --input texts.txt --output entities.jsonl
    """
    check_reading(reading, "predict")
    folder, texts = split_arguments(arguments or [], quiet=reading.quiet)
    source = find_source(texts, input)
    changes = add_select(changes, flat)
    from fencepost.cli.prediction import Prediction, check_flat, open_texts

    def load(threads: int | None) -> tuple[Recogniser, dict[str, Any]]:
        name = cast("EngineName", engine.removeprefix("ray").removeprefix(":") or "auto")
        options = ModelOptions(engine=name, device=device, threads=threads, changes=changes)
        recogniser = options.load(folder, reading.lines, reading.language)
        filters: dict[str, Any] = {"min_confidence": parse_min_confidence(min_confidence)}
        filters["types"] = parse_types(types, recogniser.types)
        return recogniser.with_options(**filters), filters

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
        recogniser, filters = load(threads or 1)
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
        recogniser, _ = load(threads)
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
