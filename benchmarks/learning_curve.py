"""How many epochs small data needs, and whether `training.epochs=auto` finds it.

    python -m benchmarks.learning_curve [--sizes 48 200 1000] [--epochs 12 40 100 auto] [--seeds 3] [--jobs 2]

A third of GENIA's training part, always the same, is scored; each seed draws its training sentences from
the rest. There is no development data, and all other settings are the defaults; `--set KEY=VALUE` changes
them.
Each run is a process with one thread, and a line of `results/learning_curve.jsonl` as soon as it has ended;
runs of the same code and settings that are there are not repeated. Prints progress and a table to standard
error and one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import (
    RESULTS,
    Task,
    code_version,
    corpora,
    draw,
    machine,
    percent,
    report,
    run_tasks,
    say,
    say_table,
    summarise,
)
from benchmarks.quality import train_and_score

SHARE = 1 / 3
"""Of the training part, that is scored."""

AUTO = "auto"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[48, 200, 1000])
    parser.add_argument("--epochs", nargs="+", default=["12", "40", "100", AUTO])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at a time")
    parser.add_argument("--since", metavar="COMMIT", help="results of this commit and later ones count, too")
    parser.add_argument("--again", action="store_true", help="repeat runs that are done")
    parser.add_argument("--out", type=Path, default=RESULTS / "learning_curve.jsonl")
    parser.add_argument("--one", type=int, metavar="SEED", help="only the run of one size, epochs and seed")
    arguments = parser.parse_args()
    if corpora() is None:
        report({"benchmark": "learning_curve", "skipped": "no corpora"})
    elif arguments.one is None:
        do_all(arguments)
    else:
        key = key_of(arguments.sizes[0], arguments.epochs[0], arguments.one, arguments.changes)
        report({"benchmark": "learning_curve", **machine(), **key, **do_one(key)})


def key_of(size: int, epochs: str, seed: int, changes: Sequence[str]) -> dict[str, Any]:
    """Return what identifies a run among the results."""
    return {
        "sentences": size,
        "epochs": epochs,
        "seed": seed,
        "settings": list(changes),
        "commit": code_version(),
    }


def settings_of(epochs: str, changes: Sequence[str]) -> list[str]:
    return [f"training.epochs={epochs}", *changes]


def do_one(key: dict[str, Any]) -> dict[str, Any]:
    """Train a model on some of the sentences, and return its scores on those held out."""
    from fencepost.config import Config
    from fencepost.data import read
    from fencepost.training import hold_out

    folder = corpora()
    assert folder is not None
    rest, scored = hold_out(list(read(folder / "genia" / "train.jsonl")), SHARE, seed=0)
    changes = settings_of(key["epochs"], key["settings"])
    config = Config.compose(changes=changes, flags={"training": {"seed": key["seed"]}})
    sentences = draw(rest, key["sentences"], key["seed"])
    with tempfile.TemporaryDirectory() as temporary:
        return train_and_score(config, sentences, Path(temporary) / "model", None, scored)


def is_accepted(epochs: str) -> bool:
    """Return whether this version has such a value of `training.epochs`."""
    from fencepost.config import Config
    from fencepost.errors import UsageError

    try:
        Config.compose(changes=settings_of(epochs, ()))
    except UsageError:
        return False
    return True


def do_all(arguments: argparse.Namespace) -> None:
    """Do what is not done yet, and compare `auto` with the best number of epochs."""
    skipped = [epochs for epochs in arguments.epochs if not is_accepted(epochs)]
    for epochs in skipped:
        say(f"training.epochs={epochs} is skipped: this version does not accept it")
    changes = [part for change in arguments.changes for part in ("--set", change)]
    tasks = [
        Task(
            f"{size} sentences, {epochs} epochs, seed {seed}",
            key_of(size, epochs, seed, arguments.changes),
            [
                *("-m", "benchmarks.learning_curve", "--one", str(seed)),
                *("--sizes", str(size), "--epochs", epochs, *changes),
            ],
        )
        for size in arguments.sizes
        for seed in range(1, arguments.seeds + 1)
        for epochs in arguments.epochs
        if epochs not in skipped
    ]
    lines, failed = run_tasks(
        tasks, arguments.out, arguments.jobs, again=arguments.again, since=arguments.since
    )
    by_size: dict[int, dict[str, Any]] = {
        size: compare([line for line in lines if line["sentences"] == size]) for size in arguments.sizes
    }
    say_curve(by_size, arguments.epochs)
    report(
        {
            "benchmark": "learning_curve",
            **machine(),
            "commits": sorted({line["commit"] for line in lines}),
            "settings": arguments.changes,
            "sizes": by_size,
            "skipped": skipped,
            "failed": failed,
        }
    )
    if failed:
        sys.exit(1)


def compare(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return F1 by number of epochs, the best number of epochs, and how far `auto` is above it."""
    by_epochs: dict[str, list[float]] = {}
    for line in lines:
        by_epochs.setdefault(line["epochs"], []).append(line["f1"])
    f1 = {epochs: summarise(of_seeds) for epochs, of_seeds in by_epochs.items()}
    fixed = [epochs for epochs in f1 if epochs != AUTO]
    best = max(fixed, key=lambda epochs: f1[epochs]["mean"]) if fixed else None
    difference = None
    if best is not None and AUTO in f1:
        difference = round(f1[AUTO]["mean"] - f1[best]["mean"], 4)
    return {"f1": f1, "best": best, "auto_minus_best": difference}


def say_curve(by_size: dict[int, dict[str, Any]], epochs: Sequence[str]) -> None:
    rows = []
    for size, row in by_size.items():
        f1 = [percent(row["f1"][one]) if one in row["f1"] else "-" for one in epochs]
        difference = row["auto_minus_best"]
        gain = "-" if difference is None else f"{100 * difference:+.1f}"
        rows.append([f"{size:,}", *f1, row["best"] or "-", gain])
    say_table(["sentences", *epochs, "best", "auto - best"], rows)


if __name__ == "__main__":
    main()
