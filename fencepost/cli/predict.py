"""`fencepost predict`: the entities that a model finds in texts, files of texts and corpora."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.frame import Quiet, command
from fencepost.cli.models import Changes, Threads, load_recogniser
from fencepost.cli.options import SkipInvalid, reads_corpora
from fencepost.cli.predict_options import (
    ENGINES,
    Arguments,
    Confidence,
    EngineOption,
    Flat,
    Force,
    Input,
    InputFormat,
    KeepOverlaps,
    Limit,
    Output,
    RayAddress,
    Resume,
    TextColumn,
    To,
    Types,
    Workers,
    model_and_texts,
    shipped_model,
    source_of,
    types_of,
    with_select,
)
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from fencepost.data import ReadOptions
    from fencepost.data.formats.format import Format
    from fencepost.data.source import Source
    from fencepost.runtime.prediction.texts import Text
    from fencepost.runtime.recogniser import Recogniser


@command("predict")
@reads_corpora
def predict(
    options: ReadOptions,
    arguments: Arguments = None,
    input: Input = None,  # noqa: A002
    output: Output = None,
    to: To = None,
    resume: Resume = False,
    force: Force = False,
    min_confidence: Confidence = 0.0,
    types: Types = None,
    flat: Flat = None,
    overlaps: KeepOverlaps = "refuse",
    limit: Limit = None,
    engine: EngineOption = "auto",
    threads: Threads = None,
    changes: Changes = None,
    format: InputFormat = None,  # noqa: A002
    text_column: TextColumn = None,
    skip_invalid: SkipInvalid = False,
    workers: Workers = None,
    ray_address: RayAddress = None,
    quiet: Quiet = False,
) -> None:
    """Find entities in texts, and draw them in the terminal or write them to a file.

    fencepost predict "Ada Lovelace was born in London."

    fencepost predict MODEL --input texts.txt --output entities.jsonl
    """
    if options.keep_rejected:
        raise UsageError("--keep-rejected: predict reads all records, whatever their answer; leave it out")
    folder, given_texts = model_and_texts(arguments or [])
    source = source_of(given_texts, input)
    folder = folder or shipped_model(given_texts)
    if engine.startswith("ray"):
        from fencepost.cli.predict_ray import ShardPrediction, check_request

        refused = {"--to": to, "--limit": limit, "--overlaps": overlaps != "refuse"}
        named, output = check_request(source, output, options, refused)
        ShardPrediction(
            model=folder,
            source=named,
            output=output,
            options=options,
            engine=ENGINES[engine],
            changes=with_select(changes, flat),
            threads=threads or 1,
            language=options.language,
            min_confidence=min_confidence,
            types=types,
            format=format,
            text_column=text_column,
            skip_invalid=skip_invalid,
            workers=workers,
            address=ray_address,
            quiet=quiet,
        ).run(resume=resume, force=force)
        return
    if workers or ray_address:
        raise UsageError(f"{'--workers' if workers else '--ray-address'} is for --engine ray")
    target = _target(source, output, to, resume=resume, force=force)
    with _texts(
        source, given_texts, format, options, text_column, skip_invalid=skip_invalid, quiet=quiet
    ) as (texts, file):
        recogniser = load_recogniser(
            folder, ENGINES[engine], with_select(changes, flat), threads, options.language
        )
        recogniser = recogniser.using(min_confidence=min_confidence, types=types_of(types, recogniser.types))
        if target and target.overlaps == "none" and overlaps == "refuse" and not skip_invalid:
            _check_flat(recogniser, target)
        from fencepost.cli.prediction import Prediction

        prediction = Prediction(recogniser, islice(texts, limit), file, quiet=quiet)
        if output is None:
            prediction.draw()
        elif target is None:
            prediction.write_lines(output, resume=resume)
        else:
            prefer = None if overlaps == "refuse" else overlaps
            prediction.write_corpus(output, target, prefer, leave_out=skip_invalid)


@contextmanager
def _texts(
    source: str | None,
    given_texts: Iterable[str],
    format_: str | None,
    options: ReadOptions,
    text_column: str | None,
    *,
    skip_invalid: bool,
    quiet: bool,
) -> Iterator[tuple[Iterable[Text], Source | None]]:
    """The texts, and the file that they come from, if they do."""
    from fencepost.cli.corpora import Skipped
    from fencepost.runtime.prediction.texts import given, opened_texts

    if source is None:
        if text_column is not None:
            raise UsageError("--text-column is about --input, which is missing")
        yield given(list(given_texts), options), None
        return
    skipped = Skipped()
    on_invalid = skipped if skip_invalid else None
    with opened_texts(source, format_, options, on_invalid, text_column) as texts:
        yield texts, texts.source
    skipped.tell(texts.source, quiet=quiet)


def _target(
    source: str | None, output: str | None, to: str | None, *, resume: bool, force: bool
) -> Format | None:
    """The corpus format of the output, if it is one; what cannot work is refused before the work begins."""
    if output is None:
        for name, given in (("--to", to), ("--resume", resume), ("--force", force)):
            if given:
                raise UsageError(f"{name} is about --output, which is missing")
        return None
    if resume and force:
        raise UsageError("--resume goes on with the output, and --force begins it anew: choose one of them")
    from fencepost.data.formats.registry import format_by_name, format_by_suffix
    from fencepost.data.writer import check_no_loop
    from fencepost.runtime.prediction.lines import check_new

    path = Path(output)
    lines = to is None and (output == "-" or path.suffix.lower() == ".jsonl")
    target = None if lines else format_by_name(to) if to else format_by_suffix(path)
    if resume and (target or output == "-"):
        raise UsageError("--resume goes on with a file of JSON lines (--output FILE.jsonl, without --to)")
    if output != "-":
        check_no_loop(path)
        if source is not None and _is_same(path, Path(source)):
            raise UsageError(f"{output}: the output would overwrite the input; give another name")
        check_new(path, resume=resume, force=force)
    return target


def _is_same(path: Path, other: Path) -> bool:
    """Whether both are one file, through whatever links."""
    same_name = os.path.realpath(path) == os.path.realpath(other)
    return same_name or (path.exists() and other.exists() and path.samefile(other))


def _check_flat(recogniser: Recogniser, target: Format) -> None:
    if recogniser.settings["select"] != "flat":
        raise UsageError(
            f"{target.name} cannot hold overlapping entities, and this model finds them: say which to keep "
            "with --overlaps outermost, innermost or best, let it find none with --flat, "
            "leave such sentences out with --skip-invalid, or write jsonl"
        )
