"""`fencepost suggest`: select the sentences that are most useful to annotate next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fencepost.cli.corpora import OVERLAPS_HELP, OverlapsName
from fencepost.cli.frame import OUTPUT, Json, command
from fencepost.cli.groups import argument, option
from fencepost.cli.models import ModelOptions
from fencepost.cli.options import ReadingOptions, TextOptions
from fencepost.cli.predict_arguments import check_reading
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.runtime.recogniser import Recogniser


@command("suggest")
def suggest(
    *,
    arguments: list[str] = argument(
        "[MODEL] TEXTS",
        "Folder or name of a model (default: names) and the texts: any file that predict reads, "
        "- or sample:train. Entities of a corpus are ignored.",
    ),
    reading: TextOptions,
    model: ModelOptions,
    count: int = option(200, "Number of sentences to suggest.", min=1),
    strategy: Literal["uncertainty", "boundary", "diversity", "random"] = option(
        "uncertainty",
        "How to select sentences: by the expected number of errors (uncertainty) or the uncertainty of "
        "boundaries (boundary), relative to the annotation effort and without similar sentences; by "
        "dissimilarity to the others (diversity); or at random.",
    ),
    exclude: list[str] | None = option(
        None,
        "Corpus whose sentences are not suggested, such as the training data; repeatable.",
        metavar="FILE",
    ),
    seed: int = option(1, "Random seed.", min=0),
    output: str = option(
        "-",
        "Pre-annotated corpus to write, best sentence first; - is standard output.",
        panel=OUTPUT,
        metavar="FILE",
    ),
    to: str | None = option(None, "Corpus format of the output. Default: from the file name.", panel=OUTPUT),
    overlaps: OverlapsName = option("refuse", OVERLAPS_HELP, panel=OUTPUT),
    resume: bool = option(False, "Continue an interrupted run.", panel=OUTPUT),
    force: bool = option(
        False, "Overwrite an existing output or the progress of an interrupted run.", panel=OUTPUT
    ),
    json: Json = None,
) -> None:
    """Select the sentences to annotate next, and write them with the entities that the model predicts.

    Example: fencepost suggest my-model texts.txt --count 200 --exclude train.jsonl --output next.jsonl
    """
    from fencepost.cli.prediction import check_flat
    from fencepost.cli.suggestion import SuggestJob
    from fencepost.data.formats.registry import FORMATS, format_by_name, format_by_suffix
    from fencepost.runtime.suggestion import Chooser

    check_reading(reading, "suggest")
    folder, source = _split_arguments(arguments)
    job = SuggestJob(source, output, exclude or (), json, resume=resume, force=force, quiet=reading.quiet)
    if job.is_complete():
        return
    target = format_by_name(to) if to else FORMATS["jsonl"] if output == "-" else format_by_suffix(job.path)
    with reading.open(source) as (texts, _):
        recogniser = model.load(folder, reading.lines, reading.language)
        if target.overlaps == "none" and overlaps == "refuse" and not reading.skip_invalid:
            check_flat(recogniser, target, "--set predict.select=flat")
        known = chain.from_iterable(_read_known(path, reading, recogniser) for path in exclude or ())
        chooser = Chooser(recogniser, count, strategy=strategy, seed=seed, exclude=known)
        options = {"format": reading.format, "text_column": reading.text_column}
        sentences = job.choose(chooser, texts, {**options, **asdict(reading.read_options())})
    job.write(chooser, sentences, target, overlaps, skip_invalid=reading.skip_invalid)


def _split_arguments(arguments: Sequence[str]) -> tuple[Path, str]:
    """Return the model folder (the first of two arguments, or the shipped model) and the texts."""
    from fencepost.runtime.loading import SHIPPED, find_model

    model = find_model(arguments[0])
    has_model = (model / "config.json").is_file()
    if len(arguments) == 1 and has_model:
        raise UsageError(
            f"{arguments[0]}: a model; give the texts after it, as in fencepost suggest MODEL TEXTS"
        )
    if len(arguments) > 2:
        raise UsageError("give a model and one file of texts, as in fencepost suggest MODEL TEXTS")
    if len(arguments) == 2 and not has_model:
        raise UsageError.no_model(arguments[0], "; give a model and one file of texts")
    return model if has_model else SHIPPED, arguments[-1]


def _read_known(path: str, reading: TextOptions, recogniser: Recogniser) -> Iterator[Sentence]:
    """Yield the sentences of a corpus, including rejected ones."""
    values = {field.name: getattr(reading, field.name) for field in fields(ReadingOptions)}
    options = ReadingOptions(**{**values, "format": None, "keep_rejected": True})
    with options.open(path, {"language": recogniser.language, "lines": recogniser.lines}) as reader:
        yield from reader
