"""What other programs on the machine cost: prediction and training, alone and beside a busy process.

    python -m benchmarks.contention [--against FOLDER] [--also NAME=VALUE ...] [--settings] [--rounds 5]
        [--busy 0 1] [--tasks pipe alone bare words_100 words_5000 train predict]

Each variant is a process of its own. They take turns, round by round, so that whatever else the machine does
hits all alike; ratios are medians over the rounds. With `--busy 1`, a process that never waits competes with
them, started here. Needs GUM.

- variants: `now` is this code. `--against` adds `then`, another checkout of it; `--also` adds `now` with an
  environment variable, as `OMP_WAIT_POLICY=passive`; `--settings` adds `now` in float32, with embeddings that
  are trained, and with two layers that are frozen (for the task `train`).
- tasks: `pipe` is raw text to entities by the shipped int8 model, and `bare` its encoder alone over the same
  sentences in the same batches, read before, one thread for each batch; `alone` is one sentence after
  another, `words_100` the same with 50 sentences of 100 words, and `words_5000` their words as one sentence.
  `train` is a step of training the default model, and `predict` its prediction by PyTorch.

Prints one JSON object as its last line: seconds and processor seconds (medians), and how many times as fast
as the first variant each one is by either. With `OMP_NUM_THREADS=1`, processor seconds hardly depend on what
else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import cycle, groupby, islice
from pathlib import Path
from typing import Any

INT8_TASKS = ("pipe", "alone", "bare", "words_100", "words_5000")
TASKS = (*INT8_TASKS, "train", "predict")
DOCUMENTS, ALONE, BATCHES = 8, 60, 6
SETTINGS = {
    "float32": ["training.precision=float32"],
    "trained embeddings": ["encoder.freeze_embeddings=false"],
    "2 frozen layers": ["encoder.frozen_layers=2"],
    "dropout of attention": ["encoder.attention_dropout=0.1"],
}
Do = Callable[[str], list[float]]
BUSY = (sys.executable, "-c", "while True: pass")


# A variant: a process that imports one checkout and does what it is asked for, line by line


def work(tasks: Sequence[str], corpus: str, changes: Sequence[str]) -> None:
    from fencepost.data import read

    sentences = list(read(corpus))
    run: dict[str, Callable[[], Any]] = {}
    if set(INT8_TASKS) & set(tasks):
        run |= make_int8_tasks(sentences)
    if {"train", "predict"} & set(tasks):
        run |= make_pytorch_tasks(sentences[:1000], changes)
    for task in tasks:
        run[task]()  # the first time takes longer
    print(flush=True)
    for line in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        run[line.strip()]()
        print(time.perf_counter() - start, time.process_time() - cpu, flush=True)


def make_int8_tasks(sentences: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    import onnxruntime

    import fencepost
    from fencepost.runtime.loading import SHIPPED

    ner = fencepost.load(engine="int8")
    documents = [[one.text for one in group] for _, group in groupby(sentences, key=lambda one: one.doc)]
    texts = [" ".join(document) for document in documents[:DOCUMENTS]]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(SHIPPED / "onnx" / "encoder.int8.onnx", options)
    inputs = {one.name for one in session.get_inputs()}
    predictor = ner._predictor
    read = [part.sentence for text in texts for one in ner.prepare(text) for part in one.parts]
    batches = [
        {key: value for key, value in predictor.inputs([read[i] for i in batch]).items() if key in inputs}
        for batch in predictor.make_batches(read)
    ]

    def bare() -> None:
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as executor:
            list(executor.map(partial(session.run, None), batches))

    words = list(islice((word for one in sentences for word in one.words), 5000))

    def predict_alone(size: int) -> None:
        for at in range(0, len(words), size):
            list(ner.predict([fencepost.Sentence(words[at : at + size])]))

    return {
        "pipe": lambda: list(ner.pipe(texts)),
        "alone": lambda: [ner(one.text) for one in sentences[:ALONE]],
        "bare": bare,
        "words_100": partial(predict_alone, 100),
        "words_5000": partial(predict_alone, 5000),
    }


def make_pytorch_tasks(sentences: Sequence[Any], changes: Sequence[str]) -> dict[str, Callable[[], Any]]:
    import torch

    from fencepost.config import Config
    from fencepost.methods.model import Model
    from fencepost.runtime.pytorch import make_predictor
    from fencepost.training import processes
    from fencepost.training.batches import LengthGroupedBatches
    from fencepost.training.optimizer import make_parameter_groups

    torch.manual_seed(0)
    model = Model.build(Config.compose(changes=list(changes)), sentences)
    settings = model.config.training
    sizes = [sum(model.encoder.inputs.sizes(sentence.words)) for sentence in sentences]
    grouped = islice(LengthGroupedBatches(sizes, settings.batch_size, seed=0), BATCHES)
    batches = cycle([model.collate([sentences[index] for index in batch]) for batch in grouped])
    optimizer = torch.optim.AdamW(make_parameter_groups(model, settings), fused=True)
    predictor = make_predictor(model)
    choose = getattr(processes, "choose_precision", lambda name, *_, **__: name)  # for `--against`
    half = choose(settings.precision, torch.device("cpu"), pretrained=True) == "bfloat16"

    def train() -> None:
        model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = model(next(batches))["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        model.zero_grad()

    def predict() -> None:
        model.eval()
        predictor.predict_entities(sentences[:100])

    return {"train": train, "predict": predict}


# The comparison


@contextmanager
def start(tree: Path, changes: Mapping[str, Any], tasks: Sequence[str]) -> Iterator[Do]:
    """Start a variant, and yield what does a task in it and returns its seconds and processor seconds."""
    environment = {**os.environ, "PYTHONPATH": str(tree), **changes.get("environment", {})}
    settings = [f"--set={change}" for change in changes.get("settings", ())]
    with subprocess.Popen(
        [sys.executable, "-P", __file__, "--work", changes["corpus"], "--tasks", *tasks, *settings],
        cwd=tree,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"{tree}: the process has ended")
            ask, answers = process.stdin, process.stdout

            def do(task: str) -> list[float]:
                print(task, file=ask, flush=True)
                return [float(number) for number in answers.readline().split()]

            yield do
        finally:
            process.kill()


def compare(variants: Mapping[str, Do], tasks: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
    """Return the seconds of each task and variant, and its speed as a multiple of the first variant's."""
    seconds: dict[str, dict[str, list[float]]] = {task: {name: [] for name in variants} for task in tasks}
    cpu: dict[str, dict[str, list[float]]] = {task: {name: [] for name in variants} for task in tasks}
    for number in range(rounds):
        names = list(variants)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            for task in tasks:
                passed, used = variants[name](task)
                seconds[task][name].append(passed)
                cpu[task][name].append(used)
    result: dict[str, dict[str, Any]] = {}
    for task in tasks:
        first = next(iter(variants))
        result[task] = {
            name: {
                "seconds": round(statistics.median(seconds[task][name]), 4),
                "cpu_seconds": round(statistics.median(cpu[task][name]), 4),
                "speed": ratio(seconds[task][first], seconds[task][name]),
                "cpu_speed": ratio(cpu[task][first], cpu[task][name]),
            }
            for name in variants
        }
    if {"pipe", "bare"} <= set(tasks):
        result["pipe_to_bare"] = {
            name: ratio(seconds["pipe"][name], seconds["bare"][name]) for name in variants
        }
    return result


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the median of the ratios of the rounds."""
    return round(statistics.median(a / b for a, b in zip(one, other, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=["pipe", "alone", "bare"])
    parser.add_argument("--also", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1], help="numbers of busy processes")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--set", action="append", default=[], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.tasks, arguments.work, arguments.set)
        return
    from benchmarks.common import ROOT, corpora, machine, report, say

    folder = corpora()
    if folder is None:
        report({"benchmark": "contention", "skipped": "no corpora"})
        return
    shared = {"corpus": str(folder / "gum" / "test.jsonl")}
    variants: dict[str, tuple[Path, dict[str, Any]]] = {}
    if arguments.against:
        variants["then"] = arguments.against.resolve(), shared
    variants["now"] = ROOT, shared
    for one in arguments.also:
        name, _, value = one.partition("=")
        variants[one] = ROOT, {**shared, "environment": {name: value}}
    for name, changes in SETTINGS.items() if arguments.settings else ():
        variants[name] = ROOT, {**shared, "settings": changes}
    results = {}
    with ExitStack() as stack:
        started = {
            name: stack.enter_context(start(tree, changes, arguments.tasks))
            for name, (tree, changes) in variants.items()
        }
        for count in arguments.busy:
            others = [subprocess.Popen(BUSY) for _ in range(count)]
            try:
                results[str(count)] = compare(started, arguments.tasks, arguments.rounds)
            finally:
                for other in others:
                    other.kill()
                    other.wait()
            say(f"{count} busy processes: {json.dumps(results[str(count)], indent=1)}")
    report({"benchmark": "contention", **machine(), "rounds": arguments.rounds, "busy": results})


if __name__ == "__main__":
    main()
