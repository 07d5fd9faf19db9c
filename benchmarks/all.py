"""All measurements of quality that are missing, the most valuable first.

    python -m benchmarks.all --budget 8h [--folder benchmark-models] [--since COMMIT] [--background]

Runs the benchmarks that train models, first all of them with one seed, then with further seeds, each run as a
process with one thread, two at a time. A run that has its line in `results/` is not repeated, so an
interrupted command continues where it stopped. After the budget no run starts; those that run are completed.
Then it writes the tables and pages that are made from the results. `--since` accepts results of that commit
and of later ones, for changes of the package that change no score; `--list` prints the commands and ends.
With `--background`, the command returns at once, and its output is in `FOLDER/log`. Prints one JSON object as
its last line.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.common import (
    DEADLINE,
    ROOT,
    SINGLE_THREAD,
    corpora,
    is_after_deadline,
    machine,
    report,
    say,
)

PAGES = (
    *([f"benchmarks.{name}", "--page"] for name in ("peers", "claims", "papers")),
    ["benchmarks.tables"],
)
UNITS = {"h": 3600, "m": 60, "s": 1}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=parse_duration, default=8 * 3600.0, help="such as 8h, 90m or 1h30m")
    parser.add_argument("--folder", type=Path, default=ROOT / "benchmark-models", help="folder of the models")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--since", metavar="COMMIT", help="results of this commit and later ones count, too")
    parser.add_argument("--background", action="store_true", help="run in the background")
    parser.add_argument("--list", action="store_true", help="print the commands, and stop")
    arguments = parser.parse_args()
    commands = list(list_commands(arguments.folder.resolve(), arguments.seeds, arguments.since))
    if arguments.list:
        for command in commands:
            say(" ".join(command))
        report({"benchmark": "all", "commands": len(commands)})
    elif corpora() is None:
        report({"benchmark": "all", "skipped": "no corpora"})
    elif arguments.background:
        report({"benchmark": "all", **start_in_background(arguments.folder)})
    else:
        run_all(commands, arguments.budget)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `8h`, `90m` or `1h30m`."""
    if not re.fullmatch(r"(\d+(\.\d+)?[hms])+", text):
        raise argparse.ArgumentTypeError(f"{text} is not a duration such as 8h, 90m or 1h30m")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)([hms])", text))


def list_commands(folder: Path, seeds: int, since: str | None) -> Iterator[list[str]]:
    """Yield the arguments of `python -m` for each benchmark, the most valuable first."""
    same = [] if since is None else ["--since", since]
    quick = ["fencepost", "biaffine", "token-classification", "spancat", "spacy-ner"]
    for seed in range(1, seeds + 1):
        up_to = ["--seeds", str(seed), "--jobs", "2"]
        yield ["benchmarks.peers", *up_to, "--tools", *quick]
        yield ["benchmarks.quality", "--all", *up_to, *same]
        for corpus in ("genia", "gum"):
            yield ["benchmarks.consensus", corpus, "--folder", str(folder / "consensus"), *up_to, *same]
        numbers = [str(number) for number in range(1, seed + 1)]
        students = ["--folder", str(folder / "distil"), "--jobs", "2", "--seeds", *numbers, *same]
        yield ["benchmarks.distil", *students]
        yield ["benchmarks.adapt", "--folder", str(folder / "encoders"), *up_to, *same]
        yield ["benchmarks.learning_curve", *up_to, *same]
        others = ["gum-named", "gum", "weibo", "resume"]
        yield ["benchmarks.peers", *up_to, "--corpora", *others, "--tools", *quick]
        yield ["benchmarks.peers", *up_to, "--tools", "span-marker", "--corpora", "wnut17"]
    runs = ["--runs", str(folder / "claims")]
    yield ["benchmarks.claims", "--all", "--train", *runs, "--seeds", "5"]
    yield ["benchmarks.papers", *runs, "--seeds", "3", "--jobs", "2"]


def start_in_background(folder: Path) -> dict[str, object]:
    """Start the same command in a session of its own; return its process and the file of its output."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    options = [argument for argument in sys.argv[1:] if argument != "--background"]
    with log.open("a", encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.all", *options],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return {"process": process.pid, "log": str(log)}


def run_all(commands: Sequence[Sequence[str]], budget: float) -> None:
    """Run the commands until the budget is used up, then write the pages; a failure does not stop them."""
    os.environ[DEADLINE] = str(time.time() + budget)
    failed, left = [], 0
    for command in commands:
        if is_after_deadline():
            left += 1
            continue
        say(f"== {' '.join(command)}")
        if run(command):
            failed.append(" ".join(command))
    failed += [" ".join(command) for command in PAGES if run(command)]
    report({"benchmark": "all", **machine(), "commands_left": left, "failed": failed})
    if failed:
        sys.exit(1)


def run(command: Sequence[str]) -> int:
    """Run a benchmark; return its exit code."""
    environment = os.environ | SINGLE_THREAD
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    main()
