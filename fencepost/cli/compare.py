"""`fencepost compare`: several models on the same data, and whether they differ by more than chance."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import Json, Quiet, check_json_target, command, write_json
from fencepost.cli.judged import Engine, Label, Limit, Source, is_model, labels_of, predictions, told_of
from fencepost.cli.models import Changes, Threads
from fencepost.cli.options import FormatName, SkipInvalid, reads_corpora
from fencepost.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from fencepost.data import ReadOptions
    from fencepost.evaluation import Difference, Interval, Matches

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="Folders of models; or files with any program's predictions of the same sentences.",
    ),
]
Data = Annotated[
    str | None, typer.Option("--data", metavar="FILE", help="The corpus with the true entities.")
]
Resamples = Annotated[
    int, typer.Option("--resamples", min=100, help="How often sentences are drawn again for the intervals.")
]
Permutations = Annotated[
    int, typer.Option("--permutations", min=100, help="How often two models' sentences are exchanged.")
]
SIGNIFICANT = 0.05


@command("compare")
@reads_corpora
def compare(
    options: ReadOptions,
    models: Models,
    data: Data = None,
    label: Label = None,
    limit: Limit = None,
    engine: Engine = "auto",
    changes: Changes = None,
    threads: Threads = None,
    resamples: Resamples = 1000,
    permutations: Permutations = 10_000,
    format: FormatName = None,  # noqa: A002
    skip_invalid: SkipInvalid = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Score models side by side, and test whether each pair differs by more than noise."""
    check_json_target(json)
    if data is None:
        raise UsageError("give the data with --data: fencepost compare MODEL MODEL --data FILE")
    if len(models) < 2:
        raise UsageError("one model cannot be compared; give two or more (or see fencepost evaluate)")
    labels = labels_of(models, label)
    source = Source(models, options, format, skip_invalid, quiet)
    _check(models)
    sentences = source.read(data, limit)
    files = {model: source.read(model, limit) for model in models if not is_model(model)}
    from fencepost.evaluation import difference, evaluate, holm, intervals, match

    found = [
        files[model]
        if model in files
        else predictions([model], sentences, engine, changes, threads, quiet=quiet)[0]
        for model in models
    ]
    matches: dict[str, Matches] = {}
    for name, model, one in zip(labels, models, found, strict=True):
        try:
            matches[name] = match(sentences, one)
        except UsageError as error:
            raise UsageError(f"{model}: {error}") from None
    scores = {name: intervals(one, resamples) for name, one in matches.items()}
    results = {name: evaluate(sentences, one) for name, one in zip(labels, found, strict=True)}
    pairs = {
        pair: difference(matches[pair[0]], matches[pair[1]], resamples, permutations)
        for pair in combinations(labels, 2)
    }
    adjusted = dict(zip(pairs, holm([one.p for one in pairs.values()]), strict=True))
    if json is not None:
        told = {
            **told_of(models, labels, data),
            "sentences": len(sentences),
            "models": {
                name: {
                    **asdict(scores[name][None]),
                    "macro_f1": results[name].macro_f1,
                    "ece": results[name].to_dict()["ece"],
                    "by_type": {
                        type_: asdict(one) for type_, one in scores[name].items() if type_ is not None
                    },
                }
                for name in labels
            },
            "pairs": [
                {"models": pair, "f1_difference": asdict(one.f1), "p": one.p, "p_holm": adjusted[pair]}
                for pair, one in pairs.items()
            ],
        }
        write_json(told, json)
    if json is None or str(json) != "-":
        from fencepost.cli.scores import wide_console

        console = wide_console()
        _print_scores(console, labels, scores, results)
        _print_types(console, labels, scores)
        _print_pairs(console, pairs, adjusted)


def _check(models: Sequence[str]) -> None:
    """A folder is a model, or a corpus of BRAT: a typo must not show when others have been predicted."""
    for model in models:
        folder = Path(model)
        if folder.is_dir() and not is_model(model) and not any(folder.glob("*.ann")):
            raise UsageError(f"{model}: there is no model here (a model is a folder with a config.json)")


def _written(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"


def _print_scores(console: Console, labels: Sequence[str], scores: Any, results: Any) -> None:
    from fencepost.cli.scores import print_table

    rows = []
    for name in labels:
        overall, result = scores[name][None], results[name]
        ece = None if result.calibration is None else result.calibration.ece
        ratios = [f"{100 * one.value:.1f}" for one in (overall.precision, overall.recall)]
        rows.append((name, *ratios, _written(overall.f1), f"{100 * result.macro_f1:.1f}", ece))
    columns = ("model", "precision", "recall", "F1", "macro F1", "ECE")
    print_table(console, "Strict scores, in percent, with 95 % intervals", columns, rows)


def _print_types(console: Console, labels: Sequence[str], scores: Any) -> None:
    from fencepost.cli.scores import print_table

    types = sorted({type_ for name in labels for type_ in scores[name] if type_ is not None})
    rows = [
        (type_, *(_written(scores[name][type_].f1) if type_ in scores[name] else "" for name in labels))
        for type_ in types
    ]
    print_table(console, "F1 by type", ("type", *labels), rows)


def _print_pairs(
    console: Console, pairs: dict[tuple[str, str], Difference], adjusted: dict[tuple[str, str], float]
) -> None:
    from fencepost.cli.scores import print_table

    several = len(pairs) > 1
    rows = []
    for (first, second), one in pairs.items():
        p = adjusted[first, second]
        better = first if one.f1.value > 0 else second
        verdict = f"{better} is better" if p < SIGNIFICANT else "may be chance"
        difference = f"{100 * one.f1.value:+.1f} [{100 * one.f1.low:+.1f}, {100 * one.f1.high:+.1f}]"
        rows.append((first, second, difference, f"{one.p:.4f}", *([f"{p:.4f}"] * several), verdict))
    columns = ("model", "against", "F1 difference", "p", *(["p, Holm"] * several), "")
    print_table(console, "Pairs: bootstrap intervals and permutation tests over sentences", columns, rows)
    console.print(
        f"p is how often chance alone makes a difference as large; below {SIGNIFICANT} it is hardly chance"
        + (" (Holm: several tests at once)" * several)
        + ". It tells of these two models, not of two methods: for those, train with several seeds "
        "(fencepost sweep).",
        soft_wrap=True,
        markup=False,
    )
