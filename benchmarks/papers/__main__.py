"""The command line of the tables."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import benchmarks.papers
from benchmarks.claims.runs import SEEDS, SHARE, Runs, Variant
from benchmarks.common import ROOT, corpora, is_after_deadline, machine, report, say
from benchmarks.papers.page import make_page
from benchmarks.papers.results import FILE, compute_scores, read_results
from benchmarks.papers.tables import TABLES, list_variants

PAGE = ROOT / "docs" / "papers.md"
MINUTES = {"boundary-smoothing": 8, "boundary-offset": 12, "locate-and-label": 5, "diffusion": 12}
"""About how long a run takes on one thread, with half of the training data."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=benchmarks.papers.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(TABLES), choices=TABLES, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of seeds, from 1")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at a time")
    parser.add_argument("--runs", type=Path, default=Path("claim-runs"), help="folder of the runs")
    parser.add_argument("--list", action="store_true", help="print what is missing, and stop")
    parser.add_argument("--page", action="store_true", help="write docs/papers.md, and stop")
    arguments = parser.parse_args()
    missing = find_missing(arguments.only, arguments.seeds)
    if arguments.page:
        PAGE.write_text(make_page(), encoding="utf-8")
    elif arguments.list:
        for variant, seeds in missing.items():
            say(f"{' '.join((variant.method, *variant.changes))}, share {variant.share:g}: seeds {seeds}")
    elif corpora() is None:
        report({"benchmark": "papers", "skipped": "no corpora"})
        return
    else:
        train_missing(missing, Runs(arguments.runs, arguments.seeds), arguments.jobs)
        missing = find_missing(arguments.only, arguments.seeds)
    minutes = sum(MINUTES[one.method] * one.share / SHARE * len(seeds) for one, seeds in missing.items())
    count = sum(map(len, missing.values()))
    report({"benchmark": "papers", **machine(), "runs_missing": count, "minutes_missing": round(minutes)})
    if count and not (arguments.page or arguments.list or is_after_deadline()):
        sys.exit(1)


def find_missing(tables: list[str], seeds: int) -> dict[Variant, list[int]]:
    """Return the seeds of each variant that have no line with all scores."""
    results = read_results()
    missing = {
        variant: [
            seed for seed in range(1, seeds + 1) if not names <= results.get(variant, {}).get(seed, {}).keys()
        ]
        for variant, names in list_variants(TABLES[name] for name in tables).items()
    }
    return {variant: of_variant for variant, of_variant in missing.items() if of_variant}


def train_missing(missing: dict[Variant, list[int]], runs: Runs, jobs: int) -> None:
    """Train the variants, and write a line for each seed that is missing."""
    names = list_variants(TABLES.values())
    for variant, seeds in missing.items():
        if is_after_deadline():
            return
        runs.train(variant, seeds, jobs)
        for seed, run in runs.finished(variant).items():
            if seed in seeds:
                line = {
                    **machine(),
                    "commit": run.commit,
                    "method": variant.method,
                    "settings": variant.settings,
                    "share": variant.share,
                    "seed": seed,
                    "scores": compute_scores(run, names[variant]),
                }
                with FILE.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
