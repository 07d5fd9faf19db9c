"""Whether an encoder that has read raw text of a domain learns more from its annotated sentences.

    python -m benchmarks.adapt --folder ENCODERS [--sizes 200 1765] [--seeds 3] [--jobs 2]

Adapts MiniLM to the raw sentences of GENIA (`fencepost adapt`), unless `ENCODERS/genia-minilm` is there
already, trains boundary smoothing with it and with MiniLM itself on some or all training sentences, and
scores both on the test data. With fewer than all sentences, 30 epochs; else 12. Lines of
`results/adapt.jsonl`; prints a table to standard error and one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import (
    RESULTS,
    Task,
    corpora,
    machine,
    percent,
    report,
    run_tasks,
    say,
    say_table,
    summarise,
)
from benchmarks.quality import MINILM, Run, arguments_of, key_of

ADAPTED, ALL, EPOCHS = "genia-minilm", 1765, 30


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of the adapted encoder")
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, ALL], help="training sentences")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1")
    parser.add_argument("--jobs", type=int, default=1, help="number of training runs at a time")
    parser.add_argument("--since", metavar="COMMIT", help="results of this commit and later ones count, too")
    parser.add_argument("--out", type=Path, default=RESULTS / "adapt.jsonl")
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        report({"benchmark": "adapt", "skipped": "no corpora"})
        return
    adapt(arguments.folder / ADAPTED, folder / "genia" / "raw.txt")
    os.environ["FENCEPOST_ENCODERS"] = str(arguments.folder.resolve())
    tasks = [
        make_task(encoder, size, seed)
        for seed in range(1, arguments.seeds + 1)
        for size in arguments.sizes
        for encoder in (MINILM, ADAPTED)
    ]
    lines, failed = run_tasks(tasks, arguments.out, arguments.jobs, since=arguments.since)
    rows: dict[str, list[dict[str, float]]] = {}
    for line in lines:
        name = f"{line['sentences'] or ALL:,} sentences, {line['encoder']}"
        rows.setdefault(name, []).append({key: line[key] for key in ("f1", "precision", "recall")})
    result: dict[str, Any] = {name: summarise(of_name) for name, of_name in sorted(rows.items())}
    say_table(
        ["", "seeds", "F1"],
        [[name, str(len(rows[name])), percent(row["f1"])] for name, row in result.items()],
    )
    report({"benchmark": "adapt", **machine(), "results": result, "failed": failed})
    if failed:
        sys.exit(1)


def adapt(out: Path, texts: Path) -> None:
    """Adapt MiniLM, unless that is done."""
    if (out / "metrics.json").is_file():
        say(f"{out}: is there already")
        return
    command = ["fencepost", "adapt", MINILM, texts, "--pretokenized", "--out", out]
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True)


def make_task(encoder: str, size: int, seed: int) -> Task:
    """Return the training with an encoder on this number of sentences."""
    run = Run("genia", "boundary-smoothing", encoder)
    some = size < ALL
    values = argparse.Namespace(
        changes=[f"training.epochs={EPOCHS}"] if some else [],
        sentences=size if some else None,
        dev_share=None,
    )
    name = f"{encoder}, {size:,} sentences, seed {seed}"
    return Task(name, key_of(run, seed, values), arguments_of(run, seed, values))


if __name__ == "__main__":
    main()
