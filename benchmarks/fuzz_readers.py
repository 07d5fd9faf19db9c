"""Feeds mutated corpora to every reader: each must read them or say what is wrong, and nothing else.

`python -m benchmarks.fuzz_readers --mutations 1000000 --seed 0 --jobs 2`

Small valid files are damaged at random and read in memory, as the format that detection finds and as the
format that they once were. These are failures: an exception that is not a `FencepostError`, a reading that
does not end, the death of the process, and a sentence that differs from what a second, naive reading of the
same bytes finds. A case depends on the seed, the format and its number alone, so that a failure can be
made again; its input is kept in the folder of failures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.common import report
from benchmarks.fuzz.campaign import FUZZED, fuzz


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--failures", type=Path, default=Path(tempfile.gettempdir()) / "fencepost-fuzz-failures"
    )
    parser.add_argument("--formats", nargs="+", choices=FUZZED, default=FUZZED)
    arguments = parser.parse_args()
    result = fuzz(arguments.mutations, arguments.seed, arguments.jobs, arguments.failures, arguments.formats)
    report(result)
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
