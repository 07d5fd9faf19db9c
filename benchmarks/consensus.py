"""Whether a combination of the four methods is better than the best of them.

    python -m benchmarks.consensus genia --folder MODELS [--seeds 3] [--jobs 2] [--epochs 8]

Trains a model of each method in `MODELS` by `benchmarks.quality`, unless it exists, combines them
with the development data (GENIA has none: a third of its training data is held out), and scores members and
combination on the test data. One line of `results/consensus.jsonl` for each seed and combination, of which
`python -m benchmarks.tables` makes a table. Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import (
    RESULTS,
    Task,
    code_version,
    corpora,
    machine,
    read_lines,
    report,
    run_tasks,
    say,
    scores_of,
    summarise,
)
from benchmarks.quality import CORPORA, METHODS, Run, arguments_of, key_of, read_parts

if TYPE_CHECKING:
    from fencepost import Sentence

DEV_SHARE = 0.333
OUT = RESULTS / "consensus.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", choices=CORPORA)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the models")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1, help="number of training runs at a time")
    parser.add_argument("--since", metavar="COMMIT", help="models of this commit and later ones count, too")
    arguments = parser.parse_args()
    if corpora() is None:
        report({"benchmark": "consensus", "skipped": "no corpora"})
        return
    run_all(arguments)
    report({"benchmark": "consensus", **machine(), "results": summarise_results(arguments.corpus)})


def run_all(arguments: argparse.Namespace) -> None:
    """Train the members that are missing, then combine and score those of each seed."""
    seeds = range(1, arguments.seeds + 1)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    tasks = [make_task(arguments, method, seed) for seed in seeds for method in arguments.methods]
    lines, failed = run_tasks(
        tasks, arguments.folder / "members.jsonl", arguments.jobs, since=arguments.since
    )
    if failed:
        sys.exit(1)
    for seed in seeds:
        members = [line for line in lines if line["seed"] == seed]
        if len(members) < len(arguments.methods) or is_combined(arguments.corpus, members):
            continue
        line = combine_members(arguments, seed, members)
        with OUT.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def is_combined(corpus: str, members: Sequence[dict[str, Any]]) -> bool:
    """Return whether the results have a combination of these models."""
    f1 = {line["method"]: line["f1"] for line in members}
    return any(
        line["corpus"] == corpus and f1 == {name: scores["f1"] for name, scores in line["members"].items()}
        for line in read_lines(OUT)
    )


def get_folder(arguments: argparse.Namespace, method: str, seed: int) -> Path:
    """Return the folder of a member."""
    folder: Path = arguments.folder / arguments.corpus / f"{method}-{seed}"
    return folder


def make_task(arguments: argparse.Namespace, method: str, seed: int) -> Task:
    """Return the training of a member."""
    changes = [f"training.epochs={arguments.epochs}"]
    run = Run(arguments.corpus, method, CORPORA[arguments.corpus].encoder)
    values = argparse.Namespace(changes=changes, sentences=None, dev_share=DEV_SHARE)
    keep = ["--keep", str(get_folder(arguments, method, seed).resolve())]
    return Task(f"{run}, seed {seed}", key_of(run, seed, values), [*arguments_of(run, seed, values), *keep])


def combine_members(
    arguments: argparse.Namespace, seed: int, lines: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Combine the models of a seed; return the test scores of the members and of the combinations."""
    from fencepost.training.combining import combine

    folders = [get_folder(arguments, method, seed) for method in arguments.methods]
    members = {line["method"]: line for line in lines}
    parts = read_parts(arguments.corpus, None, DEV_SHARE, seed)
    scores = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name, dev in (("fitted", parts["dev"]), ("equal weights", None)):
            out = Path(temporary) / name
            result = combine(folders, out, dev)
            say(f"seed {seed}, {name}: {result.settings}")
            scores[name] = score(out, parts["test"]) | {"slopes": result.settings.slopes}
    keys = ("precision", "recall", "f1", "ece")
    return {
        "corpus": arguments.corpus,
        "seed": seed,
        "epochs": arguments.epochs,
        "members": {method: {key: line[key] for key in keys} for method, line in members.items()},
        "members_commit": sorted({line["commit"] for line in members.values()}),
        "combinations": scores,
        "commit": code_version(),
        **machine(),
    }


def score(folder: Path, test: list[Sentence]) -> dict[str, Any]:
    """Return the scores of a model on the test data, and the seconds that it took."""
    from fencepost.evaluation import evaluate
    from fencepost.runtime.loading import load

    ner = load(folder)
    start = time.perf_counter()
    predicted = list(ner.predict(test))
    seconds = round(time.perf_counter() - start, 1)
    return {**scores_of(evaluate(test, predicted)), "seconds": seconds}


def summarise_results(corpus: str) -> dict[str, Any]:
    """Return means and deviations over the seeds."""
    # the last line of a seed counts
    lines = {line["seed"]: line for line in read_lines(OUT) if line["corpus"] == corpus}
    if not lines:
        return {}
    rows = {
        name: summarise([{key: line[part][name][key] for key in ("f1", "ece")} for line in lines.values()])
        for part in ("members", "combinations")
        for name in next(iter(lines.values()))[part]
    }
    return {"seeds": sorted(lines), **rows}


if __name__ == "__main__":
    main()
