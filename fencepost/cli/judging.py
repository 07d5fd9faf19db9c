"""What the commands share that judge several models on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fencepost.cli.groups import option
from fencepost.cli.models import ModelOptions, ModelRun, common_text
from fencepost.cli.options import ReadingOptions
from fencepost.errors import UsageError
from fencepost.runtime.folder import CONFIG_FILE

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence

_TITLE = "Models and data"
Label = Annotated[
    list[str] | None,
    option("--label", "Name of a model in the output; one for each, in order.", _TITLE, metavar="NAME"),
]


@dataclass(frozen=True, kw_only=True)
class JudgingOptions(ReadingOptions):
    """What models are called, and the part of the data that they are judged on."""

    title = _TITLE

    label: Label = None
    limit: Annotated[int | None, option("--limit", "Number of sentences, from the first.", min=1)] = None

    def read_for(self, models: Sequence[str], path: str) -> list[Sentence]:
        """Return the sentences of a corpus, as many as `--limit` allows, split as these models need it."""
        sentences = self.read(path, common_text(models))
        if not sentences:
            raise UsageError(f"{path}: there are no sentences in it")
        return sentences[: self.limit or None]


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(JudgingOptions, ModelOptions, ReadingOptions):
    """The same for models that are run on any engine."""

    def run(self, folder: str | Path, sentences: Sequence[Sentence]) -> ModelRun:
        """Find the entities of all sentences with the model in a folder, and print how fast that was."""
        run = super().run(folder, sentences)
        self.say(f"{folder} ({run.engine}): {len(sentences):,} sentences in {run.seconds:,.1f} s")
        return run


def is_model(path: str) -> bool:
    return (Path(path) / CONFIG_FILE).is_file()


def name_models(paths: Sequence[str], labels: Sequence[str] | None) -> dict[str, str]:
    """Return models by name: those of `--label`, or else their folders, as short as tells them apart."""
    from fencepost.analysis.result import name_paths

    labels = labels or name_paths([Path(path) for path in paths])
    if len(labels) != len(paths) or len(set(labels)) != len(labels):
        raise UsageError(
            f"--label: give each of {', '.join(paths)} a name of its own, in this order, "
            f"not {', '.join(labels)}"
        )
    return dict(zip(labels, paths, strict=True))


def facts_of(
    models: Mapping[str, str], data: Sequence[str] | str, engines: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return for JSON which models were judged under which names, on what, and on which engines."""
    return {"folders": models, "data": data, "engines": engines}
