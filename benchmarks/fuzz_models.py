"""Loads models with one file damaged: each must load and answer or say what is wrong, and nothing else.

`python -m benchmarks.fuzz_models --mutations 3000 --seed 0`

Small models of all methods have a file damaged at random: bits and bytes, values inside JSON, the header of
the weights, a graph. Each is loaded and runs one sentence in a process of its own. These are failures: an
exception that is not a `FencepostError`, an entity that the model cannot have found, more than 10 seconds,
more than 2 GB of memory, and the death of the process. A case depends on the seed and its number alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a process with threads cannot be copied
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from benchmarks.common import report
from benchmarks.fuzz.model_campaign import fuzz_models


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--failures", type=Path, default=Path(tempfile.gettempdir()) / "fencepost-fuzz-failures"
    )
    arguments = parser.parse_args()
    result = fuzz_models(arguments.mutations, arguments.seed, arguments.failures)
    report(result)
    sys.exit(1 if result["failures"] else 0)


if __name__ == "__main__":
    main()
