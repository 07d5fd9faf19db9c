"""The options with which every command that reads corpora can be told what a file does not say."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

_PANEL = "How to read the input"


def reading_option(name: str, text: str) -> Any:
    return typer.Option(name, help=text, rich_help_panel=_PANEL)


def _read_options(
    scheme: Annotated[
        Literal["iob1", "iob2", "bioes"] | None,
        reading_option("--scheme", "conll: sentences whose tags break this scheme's rules are invalid."),
    ] = None,
    word_column: Annotated[
        int | None,
        reading_option("--word-column", "Columns: where the words are; 1 is the first, -1 the last."),
    ] = None,
    tag_column: Annotated[int | None, reading_option("--tag-column", "Columns: where the tags are.")] = None,
    pos_column: Annotated[
        int | None, reading_option("--pos-column", "Columns: where the parts of speech are.")
    ] = None,
    ends: Annotated[
        Literal["inclusive", "exclusive"] | None,
        reading_option("--ends", "JSON: whether a span's end is its last word or the word behind it."),
    ] = None,
    check_text: Annotated[
        bool,
        reading_option("--check-text/--no-check-text", "Whether an entity's text must be that of its words."),
    ] = True,
    language: Annotated[
        str | None,
        reading_option(
            "--language",
            "Raw text: language whose rules split it into words and sentences; zh splits by character. "
            "Default: the model's, or en.",
        ),
    ] = None,
    pretokenized: Annotated[
        bool,
        reading_option(
            "--pretokenized", "Raw text: words are separated by white space, sentences by line ends."
        ),
    ] = False,
    spans_key: Annotated[
        str | None, reading_option("--spans-key", "spacy: the span group with the entities.")
    ] = None,
    keep_rejected: Annotated[
        bool,
        reading_option(
            "--keep-rejected",
            "jsonl-text: read records whose answer is reject or ignore (Prodigy) instead of skipping them.",
        ),
    ] = False,
) -> None:
    """The fields of `fencepost.data.ReadOptions`, each as an option."""


def reads_corpora(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command these options; the function gets them as one `ReadOptions`, named `options`."""
    own = [p for p in inspect.signature(function).parameters.values() if p.name != "options"]
    shared = inspect.signature(_read_options).parameters

    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        from fencepost.data import ReadOptions

        options = ReadOptions(**{name: arguments.pop(name) for name in shared})
        function(options=options, **arguments)

    # The annotations are text until here; `options` stays out, since its type is not imported yet.
    parameters = [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY,
            annotation=eval(parameter.annotation, owner.__globals__),  # noqa: S307 - our own text
        )
        for owner, group in ((function, own), (_read_options, shared.values()))
        for parameter in group
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


FormatName = Annotated[
    str | None, reading_option("--format", "The input's format, instead of finding it out from the content.")
]
SkipInvalid = Annotated[
    bool,
    reading_option("--skip-invalid", "Skip and count invalid sentences instead of stopping at the first."),
]
