"""How fast the command answers: `fencepost --help` against an empty Python program.

    python -m benchmarks.startup [--runs 20]

The two are run in turn. Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python": [sys.executable, "-c", "pass"],
    "help": [sys.executable, "-m", "fencepost", "--help"],
    "inspect": [sys.executable, "-m", "fencepost", "inspect", "sample:dev"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - start)
    result = {
        f"{name}_seconds": {"median": statistics.median(times), "max": max(times)}
        for name, times in seconds.items()
    }
    print(json.dumps({"benchmark": "startup", "runs": runs, **result}))


if __name__ == "__main__":
    main()
