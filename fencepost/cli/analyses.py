"""Options and functions that the commands of `fencepost analyze` share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import OUTPUT
from fencepost.cli.models import resolve_model
from fencepost.cli.scores import make_console, print_table
from fencepost.cli.scoring import ScoringOptions, collect_facts, is_model, name_models
from fencepost.errors import UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.analysis.result import Analysis
    from fencepost.data.entity import Sentence

Out = Annotated[
    Path,
    typer.Option(
        "--out", help="Folder for the JSON, CSV, PNG and SVG files.", rich_help_panel=OUTPUT, metavar="FOLDER"
    ),
]
OUT_FOLDER = Path("analysis")


@dataclass(frozen=True, kw_only=True)
class AnalysisOptions(ScoringOptions):
    """Options of the analyses of models on a corpus."""

    out: Out = OUT_FOLDER


@dataclass(frozen=True)
class ModelPredictions:
    """Predictions of models on a corpus, by label."""

    models: Mapping[str, str]
    sentences: list[Sentence]
    predicted: Mapping[str, list[Sentence]]
    facts: dict[str, Any]


def run_models(name: str, paths: Sequence[str], options: AnalysisOptions) -> ModelPredictions:
    """Run the models on the corpus, after checking that the analysis can be drawn and saved."""
    models, data = split_paths(name, paths, options)
    check_output(name, options.out)
    sentences = options.read_sentences(list(models.values()), data)
    runs = {label: options.run(path, sentences) for label, path in models.items()}
    facts = collect_facts(models, data, {label: run.engine for label, run in runs.items()})
    return ModelPredictions(models, sentences, {label: run.predicted for label, run in runs.items()}, facts)


def split_paths(name: str, paths: Sequence[str], options: AnalysisOptions) -> tuple[dict[str, str], str]:
    """Return the models by label (default: the shipped model) and the corpus."""
    if len(paths) == 1 and not is_model(paths[0]):
        from fencepost.runtime.loading import SHIPPED

        paths = [str(SHIPPED), *paths]
    models, corpora = split_models(name, paths, options.label)
    if len(corpora) > 1:
        raise UsageError(
            f"give one corpus, not {len(corpora)}: {', '.join(corpora)} (a model folder has a config.json); "
            f"usage: fencepost analyze {name} MODEL... DATA"
        )
    return models, corpora[0]


def split_models(
    name: str, paths: Sequence[str], label: Sequence[str] | None
) -> tuple[dict[str, str], list[str]]:
    """Return the models by label, and the corpora."""
    models = [resolve_model(path) for path in paths if is_model(path)]
    corpora = [path for path in paths if not is_model(path)]
    if not models:
        raise UsageError.no_model(paths[0], f"; usage: fencepost analyze {name} MODEL... DATA")
    if not corpora:
        raise UsageError(f"give a corpus; usage: fencepost analyze {name} MODEL... DATA")
    return name_models(models, label), corpora


def check_output(name: str, out: Path) -> None:
    """Raise an error if the analysis cannot be saved, or drawn because matplotlib is missing."""
    from fencepost.analysis.result import check_target

    check_target(out, name)
    with require_extra("train"):
        import matplotlib as mpl

    mpl.use("agg")


def output_analysis(analysis: Analysis, out: Path) -> None:
    """Save an analysis, and print its table, the engines and the file names."""
    paths = analysis.save(out)
    console = make_console()
    if analysis.summary is not None:
        print_table(console, analysis.name.capitalize(), analysis.summary.columns, analysis.summary.rows)
    engines = analysis.content.get("engines", {})
    if engines:
        text = ", ".join(f"{label} ({engine})" for label, engine in engines.items())
        console.print(f"engine: {text}", soft_wrap=True, markup=False)
    names = ", ".join(path.name for path in paths)
    console.print(f"written to {out}: {names}", soft_wrap=True, markup=False)
