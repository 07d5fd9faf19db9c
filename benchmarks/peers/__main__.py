"""The command line: makes the runs that are missing, and the page."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks.peers
from benchmarks.common import (
    FILES,
    RESULTS,
    ROOT,
    SINGLE_THREAD,
    code_version,
    corpora,
    draw,
    find_encoder,
    keep_outermost,
    machine,
    read_corpus,
    read_lines,
    report,
    run_in_parallel,
    run_program,
    say,
    scores_of,
)
from benchmarks.peers.page import PAGE, make_page
from benchmarks.peers.tools import (
    SENTENCES,
    SETTINGS,
    TOOLS,
    Tool,
    get_python,
    make_environment,
    measure_size,
)
from benchmarks.quality import CORPORA, MINILM, MULTILINGUAL
from fencepost import Entity, Sentence
from fencepost.encoder.pretrained import _resolve_name
from fencepost.evaluation import evaluate
from fencepost.training import hold_out

FLAT = {"wnut17", "gum-named", "weibo", "resume"}
RESULT_FILE = RESULTS / "peers.jsonl"
DEV_SENTENCES = 400
DEV_SHARE = 0.15
LONGEST_QUANTILE = 0.99
"""Tools that enumerate spans get those up to the length that this share of the training entities has."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=benchmarks.peers.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpora", nargs="+", choices=FILES, default=["wnut17", "genia"])
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1")
    parser.add_argument(
        "--sentences", type=int, default=SENTENCES, help="training sentences, drawn at random"
    )
    parser.add_argument("--epochs", type=int, default=SETTINGS["epochs"])
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at a time")
    parser.add_argument("--environments", type=Path, default=Path(tempfile.gettempdir()) / "fencepost-peers")
    parser.add_argument("--out", type=Path, default=RESULT_FILE)
    parser.add_argument("--page", action="store_true", help="write docs/comparison.md and stop")
    arguments = parser.parse_args()
    if arguments.page:
        PAGE.write_text(make_page(read_lines(RESULT_FILE)), encoding="utf-8")
        report({"benchmark": "peers", "page": str(PAGE.relative_to(ROOT))})
    elif corpora() is None:
        report({"benchmark": "peers", "skipped": "no corpora"})
    else:
        run_all(arguments)


def run_all(arguments: argparse.Namespace) -> None:
    """Make the runs that have no line yet, seed by seed, and append their lines."""
    lines = read_lines(arguments.out)
    keys = [
        {
            "corpus": corpus,
            "tool": tool,
            "seed": seed,
            "sentences": arguments.sentences,
            **SETTINGS,
            "epochs": arguments.epochs,
        }
        for seed in range(1, arguments.seeds + 1)
        for corpus in arguments.corpora
        for tool in arguments.tools
    ]
    missing = [key for key in keys if not any(key.items() <= line.items() for line in lines)]
    say(f"{len(keys)} runs, {len(keys) - len(missing)} of them done before")
    for name in sorted({TOOLS[key["tool"]].environment for key in missing}):
        make_environment(name, arguments.environments)
    failed = []
    for key, line in run_in_parallel(
        partial(run, environments=arguments.environments), missing, arguments.jobs
    ):
        name = f"{key['corpus']}, {key['tool']}, seed {key['seed']}"
        if line is None:
            failed.append(name)
            continue
        with arguments.out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        say(f"{name}: F1 {100 * line['f1']:.1f}, {line['training']['cpu_seconds']:.0f} s")
    report({"benchmark": "peers", **machine(), "runs": len(missing) - len(failed), "failed": failed})


