"""How good the models get on real corpora: trains one and scores it on the test part.

    python -m benchmarks.quality genia [--method boundary-smoothing] [--seed 1] [--set KEY=VALUE ...]
                                       [--keep FOLDER]

Corpora: genia (no development part: the last epoch is kept), gum, weibo, resume, wnut17. The settings of
each are below; `--set` changes them. Prints the epochs as they go to standard error and one JSON object
as its last line.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import corpora, machine, report, say

SCRATCH = ["encoder.name=scratch", "encoder.scratch.characters=none"]
RUNS: dict[str, tuple[dict[str, str], list[str]]] = {
    "genia": ({"train": "genia/train.jsonl", "test": "genia/test.jsonl"}, ["training.epochs=12"]),
    "gum": (
        {"train": "gum/train.jsonl", "dev": "gum/dev.jsonl", "test": "gum/test.jsonl"},
        ["training.epochs=6"],
    ),
    "weibo": (
        {"train": "weibo/train.conll", "dev": "weibo/dev.conll", "test": "weibo/test.conll"},
        [*SCRATCH, "training.epochs=30", "training.learning_rate=2e-3"],
    ),
    "resume": (
        {"train": "resume/train.bmes", "dev": "resume/dev.bmes", "test": "resume/test.bmes"},
        [*SCRATCH, "training.epochs=20", "training.learning_rate=2e-3"],
    ),
    "wnut17": (
        {"train": "wnut17/train.conll", "dev": "wnut17/dev.conll", "test": "wnut17/test.conll"},
        ["training.epochs=8"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", choices=RUNS)
    parser.add_argument("--method", default="boundary-smoothing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--keep", type=Path, help="save the model in this folder")
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        report({"benchmark": "quality", "skipped": "no corpora"})
        return
    files, changes = RUNS[arguments.corpus]
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.keep or Path(temporary) / "model"
        changes = [f"method.name={arguments.method}", *changes, *arguments.changes]
        report(run(folder, files, changes, arguments.seed, out))


def run(folder: Path, files: dict[str, str], changes: list[str], seed: int, out: Path) -> dict[str, Any]:
    from fencepost.config import Config
    from fencepost.data import read
    from fencepost.training import train

    parts = {part: list(read(folder / file)) for part, file in files.items()}
    config = Config.compose(changes=changes, flags={"training": {"seed": seed}})
    say(f"{files['train']}: {len(parts['train']):,} sentences, {' '.join(changes)}, seed {seed}")
    start = time.perf_counter()
    outcome = train(config, parts["train"], out, parts.get("dev"), parts["test"], quiet=False)
    assert outcome.test is not None
    scores = outcome.test.to_dict()
    return {
        "benchmark": "quality",
        **machine(),
        "data": files,
        "changes": changes,
        "seed": seed,
        **{name: scores[name] for name in ("precision", "recall", "f1", "macro_f1", "ece", "by_type")},
        "dev_f1": outcome.best["dev_f1"] if outcome.best else None,
        "kept_epoch": outcome.best["epoch"] if outcome.best else None,
        "seconds": round(time.perf_counter() - start),
    }


if __name__ == "__main__":
    main()
