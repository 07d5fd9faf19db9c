"""How fast raw text becomes entities: PyTorch, onnxruntime in single precision and in int8, in one run.

    python -m benchmarks.throughput MODEL [--rounds 3] [--linear]

MODEL is a folder with weights and graphs (`fencepost train`, then `fencepost export --int8`). Needs GUM: its
test part, as raw text by document, goes through all engines in turn, round by round, so that whatever else
the machine does hits all alike.

- `engines`: sentences a second, end to end (split, tokenise, encode, decode), and the ratios that matter:
  PyTorch against the bare encoder's forward pass over the same sentences in padded batches sorted by length,
  and int8 against PyTorch.
- `latency_ms`: of single sentences, median and 99th percentile.
- `--linear`: sentences a second and resident memory at 10,000 and at 100,000 sentences (int8).

Prints one JSON object as its last line; of several rounds, the median.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fencepost
from benchmarks.common import corpora, machine, report, say
from fencepost.data import read
from fencepost.data.text import make_splitter
from fencepost.encoder.grouping import group_by_length
from fencepost.encoder.pretrained import Pretrained
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_model
from fencepost.runtime.recogniser import Recogniser

ENGINES = ("pytorch", "onnx", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--linear", action="store_true")
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        report({"benchmark": "throughput", "skipped": "no corpora"})
        return
    texts = documents(folder / "gum" / "test.jsonl")
    with torch.inference_mode():
        result = measured(arguments.model, texts, arguments.rounds)
    if arguments.linear:
        result["linear"] = linear(arguments.model, texts)
    threads = torch.get_num_threads()
    report(
        {"benchmark": "throughput", **machine(), "threads": threads, "model": arguments.model.name, **result}
    )


def documents(path: Path) -> list[str]:
    """Return the raw text of each document."""
    groups = itertools.groupby(read(path), key=lambda sentence: sentence.doc)
    return [" ".join(sentence.text for sentence in group) for _, group in groups]


def measured(folder: Path, texts: list[str], rounds: int) -> dict[str, Any]:
    recognisers = {name: fencepost.load(folder, engine=name) for name in ENGINES}  # type: ignore[arg-type]
    encoder, rows = bare(load_model(folder), texts)
    sentences = sum(len(batch) for batch, _ in rows)
    say(f"{len(texts)} documents, {sentences:,} sentences")

    def run_bare() -> None:
        for ids, mask in rows:
            encoder(input_ids=ids, attention_mask=mask)

    tasks: dict[str, Callable[[], Any]] = {"bare": run_bare}
    for name, recogniser in recognisers.items():
        tasks[name] = partial(run, recogniser, texts)
    seconds = timed(tasks, rounds)
    ratios = {
        "pytorch_to_bare": ratio(seconds["pytorch"], seconds["bare"]),
        "pytorch_to_int8": ratio(seconds["pytorch"], seconds["int8"]),
        "pytorch_to_onnx": ratio(seconds["pytorch"], seconds["onnx"]),
    }
    say(f"PyTorch {ratios['pytorch_to_bare']:.2f} x the time of the bare encoder")
    say(f"int8 {ratios['pytorch_to_int8']:.2f} x as fast as PyTorch")
    return {
        "documents": len(texts),
        "sentences": sentences,
        "rounds": rounds,
        "sentences_per_second": {
            name: round(sentences / statistics.median(of), 1) for name, of in seconds.items()
        },
        "ratios": ratios,
        "latency_ms": {name: latency(recogniser, texts) for name, recogniser in recognisers.items()},
    }


def run(recogniser: Recogniser, texts: list[str]) -> None:
    for _ in recogniser.pipe(texts):
        pass


def bare(model: Model, texts: list[str]) -> tuple[Any, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Return the encoder alone and its inputs: the same sentences, padded, in batches sorted by length."""
    embedder = model.encoder.embedder
    assert isinstance(embedder, Pretrained)
    subwords, splitter = embedder.subwords, make_splitter("en")
    rows = [
        [*subwords.first, *itertools.chain(*subwords([text[a:b] for a, b in words])), *subwords.last]
        for text in texts
        for words in splitter.split(text)
    ]
    sizes = [len(row) for row in rows]
    inputs = []
    for batch in group_by_length(sizes, count=model.config.predict.batch_size):
        padded = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(rows[index][: embedder.room]) for index in batch],
            batch_first=True,
            padding_value=subwords.pad,
        )
        lengths = torch.tensor([min(sizes[index], embedder.room) for index in batch])
        inputs.append((padded, (torch.arange(padded.shape[1]) < lengths[:, None]).long()))
    return embedder.transformer, inputs


def timed(tasks: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each task in each round; tasks alternate, and a first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(rounds + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            if number:
                seconds[name].append(time.perf_counter() - start)
        if number:
            say(f"round {number}: " + ", ".join(f"{name} {of[-1]:.2f} s" for name, of in seconds.items()))
    return seconds


def ratio(one: list[float], other: list[float]) -> float:
    """Return the median of the ratios of the rounds."""
    return round(statistics.median(a / b for a, b in zip(one, other, strict=True)), 3)


def latency(recogniser: Recogniser, texts: list[str], count: int = 300) -> dict[str, float]:
    """Milliseconds for one sentence, asked for alone."""
    splitter = make_splitter("en")
    alone = [text[words[0][0] : words[-1][1]] for text in texts for words in splitter.split(text)]
    seconds = []
    for sentence in alone[:: max(1, len(alone) // count)][:count]:
        start = time.perf_counter()
        recogniser(sentence)
        seconds.append(time.perf_counter() - start)
    cuts = statistics.quantiles(seconds, n=100)
    return {"median": round(1000 * cuts[49], 1), "p99": round(1000 * cuts[98], 1)}


def linear(folder: Path, texts: list[str]) -> dict[str, Any]:
    """10,000 sentences, 100,000, and 10,000 again, in one process: what the machine does meanwhile shows."""
    recogniser = fencepost.load(folder, engine="int8")
    splitter = make_splitter("en")
    alone = [text[words[0][0] : words[-1][1]] for text in texts for words in splitter.split(text)]
    rates, memory = [], []
    for count in (10_000, 100_000, 10_000):
        start = time.perf_counter()
        for number, _ in enumerate(recogniser.pipe(itertools.islice(itertools.cycle(alone), count)), start=1):
            if number % 10_000 == 0:
                memory.append(resident_mb())
                rate = number / (time.perf_counter() - start)
                say(f"{number:,} sentences: {rate:.1f} a second, {memory[-1]:.0f} MB")
        rates.append(round(count / (time.perf_counter() - start), 1))
    few = (rates[0] + rates[2]) / 2
    return {
        "10,000": [rates[0], rates[2]],
        "100,000": rates[1],
        "ratio": round(rates[1] / few, 3),
        "memory_mb": memory,
    }


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


if __name__ == "__main__":
    main()