def run(key: dict[str, Any], environments: Path) -> dict[str, Any] | None:
    """Train and score a tool; return the line of the result, or None if it failed."""
    tool = TOOLS[key["tool"]]
    encoder = find_encoder_folder(key["corpus"])
    if encoder is None:
        say(f"there is no encoder for {key['corpus']}")
        return None
    parts = read_parts(key["corpus"], key["sentences"])
    with tempfile.TemporaryDirectory() as temporary:
        for part, sentences in parts.items():
            write_part(Path(temporary) / f"{part}.jsonl", sentences, tool)
        task = {
            "folder": temporary,
            "encoder": encoder,
            **{name: key[name] for name in SETTINGS},
            "seed": key["seed"],
            "options": make_options(tool, parts["train"]),
        }
        outcome = start_worker(tool, task, environments)
        if outcome is None:
            return None
        predicted = read_predictions(Path(temporary) / "predicted.jsonl", parts["test"])
    result = scores_of(evaluate(parts["test"], predicted))
    if not tool.confidences:
        result["ece"] = None
    seqeval = score_with_seqeval(parts["test"], predicted) if key["corpus"] in FLAT else None
    return {
        **key,
        **machine(),
        "commit": code_version(),
        "counts": {part: len(sentences) for part, sentences in parts.items()},
        **result,
        "seqeval_f1": seqeval,
        **outcome,
        "installed_mb": measure_size(environments / tool.environment),
    }


def read_parts(corpus: str, sentences: int) -> dict[str, list[Sentence]]:
    """Return the parts of a corpus; development data is held out from training data if there is none."""
    parts = {part: [one for one in of_part if one.words] for part, of_part in read_corpus(corpus).items()}
    if "dev" not in parts:
        parts["train"], parts["dev"] = hold_out(parts["train"], DEV_SHARE, seed=0)
    parts["train"] = draw(parts["train"], sentences, seed=0)
    parts["dev"] = draw(parts["dev"], DEV_SENTENCES, seed=0)
    return parts


def find_encoder_folder(corpus: str) -> str | None:
    """Return the folder of MiniLM, or for Chinese of the multilingual encoder; None if it is absent."""
    if CORPORA[corpus.removesuffix("-named")].encoder == MINILM:
        return _resolve_name(MINILM)
    folder = find_encoder(MULTILINGUAL)
    return None if folder is None else str(folder)


def make_options(tool: Tool, sentences: Sequence[Sentence]) -> dict[str, Any]:
    if tool.worker == "fencepost":
        return dict(tool.options)
    lengths = [len(entity) for sentence in sentences for entity in sentence.entities]
    return {**tool.options, "longest": int(np.quantile(lengths, LONGEST_QUANTILE, method="higher"))}


def write_part(path: Path, sentences: Sequence[Sentence], tool: Tool) -> None:
    with path.open("w", encoding="utf-8") as stream:
        for sentence in sentences:
            entities = sentence.entities if tool.nested else keep_outermost(sentence.entities)
            rows = [(entity.start, entity.end, entity.type) for entity in entities]
            stream.write(json.dumps({"words": list(sentence.words), "entities": rows}) + "\n")


def start_worker(tool: Tool, task: dict[str, Any], environments: Path) -> dict[str, Any] | None:
    """Run a tool's program with one thread; return what it measured, or None, and say why, if it failed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    python = str(get_python(tool.environment, environments))
    command = [python, "-m", f"benchmarks.peers.workers.{tool.worker}", json.dumps(task)]
    return run_program(tool.title, command, inherited | SINGLE_THREAD | {"HF_HUB_OFFLINE": "1"})


def read_predictions(path: Path, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences with the predicted entities; of equal ones, the most confident counts."""
    with path.open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    return [
        sentence.with_entities(
            {
                (start, end, type_): Entity(start, end, type_, min(max(score, 0.0), 1.0))
                for start, end, type_, score in sorted(row, key=lambda one: one[3])
            }.values()
        )
        for sentence, row in zip(sentences, rows, strict=True)
    ]


def score_with_seqeval(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> float:
    """Return seqeval's F1 of flat entities; of predicted ones that overlap, the outermost count."""
    from seqeval.metrics import f1_score
    from seqeval.scheme import IOB2

    def tag(sentence: Sentence) -> list[str]:
        tags = ["O"] * len(sentence)
        for entity in keep_outermost(sentence.entities):
            tags[entity.start : entity.end] = [f"B-{entity.type}"] + [f"I-{entity.type}"] * (len(entity) - 1)
        return tags

    gold_tags, predicted_tags = ([tag(sentence) for sentence in part] for part in (gold, predicted))
    return float(f1_score(gold_tags, predicted_tags, mode="strict", scheme=IOB2))


if __name__ == "__main__":
    main()
