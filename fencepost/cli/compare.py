"""`fencepost compare`: score several models on the same data and test their differences."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.frame import Json, check_json_target, command, output_result
from fencepost.cli.groups import argument, option
from fencepost.cli.models import resolve_model
from fencepost.cli.scores import make_console, print_table
from fencepost.cli.scoring import ScoringOptions, collect_facts, is_model, name_models
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

    from fencepost.data.entity import Sentence
    from fencepost.evaluation import Difference, Evaluation, Interval, Matches, Scores

    ByType = Mapping[str | None, Scores]

SIGNIFICANT = 0.05


@command("compare")
def compare(
    options: ScoringOptions,
    models: list[str] = argument(
        "MODEL...", "Folders or names of models, or files with predictions for the same sentences."
    ),
    data: str | None = option(None, "Corpus with the gold entities.", metavar="FILE"),
    resamples: int = option(1000, "Number of bootstrap samples for the intervals.", min=100),
    permutations: int = option(10_000, "Number of permutations in the test of each pair of models.", min=100),
    json: Json = None,
) -> None:
    """Score several models on the same data, and test whether their differences are significant.

    Example: fencepost compare my-model other-model --data test.conll
    """
    check_json_target(json)
    if data is None:
        raise UsageError("give the data with --data, as in fencepost compare MODEL MODEL --data FILE")
    if len(models) < 2:
        raise UsageError("give two or more models; for one model, use fencepost evaluate")
    models = [resolve_model(model) for model in models]
    paths = name_models(models, options.label)
    _check_folders(models)
    sentences = options.read_sentences(models, data)
    predicted, engines = _predict(paths, sentences, options)
    from fencepost.evaluation import adjust_p_values, compare_models, compute_intervals, evaluate, match

    matches: dict[str, Matches] = {}
    for label, model in paths.items():
        try:
            matches[label] = match(sentences, predicted[label])
        except UsageError as error:
            raise UsageError(f"{model}: {error}") from None
    scores = {label: compute_intervals(one, resamples) for label, one in matches.items()}
    results = {label: evaluate(sentences, one) for label, one in predicted.items()}
    pairs = {
        pair: compare_models(matches[pair[0]], matches[pair[1]], resamples, permutations)
        for pair in combinations(paths, 2)
    }
    adjusted = dict(zip(pairs, adjust_p_values([one.p for one in pairs.values()]), strict=True))
    facts = {
        **collect_facts(paths, data, engines),
        "sentences": len(sentences),
        "models": {
            label: {
                **asdict(scores[label][None]),
                "macro_f1": results[label].macro_f1,
                "ece": results[label].to_dict()["ece"],
                "by_type": {type_: asdict(one) for type_, one in scores[label].items() if type_ is not None},
            }
            for label in paths
        },
        "pairs": [
            {"models": pair, "f1_difference": asdict(one.f1), "p": one.p, "p_holm": adjusted[pair]}
            for pair, one in pairs.items()
        ],
    }

    def show() -> None:
        console = make_console()
        _print_scores(console, scores, results, engines)
        _print_types(console, scores)
        _print_pairs(console, pairs, adjusted)

    output_result(facts, json, show)


def _check_folders(models: Sequence[str]) -> None:
    """Raise `UsageError` for a folder that is neither a model nor a BRAT corpus."""
    for model in models:
        folder = Path(model)
        if folder.is_dir() and not is_model(model) and not any(folder.glob("*.ann")):
            raise UsageError.no_model(model)


def _predict(
    models: Mapping[str, str], sentences: Sequence[Sentence], options: ScoringOptions
) -> tuple[dict[str, list[Sentence]], dict[str, str | None]]:
    """Return the predictions and the engines by label; the engine is None for a file."""
    paths = list(models.values())
    files = {name: path for name, path in models.items() if not is_model(path)}
    predicted = {name: options.read_sentences(paths, path) for name, path in files.items()}
    engines: dict[str, str | None] = dict.fromkeys(models)
    for name, path in models.items():
        if name not in predicted:
            run = options.run(path, sentences)
            predicted[name], engines[name] = run.predicted, run.engine
    return {name: predicted[name] for name in models}, engines


def _format_interval(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def _print_scores(
    console: Console,
    scores: Mapping[str, ByType],
    results: Mapping[str, Evaluation],
    engines: Mapping[str, str | None],
) -> None:
    rows = []
    for name, result in results.items():
        overall = scores[name][None]
        ece = None if result.calibration is None else result.calibration.ece
        ratios = [f"{100 * one.value:.1f}" for one in (overall.precision, overall.recall)]
        values = (*ratios, _format_interval(overall.f1), f"{100 * result.macro_f1:.1f}", ece)
        rows.append((name, *values, engines[name] or "file"))
    columns = ("model", "precision", "recall", "F1", "macro F1", "ECE", "engine")
    print_table(console, "Strict scores, in percent, with 95 % intervals", columns, rows)


def _print_types(console: Console, scores: Mapping[str, ByType]) -> None:
    types = sorted({type_ for of_model in scores.values() for type_ in of_model if type_ is not None})
    rows = [
        (type_, *(_format_interval(one[type_].f1) if type_ in one else "" for one in scores.values()))
        for type_ in types
    ]
    print_table(console, "F1 by type", ("type", *scores), rows)


def _print_pairs(
    console: Console, pairs: dict[tuple[str, str], Difference], adjusted: dict[tuple[str, str], float]
) -> None:
    several = len(pairs) > 1
    rows = []
    for (first, second), one in pairs.items():
        p = adjusted[first, second]
        better = first if one.f1.value > 0 else second
        verdict = f"{better} is better" if p < SIGNIFICANT else "not significant"
        difference = f"{100 * one.f1.value:+.1f} [{100 * one.f1.low:+.1f}, {100 * one.f1.high:+.1f}]"
        rows.append((first, second, difference, f"{one.p:.4f}", *([f"{p:.4f}"] * several), verdict))
    columns = ("model", "compared with", "F1 difference", "p", *(["p, Holm"] * several), "")
    print_table(console, "Pairs: bootstrap intervals and permutation tests over sentences", columns, rows)
    console.print(
        f"p is the probability of a difference at least as large by chance; below {SIGNIFICANT}, a "
        "difference is significant"
        + (" (p, Holm: corrected for several tests)" * several)
        + ". This compares two trained models, not two methods: for those, train with several seeds "
        "(fencepost sweep).",
        soft_wrap=True,
        markup=False,
    )
