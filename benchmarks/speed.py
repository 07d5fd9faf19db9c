"""All measurements of speed and memory in the documentation, one after the other, on an idle machine.

    python -m benchmarks.speed --models FOLDER [--only NAME ...] [--list]

FOLDER has models of all four methods that were trained on GENIA: `python -m benchmarks.quality --all --seeds
1 --only 'genia:*' --keep FOLDER`, and then `fencepost export FOLDER/genia-boundary-smoothing-1 --int8`. Each
measurement is a command whose last line is its result. It is appended
to `results/speed.jsonl` with the command and the commit; `python -m benchmarks.tables` writes the tables. Run
nothing else meanwhile: it takes about an hour. Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.common import RESULTS, ROOT, SINGLE_THREAD, code_version, corpora, report, say
from benchmarks.quality import METHODS

FILE = RESULTS / "speed.jsonl"
MODEL = "MODEL"
"""Stands in a command for the folder of the model of a method."""


@dataclass(frozen=True)
class Measurement:
    """A command, after `python -m`, and the methods whose models it gets, in place of each `MODEL`."""

    command: str
    methods: tuple[str, ...] = ("boundary-smoothing",)
    single_thread: bool = False

    def fill(self, models: Path) -> list[str]:
        """Return the arguments of `python` with the folders of the models."""
        folders = iter(str(models / f"genia-{method}-1") for method in self.methods)
        return ["-m", *(next(folders) if part == MODEL else part for part in self.command.split())]


MEASUREMENTS = {
    "throughput": Measurement("benchmarks.throughput MODEL --rounds 5"),
    "quantisation": Measurement("benchmarks.quantisation MODEL genia --sentences 150 --rounds 4"),
    "contention": Measurement("benchmarks.contention --rounds 5"),
    "waiting": Measurement(
        "benchmarks.contention --tasks train predict --also GOMP_SPINCOUNT=300000 --also "
        "OMP_WAIT_POLICY=passive"
    ),
    "windows": Measurement(
        "benchmarks.contention --tasks words_100 words_5000 --busy 0 --rounds 2", single_thread=True
    ),
    "settings": Measurement(
        "benchmarks.contention --tasks train --settings --busy 0 --rounds 4", single_thread=True
    ),
    **{
        f"head_cost:{method}": Measurement(f"benchmarks.head_cost --method {method} --batches 16")
        for method in METHODS
    },
    "serve_load": Measurement("benchmarks.serve_load --rounds 3"),
    "serve_hostile": Measurement("benchmarks.serve_load --hostile --rounds 3"),
    "serve_memory": Measurement("benchmarks.serve_memory"),
    "startup": Measurement("benchmarks.startup --runs 5"),
    "installation": Measurement("benchmarks.installation"),
    "tokenizer": Measurement("benchmarks.tokenizer gum genia"),
    "line_breaks": Measurement("benchmarks.line_breaks"),
    "parity": Measurement("benchmarks.parity MODEL MODEL MODEL MODEL", METHODS),
    **{
        f"memory:{method}": Measurement(
            f"benchmarks.memory --method {method} --model MODEL", (method,), single_thread=True
        )
        for method in METHODS
    },
    "steps:boundary-offset": Measurement("benchmarks.method_reports MODEL", ("boundary-offset",)),
    "steps:locate-and-label": Measurement("benchmarks.method_reports MODEL", ("locate-and-label",)),
    "steps:diffusion": Measurement(
        "benchmarks.method_reports MODEL --sweep steps=1,2,4,10 --sweep spans=20,60,120", ("diffusion",)
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, help="folder of the models")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="such as 'head_cost:*'")
    parser.add_argument("--list", action="store_true", help="print the commands, and stop")
    arguments = parser.parse_args()
    chosen = [name for name in MEASUREMENTS if any(fnmatchcase(name, one) for one in arguments.only)]
    if not chosen:
        parser.error(f"--only: the measurements are {', '.join(MEASUREMENTS)}")
    if arguments.list:
        for name in chosen:
            say(f"{name}: python -m {MEASUREMENTS[name].command}")
        report({"benchmark": "speed", "measurements": chosen})
    elif corpora() is None:
        report({"benchmark": "speed", "skipped": "no corpora"})
    elif arguments.models is None:
        parser.error("give the folder of the models with --models")
    else:
        failed = [name for name in chosen if not measure(name, arguments.models.resolve())]
        report({"benchmark": "speed", "measured": len(chosen) - len(failed), "failed": failed})
        if failed:
            sys.exit(1)


def measure(name: str, models: Path) -> bool:
    """Measure, and append the result to the file; return False if the command failed."""
    measurement = MEASUREMENTS[name]
    say(f"== {name}: {measurement.command}")
    environment = os.environ | (SINGLE_THREAD if measurement.single_thread else {})
    command = [sys.executable, *measurement.fill(models)]
    process = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if process.returncode:
        say(f"{name} failed with exit code {process.returncode}")
        return False
    result = json.loads(process.stdout.splitlines()[-1])
    line = {"name": name, "command": measurement.command, "commit": code_version(), **result}
    with FILE.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")
    return True


if __name__ == "__main__":
    main()
