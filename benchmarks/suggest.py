"""How many sentences must be annotated, if `fencepost suggest` chooses them, and if they are random.

    python -m benchmarks.suggest [--corpora genia gum] [--strategies uncertainty random] [--seeds 3]
        [--sizes 100 400 700 1000] [--random-sizes 700 1000] [--reads 8000]

Simulated annotation. Each seed draws the first number of `--sizes` sentences of the training part at random,
which all strategies share, and trains a model with the default settings (`--reads`, `--epochs` and `--set
KEY=VALUE` change them), without development data. The model chooses sentences from those that are left, up to
the next size, they get their gold entities, and a new model is trained on all. Random choice needs no model,
so that its rounds are done for `--random-sizes` alone, if these are given. Of the training part, `--pool`
sentences can be chosen, and `--scored` sentences of the test part are scored; both are drawn once.
Each round is a process with one thread, and a line of `results/suggest.jsonl` as soon as it has ended, with
what its model chooses; rounds of the same code and settings that are there are not repeated, nor, with
`--since COMMIT`, those of that commit and of later ones. Prints progress and tables to standard error and one
JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import (
    RESULTS,
    Task,
    code_version,
    corpora,
    draw,
    machine,
    percent,
    read_corpus,
    report,
    run_tasks,
    say,
    say_table,
    scores_of,
    summarise,
)

if TYPE_CHECKING:
    from fencepost import Sentence

MODEL_STRATEGIES = ("uncertainty", "boundary", "diversity")
RANDOM = "random"
START = "start"
"""In place of a strategy: the random sentences that all begin with."""

Line = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", nargs="+", choices=("genia", "gum"), default=["genia", "gum"])
    parser.add_argument(
        "--strategies", nargs="+", choices=(*MODEL_STRATEGIES, RANDOM), default=["uncertainty", RANDOM]
    )
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=[*range(100, 1001, 100)],
        metavar="N",
        help="numbers of sentences",
    )
    parser.add_argument("--random-sizes", type=int, nargs="+", metavar="N", help="sizes of random choice")
    parser.add_argument("--pool", type=int, default=3000, help="training sentences that can be chosen")
    parser.add_argument("--scored", type=int, default=1000, help="test sentences that are scored")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", help="training.epochs, unless the default")
    length.add_argument(
        "--reads", type=int, help="sentences that the epochs of a round read, 60 epochs at most"
    )
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--jobs", type=int, default=1, help="number of rounds at a time")
    parser.add_argument("--since", metavar="COMMIT", help="results of this commit and later ones count, too")
    parser.add_argument("--again", action="store_true", help="repeat rounds that are done")
    parser.add_argument("--out", type=Path, default=RESULTS / "suggest.jsonl")
    parser.add_argument("--one", type=Path, metavar="FILE", help="only the round that a JSON file describes")
    arguments = parser.parse_args()
    if arguments.epochs is not None:
        arguments.changes.append(f"training.epochs={arguments.epochs}")
    if corpora() is None:
        report({"benchmark": "suggest", "skipped": "no corpora"})
    elif arguments.one is None:
        do_all(arguments)
    else:
        round_ = json.loads(arguments.one.read_text(encoding="utf-8"))
        report({"benchmark": "suggest", **machine(), **do_one(round_["key"], round_["chosen"])})


def read_pool(key: Line) -> tuple[list[Sentence], list[Sentence]]:
    """Return the training sentences that can be chosen, and the test sentences that are scored."""
    parts = read_corpus(key["corpus"])
    return draw(parts["train"], key["pool"], 0), draw(parts["test"], key["scored"], 0)


def do_one(key: Line, chosen: Sequence[int]) -> dict[str, Any]:
    """Train a model on the chosen sentences; return its scores, and what it chooses by each strategy.

    Sentences are numbered by their place among those that can be chosen; without any, they are random.
    """
    from fencepost.config import Config
    from fencepost.evaluation import evaluate
    from fencepost.runtime.suggestion import choose
    from fencepost.training import train
    from fencepost.training.scoring import make_recogniser

    start = time.process_time()
    pool, test = read_pool(key)
    numbered = [replace(sentence, id=str(number)) for number, sentence in enumerate(pool)]
    if not chosen:
        chosen = [int(one.id or 0) for one in draw(numbered, key["sentences"], key["seed"])]
    training = [numbered[number] for number in chosen]
    config = Config.compose(changes=key["settings"], flags={"training": {"seed": key["seed"]}})
    with tempfile.TemporaryDirectory() as temporary:
        model = train(config, training, Path(temporary) / "model", quiet=False).model
    trained = time.process_time()
    recogniser = make_recogniser(model)
    result = evaluate(test, list(recogniser.predict(one.with_entities(()) for one in test)))
    following = {}
    if "next_size" in key:
        for strategy in MODEL_STRATEGIES if key["strategy"] == START else (key["strategy"],):
            options = {"strategy": strategy, "seed": key["seed"], "exclude": training}
            suggested = choose(recogniser, numbered, key["next_size"] - len(chosen), **options)
            following[strategy] = [int(one.id or 0) for one in suggested]
    return {
        **scores_of(result),
        "words": sum(map(len, training)),
        "entities": sum(len(one.entities) for one in training),
        "chosen": list(chosen),
        "next": following,
        "training_seconds": round(trained - start),
        "cpu_seconds": round(time.process_time() - start),
    }


def do_all(arguments: argparse.Namespace) -> None:
    """Do the rounds that are not done yet, those of one size after those of the size before."""
    sizes = sorted({*arguments.sizes, *(arguments.random_sizes or ())})
    lines: list[dict[str, Any]] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        for size in sizes:
            tasks = list_tasks(arguments, size, lines, Path(temporary))
            of_size, without = run_tasks(
                tasks, arguments.out, arguments.jobs, again=arguments.again, since=arguments.since
            )
            lines += of_size
            failed += without
    result = {
        corpus: compare([line for line in lines if line["corpus"] == corpus], arguments.strategies, sizes)
        for corpus in arguments.corpora
    }
    report(
        {
            "benchmark": "suggest",
            **machine(),
            "commits": sorted({line["commit"] for line in lines}),
            "settings": arguments.changes,
            "corpora": result,
            "failed": failed,
        }
    )
    if failed:
        sys.exit(1)


def list_tasks(arguments: argparse.Namespace, size: int, before: Sequence[Line], folder: Path) -> list[Task]:
    """Return the rounds with this number of sentences, given the lines of those with fewer."""
    own = sorted(arguments.sizes)
    same = {"pool": arguments.pool, "scored": arguments.scored, "sentences": size, "commit": code_version()}
    same["settings"] = list(arguments.changes)
    if arguments.reads is not None:
        same["settings"].append(f"training.epochs={min(60, math.ceil(arguments.reads / size))}")
    tasks = []
    for corpus in arguments.corpora:
        for seed in range(1, arguments.seeds + 1):
            for strategy in strategies_of(arguments, size):
                key = {"corpus": corpus, "seed": seed, "strategy": strategy, **same}
                chosen: list[int] = []
                if strategy not in (START, RANDOM):
                    line = find_before(before, key, own[own.index(size) - 1])
                    if line is None:
                        continue  # the round before it has failed
                    chosen = [*line["chosen"], *line["next"][strategy]]
                if strategy != RANDOM and size != own[-1]:
                    key["next_size"] = own[own.index(size) + 1]
                path = folder / f"{corpus}-{seed}-{strategy}-{size}.json"
                path.write_text(json.dumps({"key": key, "chosen": chosen}), encoding="utf-8")
                name = f"{corpus}, seed {seed}, {strategy}, {size} sentences"
                tasks.append(Task(name, key, ["-m", "benchmarks.suggest", "--one", str(path)]))
    return tasks


def strategies_of(arguments: argparse.Namespace, size: int) -> list[str]:
    """Return the strategies that have a round of this size; the first round is the same for all."""
    if size == min(arguments.sizes):
        return [START]
    at_random = size in (arguments.random_sizes or arguments.sizes)
    of_models = size in arguments.sizes
    return [one for one in arguments.strategies if (at_random if one == RANDOM else of_models)]


def find_before(lines: Sequence[Line], key: Line, size: int) -> Line | None:
    """Return the round of this size whose model chooses for another one."""
    for line in lines:
        same = all(line[name] == key[name] for name in ("corpus", "seed")) and line["sentences"] == size
        if same and line["strategy"] in (key["strategy"], START):
            return line
    return None


def compare(lines: Sequence[Line], strategies: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
    """Return F1 and words by strategy and size, and the size at which each has the last F1 of random."""
    by_strategy: dict[str, dict[int, Any]] = {}
    for strategy in strategies:
        by_size = {}
        for size in sizes:
            own = [x for x in lines if x["sentences"] == size and x["strategy"] in (strategy, START)]
            if own:
                by_size[size] = summarise([{"f1": x["f1"], "words": x["words"]} for x in own])
        by_strategy[strategy] = by_size
    target = by_strategy.get(RANDOM, {}).get(sizes[-1])
    needed = {}
    for strategy, by_size in by_strategy.items():
        enough = [n for n, row in by_size.items() if target and row["f1"]["mean"] >= target["f1"]["mean"]]
        needed[strategy] = min(enough, default=None)
    say("F1 of the test part by number of annotated sentences")
    cells = [
        [
            f"{size:,}",
            *(percent(by_strategy[s][size]["f1"]) if size in by_strategy[s] else "-" for s in strategies),
        ]
        for size in sizes
    ]
    say_table(["sentences", *strategies], cells)
    return {"strategies": by_strategy, "sentences_for_the_last_f1_of_random": needed}


if __name__ == "__main__":
    main()
