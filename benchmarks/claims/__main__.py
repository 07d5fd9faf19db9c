"""The command line of the claims."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import benchmarks.claims
from benchmarks.claims.claims import CLAIMS, Claim
from benchmarks.claims.page import RESULTS, page
from benchmarks.claims.runs import SEEDS, Runs, made_with
from benchmarks.common import ROOT, corpora, is_after_deadline, machine, report, say

PAGE = ROOT / "docs" / "claims.md"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=benchmarks.claims.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="all claims whose runs are there, or are made")
    parser.add_argument("--train", action="store_true", help="make the runs that are not there")
    parser.add_argument("--runs", type=Path, default=Path("claim-runs"), help="the folder of the runs")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--page", action="store_true", help="write docs/claims.md")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {claim.name for claim in CLAIMS}
    if unknown:
        parser.error(f"there is no claim {', '.join(sorted(unknown))}; without a name all are listed")
    claims = [claim for claim in CLAIMS if arguments.all or claim.name in arguments.names]
    verdicts: dict[str, str] = {}
    if claims and corpora() is None:
        report({"benchmark": "claims", "skipped": "no corpora"})
        return
    runs = Runs(arguments.runs, arguments.seeds)
    for claim in claims:
        verdicts[claim.name] = judged(claim, runs, train=arguments.train)
        say(f"{claim.name}: {verdicts[claim.name]}")
    if arguments.page:
        PAGE.write_text(page(), encoding="utf-8")
    if not claims and not arguments.page:
        verdicts = {claim.name: _known(claim) for claim in CLAIMS}
    report({"benchmark": "claims", **machine(), "verdicts": verdicts})


def judged(claim: Claim, runs: Runs, *, train: bool) -> str:
    """Judges a claim by the runs that are there, and writes its result."""
    if train:
        for variant in claim.variants:
            if not is_after_deadline():
                runs.train(variant)
    groups = [runs.finished(variant) for variant in claim.variants]
    if not set.intersection(*(set(group) for group in groups)):
        return "not run"
    result = claim.judge(*groups)
    content = {
        "claim": claim.name,
        "paper": claim.paper,
        "says": claim.says,
        "number_is": claim.number,
        "holds_if": claim.rule,
        "variants": [
            [variant.method, *variant.settings, f"share={variant.share:g}"] for variant in claim.variants
        ],
        **made_with(),
        "commits": sorted({group[seed].commit for group in groups for seed in result.seeds if seed in group}),
        **result.to_dict(),
    }
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{claim.name}.json").write_text(text, encoding="utf-8")
    return result.verdict


def _known(claim: Claim) -> str:
    path = RESULTS / f"{claim.name}.json"
    return str(json.loads(path.read_text(encoding="utf-8"))["verdict"]) if path.is_file() else "not run"


if __name__ == "__main__":
    main()
