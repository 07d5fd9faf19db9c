"""What the commands of `fencepost analyze` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fencepost.cli.frame import OUTPUT
from fencepost.cli.groups import option
from fencepost.cli.judging import ScoringOptions, facts_of, is_model, name_models
from fencepost.cli.scores import print_table, wide_console
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.analysis.result import Analysis
    from fencepost.data.entity import Sentence

Out = Annotated[
    Path, option("--out", "The folder for the JSON, CSV, PNG and SVG files.", OUTPUT, metavar="FOLDER")
]
OUT_FOLDER = Path("analysis")


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(ScoringOptions):
    """The options of all analyses of models on a corpus."""

    out: Out = OUT_FOLDER


@dataclass(frozen=True)
class Judged:
    """What models find in a corpus, by label."""

    models: Mapping[str, str]
    sentences: list[Sentence]
    predicted: Mapping[str, list[Sentence]]
    facts: dict[str, Any]


def judge(name: str, paths: Sequence[str], options: AnalysisOptions) -> Judged:
    """Run the models on the corpus, after a check that the analysis can be drawn and saved."""
    models, data = split(name, paths, options)
    check_output(name, options.out)
    sentences = options.read_for(list(models.values()), data)
    runs = {label: options.run(path, sentences) for label, path in models.items()}
    facts = facts_of(models, data, {label: run.engine for label, run in runs.items()})
    return Judged(models, sentences, {label: run.predicted for label, run in runs.items()}, facts)


def split(name: str, paths: Sequence[str], options: AnalysisOptions) -> tuple[dict[str, str], str]:
    """Return the models by label, or else the model that ships, and the corpus."""
    if len(paths) == 1 and not is_model(paths[0]):
        from fencepost.runtime.loading import SHIPPED

        paths = [str(SHIPPED), *paths]
    models, corpora = split_many(name, paths, options.label)
    if len(corpora) > 1:
        raise UsageError(
            f"one corpus is needed, and there are {len(corpora)}: {', '.join(corpora)} (a model is a folder "
            f"with a config.json); write fencepost analyze {name} MODEL... DATA"
        )
    return models, corpora[0]


def split_many(
    name: str, paths: Sequence[str], label: Sequence[str] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the models by label, and the corpora."""
    models = [path for path in paths if is_model(path)]
    corpora = [path for path in paths if not is_model(path)]
    if not models:
        raise UsageError(
            f"{paths[0]}: there is no model here (a model is a folder with a config.json); write "
            f"fencepost analyze {name} MODEL... DATA"
        )
    if not corpora:
        raise UsageError(f"which data? Write fencepost analyze {name} MODEL... DATA")
    return name_models(models, label), corpora


def check_output(name: str, out: Path) -> None:
    """Refuse before any work what cannot be saved, or drawn without matplotlib."""
    from fencepost.analysis.result import check_target

    check_target(out, name)
    with require_extra("train"):
        import matplotlib as mpl

    mpl.use("agg")


def show(analysis: Analysis, out: Path) -> None:
    """Save an analysis, and print its table, the engines and the names of the files."""
    paths = analysis.save(out)
    console = wide_console()
    if analysis.summary is not None:
        print_table(console, analysis.name.capitalize(), analysis.summary.columns, analysis.summary.rows)
    engines = analysis.content.get("engines", {})
    if engines:
        listed = ", ".join(f"{label} ({engine})" for label, engine in engines.items())
        console.print(f"engine: {listed}", soft_wrap=True, markup=False)
    names = ", ".join(path.name for path in paths)
    console.print(f"written to {out}: {names}", soft_wrap=True, markup=False)
