"""Options and functions of the commands that score several models on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.groups import option
from fencepost.cli.models import ModelOptions, ModelRun, find_text_rules, resolve_model
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError
from fencepost.runtime.folder import CONFIG_FILE

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence

_TITLE = "Models and data"
Label = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        help="Name of a model in the output; once per model, in order.",
        rich_help_panel=_TITLE,
        metavar="NAME",
    ),
]


@dataclass(frozen=True, kw_only=True)
class LabelOptions(ReadingOptions):
    """Options for the names of the models and the number of sentences."""

    title = _TITLE

    label: Label = None
    limit: int | None = option(None, "Number of sentences to use, from the first. Default: all.", min=1)

    def read_sentences(self, models: Sequence[str], path: str) -> list[Sentence]:
        """Return at most `--limit` sentences of a corpus; raw text is split as for these models."""
        sentences = self.read(path, find_text_rules(models))
        if not sentences:
            raise UsageError(f"{path}: contains no sentences")
        return sentences[: self.limit or None]


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(LabelOptions, ModelOptions, ReadingOptions):
    """The same options and those for running the models."""

    def run(self, folder: str | Path, sentences: Sequence[Sentence]) -> ModelRun:
        """Predict all sentences with the model in a folder, and print the time."""
        run = super().run(folder, sentences)
        self.say(f"{folder} ({run.engine}): {len(sentences):,} sentences in {run.seconds:,.1f} s")
        return run


def is_model(path: str) -> bool:
    return (Path(resolve_model(path)) / CONFIG_FILE).is_file()


def name_models(paths: Sequence[str], labels: Sequence[str] | None) -> dict[str, str]:
    """Return the models by name: those of `--label`, or the shortest names that distinguish the folders."""
    from fencepost.analysis.result import name_paths

    labels = labels or name_paths([Path(path) for path in paths])
    if len(labels) != len(paths) or len(set(labels)) != len(labels):
        raise UsageError(
            f"--label: give a different name to each of {', '.join(paths)}, in this order, "
            f"not {', '.join(labels)}"
        )
    return dict(zip(labels, paths, strict=True))


def collect_facts(
    models: Mapping[str, str], data: Sequence[str] | str, engines: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return the models by name, the data and the engines, as JSON has them."""
    return {"folders": models, "data": data, "engines": engines}
