"""How fast the command answers, in CPU seconds, and against another version of the code.

    python -m benchmarks.startup [--runs 20] [--against FOLDER]

Measures the processor time (user and system) of an empty Python program, `fencepost --help`, `inspect` and
`predict` with the model that ships. With `--against`, the same commands also run with the package in another
checkout, in turn with this one, and `ratio` is the median of this one by the median of the other. Prints one
JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.common import ROOT, machine, say

TEXT = "Ada Lovelace met Charles Babbage at the University of London."
COMMANDS = {
    "python": ["-c", "pass"],
    "help": ["-m", "fencepost", "--help"],
    "inspect": ["-m", "fencepost", "inspect", "sample:dev"],
    "predict": ["-m", "fencepost", "predict", TEXT],
}


def cpu_seconds(arguments: list[str], tree: Path) -> float:
    """Run Python with the package of a tree; return the processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        capture_output=True,
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(trees: dict[str, Path], runs: int) -> dict[str, dict[str, list[float]]]:
    """Return the times of each command with each tree; the first run of each, which compiles, is left out."""
    seconds: dict[str, dict[str, list[float]]] = {name: {tree: [] for tree in trees} for name in COMMANDS}
    for run in range(runs + 1):
        for name, arguments in COMMANDS.items():
            for tree, folder in trees.items():
                duration = cpu_seconds(arguments, folder)
                if run:
                    seconds[name][tree].append(duration)
        say(f"run {run} of {runs}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="a checkout of another version")
    options = parser.parse_args()
    trees = {"this": ROOT} | ({"other": options.against.resolve()} if options.against else {})
    result: dict[str, dict[str, float]] = {}
    for name, by_tree in measure(trees, options.runs).items():
        result[name] = {tree: round(statistics.median(times), 3) for tree, times in by_tree.items()}
        if options.against:
            result[name]["ratio"] = round(result[name]["this"] / result[name]["other"], 3)
    print(json.dumps({"benchmark": "startup", "runs": options.runs, **machine(), "cpu_seconds": result}))


if __name__ == "__main__":
    main()
