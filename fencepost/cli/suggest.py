"""`fencepost suggest`: select the sentences that are most useful to annotate next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fencepost.cli.corpora import OVERLAPS_HELP, OverlapsName
from fencepost.cli.frame import OUTPUT, Json, Quiet, command
from fencepost.cli.groups import argument, option
from fencepost.cli.models import ModelOptions
from fencepost.cli.options import FormatOptions, SkipInvalid, reading_option
from fencepost.cli.predict_arguments import check_reading
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.cli.prediction import TextInput
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser


@command("suggest")
def suggest(
    arguments: Annotated[
        list[str],
        argument(
            "[MODEL] TEXTS",
            "Folder of a model (default: the shipped one) and the texts: any file that predict reads, "
            "- or sample:train. Entities of a corpus are ignored.",
        ),
    ],
    formats: FormatOptions,
    model: ModelOptions,
    count: Annotated[int, option("--count", "Number of sentences to suggest.", min=1)] = 200,
    strategy: Annotated[
        Literal["uncertainty", "boundary", "diversity", "random"],
        option(
            "--strategy",
            "How to select sentences: by the expected number of errors (uncertainty) or the uncertainty of "
            "boundaries (boundary), relative to the annotation effort and without similar sentences; by "
            "dissimilarity to the others (diversity); or at random.",
        ),
    ] = "uncertainty",
    exclude: Annotated[
        list[str] | None,
        option(
            "--exclude",
            "Corpus whose sentences are not suggested, such as the training data; repeatable.",
            metavar="FILE",
        ),
    ] = None,
    seed: Annotated[int, option("--seed", "Random seed.", min=0)] = 1,
    output: Annotated[
        str,
        option(
            "--output",
            "Pre-annotated corpus to write, best sentence first; - is standard output.",
            OUTPUT,
            metavar="FILE",
        ),
    ] = "-",
    to: Annotated[
        str | None, option("--to", "Corpus format of the output. Default: from the file name.", OUTPUT)
    ] = None,
    overlaps: Annotated[OverlapsName, option("--overlaps", OVERLAPS_HELP, OUTPUT)] = "refuse",
    resume: Annotated[bool, option("--resume", "Continue an interrupted run.", OUTPUT)] = False,
    force: Annotated[
        bool, option("--force", "Overwrite an existing output or the progress of an interrupted run.", OUTPUT)
    ] = False,
    json: Json = None,
    format: Annotated[  # noqa: A002
        str | None,
        reading_option(
            "--format",
            "Format of the texts: text (one text per line), csv or a corpus format. Default: detected.",
        ),
    ] = None,
    text_column: Annotated[
        str | None,
        reading_option(
            "--text-column", "CSV, TSV and Parquet: column with the texts; JSON: key. Default: text."
        ),
    ] = None,
    skip_invalid: SkipInvalid = False,
    quiet: Quiet = False,
) -> None:
    """Select the sentences to annotate next, and write them with the entities that the model predicts.

    Example: fencepost suggest my-model texts.txt --count 200 --exclude train.jsonl --output next.jsonl
    """
    from fencepost.cli.prediction import TextInput, check_flat
    from fencepost.cli.suggestion import SuggestJob
    from fencepost.data.formats.registry import FORMATS, format_by_name, format_by_suffix
    from fencepost.runtime.suggestion import Chooser

    options = formats.read_options()
    check_reading(options, "suggest")
    folder, source = _split_arguments(arguments)
    job = SuggestJob(source, output, exclude or (), json, resume=resume, force=force, quiet=quiet)
    if job.is_complete():
        return
    target = format_by_name(to) if to else FORMATS["jsonl"] if output == "-" else format_by_suffix(job.path)
    reading = TextInput(options, format, text_column, skip_invalid=skip_invalid, quiet=quiet)
    with reading.open_file(source) as (texts, _):
        recogniser = model.load(folder, options.lines, options.language)
        if target.overlaps == "none" and overlaps == "refuse" and not skip_invalid:
            check_flat(recogniser, target, "--set predict.select=flat")
        known = chain.from_iterable(_read_known(path, reading, recogniser) for path in exclude or ())
        chooser = Chooser(recogniser, count, strategy=strategy, seed=seed, exclude=known)
        sentences = job.choose(
            chooser, texts, {"format": format, "text_column": text_column, **asdict(options)}
        )
    job.write(chooser, sentences, target, overlaps, skip_invalid=skip_invalid)


def _split_arguments(arguments: Sequence[str]) -> tuple[Path, str]:
    """Return the model folder (the first of two arguments, or the shipped model) and the texts."""
    from fencepost.runtime.loading import SHIPPED

    has_model = (Path(arguments[0]) / "config.json").is_file()
    if len(arguments) == 1 and has_model:
        raise UsageError(
            f"{arguments[0]}: a model; give the texts after it, as in fencepost suggest MODEL TEXTS"
        )
    if len(arguments) > 2:
        raise UsageError("give a model and one file of texts, as in fencepost suggest MODEL TEXTS")
    if len(arguments) == 2 and not has_model:
        raise UsageError(
            f"{arguments[0]}: not a model folder (it has no config.json); give a model and one file of texts"
        )
    folder = Path(arguments[0]) if has_model else SHIPPED
    if not (folder / "config.json").is_file():
        raise UsageError("this installation has no shipped model: give a model folder before the texts")
    return folder, arguments[-1]


def _read_known(path: str, reading: TextInput, recogniser: Recogniser) -> Iterator[Sentence]:
    """Yield the sentences of a corpus, including rejected ones."""
    from fencepost.cli.corpora import SkipLog
    from fencepost.data import Reader

    options = reading.options.with_defaults(recogniser.language, recogniser.lines)
    skip_log = SkipLog()
    on_invalid = skip_log if reading.skip_invalid else None
    with Reader(path, None, replace(options, keep_rejected=True), on_invalid) as reader:
        yield from reader
    skip_log.report(reader.source, quiet=reading.quiet)
