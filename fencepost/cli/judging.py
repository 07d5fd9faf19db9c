"""What the commands share that judge several models on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.models import ModelOptions, common_language
from fencepost.cli.options import ReadingOptions
from fencepost.cli.scoring import ModelRun, run_model
from fencepost.errors import UsageError
from fencepost.runtime.folder import CONFIG_FILE

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence

Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="NAME",
        help="Name of a model in the output; one for each, in order.",
        rich_help_panel="Models and data",
    ),
]


@dataclass(frozen=True, kw_only=True)
class JudgingOptions(ReadingOptions):
    """What models are called, and the part of the data that they are judged on."""

    title = "Models and data"

    label: Label = None
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Only the first sentences, this many.")
    ] = None

    def read_for(self, models: Sequence[str], path: str) -> list[Sentence]:
        """Return the sentences of a corpus, as many as `--limit` allows, split as these models need it."""
        sentences = self.read(path, common_language(models))
        if not sentences:
            raise UsageError(f"{path}: there are no sentences in it")
        return sentences[: self.limit or None]


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(JudgingOptions, ModelOptions, ReadingOptions):
    """The same for models that are run on any engine."""

    def run_model(self, folder: str, sentences: Sequence[Sentence]) -> ModelRun:
        """Find the entities of the sentences with the model in a folder."""
        run = run_model(self.load(folder), folder, sentences)
        self.say(f"{folder} ({run.engine}): {len(sentences):,} sentences in {run.seconds:,.1f} s")
        return run


def is_model(path: str) -> bool:
    return (Path(path) / CONFIG_FILE).is_file()


def labels_of(paths: Sequence[str], given: Sequence[str] | None) -> list[str]:
    """Return the names of models: those of `--label`, or else their folders, as short as tells them apart."""
    from fencepost.analysis.result import named

    if not given:
        return named([Path(path) for path in paths])
    if len(given) != len(paths) or len(set(given)) != len(given):
        raise UsageError(
            f"--label: give each of {', '.join(paths)} a name of its own, in this order, "
            f"not {', '.join(given)}"
        )
    return list(given)


def facts_of(
    models: dict[str, str], data: Sequence[str] | str, engines: dict[str, str | None]
) -> dict[str, Any]:
    """Return for JSON which models were judged under which names, on what, and on which engines."""
    return {"folders": models, "data": data if isinstance(data, str) else list(data), "engines": engines}
