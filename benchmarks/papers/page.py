"""`docs/papers.md`, made from the tables and the results."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from benchmarks.claims.runs import SETTINGS
from benchmarks.claims.verdict import FEWEST, above, below, estimate
from benchmarks.common import percent, summarise
from benchmarks.papers.results import Results, count_old_claims, list_commits, read_results
from benchmarks.papers.tables import OURS, TABLES, Row, Table, list_variants
from benchmarks.peers.page import format_table
from benchmarks.speed_tables import describe_source, read_newest

_HEAD = """\
<!-- Made by `python -m benchmarks.papers --page`; do not edit. -->
# The tables of the papers

The main tables and figures of the four papers, with our figures beside the papers'. Those of the papers are
copied from their texts; "-" is what a text does not have.

**Compare differences between rows, not ours with theirs.** The papers train encoders with five to sixteen
times as many weights, for more epochs, on other corpora or on all of GENIA (16,692 sentences). Our models are
those of [the claims](claims.md): on GENIA, with the encoder `minilm` (22 million weights), on half of the
training part (792 sentences, another half for each seed) unless a row says otherwise. A tenth of the training
part decides which epoch is kept, and scores are on the whole test part (1,732 sentences). Each sentence is
read by itself (`encoder.block=0`). Other settings are those of the row and the defaults, except these:

SETTINGS

Our scores are the mean and standard deviation over seeds, in per cent. A difference is the mean of the
differences in F1 between models of the same seed and training sentences, in points, with a 95 % confidence
interval by Student's t. With fewer than FEWEST seeds none is decided; of twenty intervals, one excludes zero
by chance.

COVERAGE
"""
_STEPS = """Columns with "all data" are of one model, which was trained on all of our training data (1,765 \
sentences, more epochs) with the defaults of its commit; a single seed decides nothing. """


def make_page() -> str:
    """Return the Markdown of the page."""
    results, variants = read_results(), list_variants(TABLES.values())
    settings = "\n".join(f"- {method}: `{' '.join(changes)}`" for method, changes in SETTINGS.items())
    text = (
        f"The tables need models of {len(variants)} settings, of which {len(results)} have results"
        f"{f' (commits {list_commits()})' if results else ''}. "
        "`python -m benchmarks.papers` trains what is missing. Results of claims are used where their "
        f"settings are those of a row. {count_old_claims()} of the [claims](claims.md) have older results, "
        "which are not used: word shapes, thresholds and the initial bias were different then."
    )
    head = _HEAD.replace("SETTINGS", settings).replace("FEWEST", str(FEWEST))
    parts = [head.replace("COVERAGE", textwrap.fill(text, 110, break_on_hyphens=False))]
    return "\n".join([*parts, *(describe_table(name, table, results) for name, table in TABLES.items())])


def describe_table(name: str, table: Table, results: Results) -> str:
    """Return the section of a table."""
    ours = list(OURS[table.ours])
    header = ["", *(f"paper: {title}" for title in table.columns), *(f"ours: {title}" for title in ours)]
    header += [*(["ours: difference in F1"] if table.group != 1 else []), "seeds"]
    header += [f"all data: {title}" for title in ours] if table.steps else []
    rows = [
        [
            row.title,
            *(format_figure(figure) for figure in row.figures),
            *format_ours(table, row, results),
            *format_steps(table, row),
        ]
        for row in table.rows
    ]
    source = [_STEPS + describe_source(read_newest()[table.steps])] if table.steps else []
    texts = [
        f"({table.paper}) {table.setting}",
        f"**The paper's conclusion**: {table.reading}",
        f"**Ours**: {conclude(name, table, results)}",
        *source,
    ]
    before, *after = (textwrap.fill(text, 110, break_on_hyphens=False) + "\n" for text in texts)
    return "\n".join([f"## {table.title}\n", before, format_table(header, rows), "", *after])


def format_figure(figure: float | str | None) -> str:
    """Return a figure of a paper: F1 and the like as printed, counts with commas."""
    if figure is None or isinstance(figure, str):
        return figure or "-"
    return f"{figure:.2f}" if isinstance(figure, float) else f"{figure:,}"


def format_ours(table: Table, row: Row, results: Results) -> list[str]:
    """Return our scores, the difference to the first row if there is one, and the number of seeds."""
    groups = [get_scores(row, name, score, results) for name, score in table.list_scores(row)]
    names = list(OURS[table.ours].values())
    cells = [
        format_scores(key, list(group.values())) if group else "not run"
        for (_, key), group in zip(names, groups, strict=True)
    ]
    difference = [format_difference(compare(table, row, results))] if table.group != 1 else []
    return [*cells, *difference, str(max(map(len, groups)) or "")]


def get_scores(row: Row, name: str, score: str, results: Results) -> dict[int, float]:
    """Return a score by seed."""
    by_seed = results.get(row.variant, {})
    return {seed: of[name][score] for seed, of in sorted(by_seed.items()) if score in of.get(name, {})}


def format_scores(score: str, values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):,.0f}" if score == "support" else percent(summarise(values))


def format_steps(table: Table, row: Row) -> list[str]:
    """Return the scores of the model that was trained on all of the training data."""
    if table.steps is None:
        return []
    line = read_newest()[table.steps]
    sweeps = [one for sweep in line["sweeps"].values() for one in sweep]
    scores: dict[str, Any] = {
        f"offsets {name} {label}": of_label
        for name, labels in line["reports"].get("offsets", {}).items()
        for label, of_label in labels.items()
    } | {" ".join(f"{key}={value}" for key, value in one["set"].items()): one for one in sweeps}
    return [
        format_scores(score, [scores[name][score]]) if name in scores else "-"
        for name, score in table.list_scores(row)
    ]


def compare(table: Table, row: Row, results: Results) -> list[float] | None:
    """Return the differences in F1 to the first row, by common seed; None if both have the same models."""
    first = table.find_first(row)
    if (first.variant, first.scores) == (row.variant, row.scores):
        return None
    old, new = (get_scores(one, one.scores, "f1", results) for one in (first, row))
    return [new[seed] - old[seed] for seed in old if seed in new]


def format_difference(differences: Sequence[float] | None) -> str:
    if not differences:
        return ""
    number = estimate(differences)
    if number.low is None or number.high is None:
        return f"{100 * number.mean:+.1f}"
    return f"{100 * number.mean:+.1f} ({100 * number.low:+.1f} to {100 * number.high:+.1f})"


def conclude(name: str, table: Table, results: Results) -> str:
    """Return what the differences allow to be said."""
    if not any(row.variant in results for row in table.rows):
        return f"not run in this setting yet: `python -m benchmarks.papers --only {name}`."
    if table.group == 1:
        return "rows are of the same models, and not compared with each other."
    titles: dict[str, list[str]] = {}
    for row in table.rows:
        differences = compare(table, row, results)
        if differences is not None:
            titles.setdefault(judge(differences), []).append(row.title)
    first = "the first row" if not table.group else "the row before"
    return f"F1 against {first} is " + "; ".join(f"{one} ({', '.join(titles[one])})" for one in titles) + "."


def judge(differences: Sequence[float]) -> str:
    if len(differences) < FEWEST:
        return "not measured with enough seeds"
    number = estimate(differences)
    if above(number) == "holds":
        return "higher"
    return "lower" if below(number) == "holds" else "undecided within noise"
