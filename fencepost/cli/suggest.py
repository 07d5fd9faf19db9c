"""`fencepost suggest`: the sentences of raw texts that are most worth annotating next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fencepost.cli.frame import OUTPUT, Json, Quiet, command
from fencepost.cli.groups import argument, option
from fencepost.cli.models import ModelOptions
from fencepost.cli.options import FormatOptions, SkipInvalid, reading_option
from fencepost.cli.predict_arguments import check_reading
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.cli.prediction import Input
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser


@command("suggest")
def suggest(
    arguments: Annotated[
        list[str],
        argument(
            "[MODEL] TEXTS",
            "The folder of a model, unless the one that ships is wanted; and the texts: a file of any kind "
            "that predict reads, - or sample:train. Entities of a corpus are ignored.",
        ),
    ],
    formats: FormatOptions,
    model: ModelOptions,
    count: Annotated[int, option("--count", "Number of sentences to suggest.", min=1)] = 200,
    strategy: Annotated[
        Literal["uncertainty", "boundary", "diversity", "random"],
        option(
            "--strategy",
            "What is worth annotating: where most errors are expected, or most doubt about boundaries, for "
            "the effort, without what is alike; what is most unlike the rest; or anything.",
        ),
    ] = "uncertainty",
    exclude: Annotated[
        list[str] | None,
        option(
            "--exclude",
            "A corpus whose sentences are not suggested, such as the training data; repeatable.",
            metavar="FILE",
        ),
    ] = None,
    seed: Annotated[int, option("--seed", "Determines what is random.", min=0)] = 1,
    output: Annotated[
        str,
        option(
            "--output",
            "The corpus to write, pre-annotated, the best sentence first; - is standard output.",
            OUTPUT,
            metavar="FILE",
        ),
    ] = "-",
    to: Annotated[
        str | None,
        option("--to", "Corpus format of the output, if its name does not tell it.", OUTPUT),
    ] = None,
    overlaps: Annotated[
        Literal["refuse", "outermost", "innermost", "best"],
        option("--overlaps", "Overlapping entities to keep where the format cannot hold all.", OUTPUT),
    ] = "refuse",
    resume: Annotated[bool, option("--resume", "Continue a run that was stopped.", OUTPUT)] = False,
    force: Annotated[
        bool, option("--force", "Overwrite an existing output, and start a stopped run again.", OUTPUT)
    ] = False,
    json: Json = None,
    format: Annotated[  # noqa: A002
        str | None,
        reading_option(
            "--format",
            "The texts' format, instead of detecting it: text (one text a line), csv, or that of a corpus.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        reading_option(
            "--text-column",
            "CSV, TSV and Parquet: the column with the texts; JSON: the key. Unless set, text.",
        ),
    ] = None,
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Choose the sentences to annotate next, and write them with the entities that the model predicts.

    Example: fencepost suggest my-model texts.txt --count 200 --exclude train.jsonl --output next.jsonl
    """
    from fencepost.cli.prediction import Input, check_flat
    from fencepost.cli.suggestion import Suggestion
    from fencepost.data.formats.registry import FORMATS, format_by_name, format_by_suffix
    from fencepost.runtime.suggestion import Chooser

    options = formats.read_options()
    check_reading(options, "suggest")
    folder, source = _model_and_texts(arguments)
    job = Suggestion(source, output, exclude or (), json, resume=resume, force=force, quiet=quiet)
    if job.is_complete():
        return
    target = format_by_name(to) if to else FORMATS["jsonl"] if output == "-" else format_by_suffix(job.path)
    reading = Input(options, format, text_column, skip_invalid=skip_invalid, quiet=quiet)
    with reading.open_file(source) as (texts, _):
        recogniser = model.load(folder, options.lines, options.language)
        if target.overlaps == "none" and overlaps == "refuse" and not skip_invalid:
            check_flat(recogniser, target, "--set predict.select=flat")
        known = chain.from_iterable(_read_known(path, reading, recogniser) for path in exclude or ())
        chooser = Chooser(recogniser, count, strategy=strategy, seed=seed, exclude=known)
        sentences = job.choose(
            chooser, texts, {"format": format, "text_column": text_column, **asdict(options)}
        )
    prefer = None if overlaps == "refuse" else overlaps
    job.write(chooser, sentences, target, prefer, leave_out=skip_invalid)


def _model_and_texts(arguments: Sequence[str]) -> tuple[Path, str]:
    """Return the folder of the model, which is the first of two arguments or ships, and the texts."""
    from fencepost.runtime.loading import SHIPPED

    has_model = (Path(arguments[0]) / "config.json").is_file()
    if len(arguments) == 1 and has_model:
        raise UsageError(
            f"{arguments[0]}: is a model; give the texts after it, as fencepost suggest MODEL TEXTS"
        )
    if len(arguments) > 2:
        raise UsageError("give a model and one file of texts, as fencepost suggest MODEL TEXTS")
    if len(arguments) == 2 and not has_model:
        raise UsageError(
            f"{arguments[0]}: there is no model here (a model is a folder with a config.json); "
            "give a model and one file of texts"
        )
    folder = Path(arguments[0]) if has_model else SHIPPED
    if not (folder / "config.json").is_file():
        raise UsageError("no model came with this installation: give the folder of one before the texts")
    return folder, arguments[-1]


def _read_known(path: str, reading: Input, recogniser: Recogniser) -> Iterator[Sentence]:
    """Yield the sentences of a corpus, whether or not they were accepted."""
    from fencepost.cli.corpora import Skipped
    from fencepost.data import Reader

    options = reading.options.with_defaults(recogniser.language, recogniser.lines)
    skipped = Skipped()
    on_invalid = skipped if reading.skip_invalid else None
    with Reader(path, None, replace(options, keep_rejected=True), on_invalid) as reader:
        yield from reader
    skipped.tell(reader.source, quiet=reading.quiet)
