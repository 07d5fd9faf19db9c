"""Scores of finished runs, and the results: ours, and those of the claims."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.claims.claims import make_tables
from benchmarks.claims.page import RESULTS as CLAIMS
from benchmarks.claims.runs import FinishedRun, Variant, test_sentences
from benchmarks.common import RESULTS, read_lines
from benchmarks.papers.tables import TABLES, list_variants

FILE = RESULTS / "papers.jsonl"
COUNTS = ("true_positives", "predicted", "support")

Results = dict[Variant, dict[int, dict[str, Any]]]
"""Scores by name, of each variant and seed."""


def read_results() -> Results:
    """Return our results, and those of claims that have scores of the same settings."""
    variants = {(one.method, tuple(one.settings), one.share): one for one in list_variants(TABLES.values())}
    results: Results = {}
    for line in (*read_claims(), *read_lines(FILE)):
        variant = variants.get((line["method"], tuple(line["settings"]), line["share"]))
        if variant is not None:
            results.setdefault(variant, {}).setdefault(line["seed"], {}).update(line["scores"])
    return results


def list_commits() -> str:
    """Return the versions of the code that trained the models of our results."""
    lines = (*read_claims(), *read_lines(FILE))
    commits = {commit[:7] for line in lines for commit in line["commit"].split(", ")}
    return ", ".join(f"`{commit}`" for commit in sorted(commits))


def read_claims() -> Iterator[dict[str, Any]]:
    """Yield a line for each score in the evidence of the claims, without older ones."""
    for result in load_claims():
        evidence = {} if is_old(result) else result["evidence"]
        scores = [
            (variant, seed, "all", {"f1": f1})
            for variant, name in enumerate(("f1_without", "f1_with"))
            for seed, f1 in zip(result["seeds"], evidence.get(name, ()), strict=False)
        ]
        for seed, modes in evidence.get("scores", {}).items():
            scores += [(0, seed, f"offsets decoding {mode}", of_mode) for mode, of_mode in modes.items()]
        for variant, seed, name, of_name in scores:
            method, *settings, share = result["variants"][variant]
            line = {"method": method, "settings": settings, "share": float(share.removeprefix("share="))}
            commit = ", ".join(result["commits"])
            yield {**line, "seed": int(seed), "commit": commit, "scores": {name: of_name}}


def load_claims() -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(CLAIMS.glob("*.json"))]


def is_old(result: Mapping[str, Any]) -> bool:
    """Return whether a result is from before commits were recorded; not all of its settings are."""
    return "commits" not in result


def count_old_claims() -> int:
    return sum(map(is_old, load_claims()))


def compute_scores(run: FinishedRun, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return scores on the test data by their names, as rows give them."""
    results: dict[str, Any] = {"all": run.test}
    scores: dict[str, Mapping[str, Any]] = {}
    for name in names:
        kind, _, lengths = name.partition(" length ")
        if name.startswith("offsets "):
            _, table, label = name.split()
            scores[name] = asdict(make_tables(run, "offsets")[table][label])
            continue
        if kind not in results:
            results[kind] = _predict(run, kind)
        scores[name] = _select_lengths(results[kind], lengths) if lengths else results[kind]
    return {
        name: {key: scores[name][key] for key in ("precision", "recall", "f1", "support")}
        for name in sorted(scores)
    }


def _predict(run: FinishedRun, change: str) -> dict[str, Any]:
    """Return the scores with another setting of prediction."""
    from fencepost.evaluation import evaluate
    from fencepost.settings import parse_yaml

    key, _, value = change.partition("=")
    recogniser = run.recogniser().with_options(**{key: parse_yaml(value)})
    return evaluate(test_sentences(), recogniser.predict(test_sentences())).to_dict()


def _select_lengths(result: Mapping[str, Any], lengths: str) -> dict[str, Any]:
    """Return the scores of entities of `3`, `5-9` or `10+` words."""
    from fencepost.evaluation import Score

    shortest, _, longest = lengths.rstrip("+").partition("-")
    most = math.inf if lengths.endswith("+") else int(longest or shortest)
    rows = [row for length, row in result["by_length"].items() if int(shortest) <= int(length) <= most]
    return asdict(Score.of(*(sum(row[key] for row in rows) for key in COUNTS)))
