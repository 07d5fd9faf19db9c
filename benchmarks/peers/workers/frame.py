"""What the programs of all tools share: the task, the files, the measurements. Standard library only."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Mark = tuple[int, int, str]
"""An entity: first word, end (exclusive), type."""

ScoredMark = tuple[int, int, str, float]


@dataclass(frozen=True)
class Task:
    """What is trained on what; the files are written by the driver."""

    folder: Path
    encoder: str
    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    options: dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A sentence: its words, and its entities."""

    words: list[str]
    entities: list[Mark]


def read_rows(task: Task, part: str) -> list[Row]:
    with (task.folder / f"{part}.jsonl").open(encoding="utf-8") as stream:
        return [
            Row(line["words"], [(start, end, type_) for start, end, type_ in line["entities"]])
            for line in map(json.loads, stream)
        ]


def list_types(rows: Sequence[Row]) -> list[str]:
    return sorted({type_ for row in rows for _, _, type_ in row.entities})


def list_tags(types: Sequence[str]) -> list[str]:
    return ["O", *(f"{place}-{type_}" for type_ in types for place in "BI")]


def get_tags(row: Row) -> list[str]:
    """Return the IOB2 tags of the words; entities must not overlap."""
    tags = ["O"] * len(row.words)
    for start, end, type_ in row.entities:
        tags[start:end] = [f"B-{type_}"] + [f"I-{type_}"] * (end - start - 1)
    return tags


def join_tags(words: Sequence[int], tags: Sequence[str], scores: Sequence[float]) -> list[ScoredMark]:
    """Return the entities of IOB2 tags; an I that continues nothing starts an entity, as in seqeval."""
    entities: list[ScoredMark] = []
    start = 0
    for end in range(1, len(tags) + 1):
        if end < len(tags) and tags[end].startswith("I-") and tags[end][2:] == tags[end - 1][2:]:
            continue
        if tags[start] != "O":
            score = sum(scores[start:end]) / (end - start)
            entities.append((words[start], words[end - 1] + 1, tags[start][2:], score))
        start = end
    return entities


Predict = Callable[[Sequence[list[str]]], list[list[ScoredMark]]]


def run_worker(train: Callable[[Task], Predict]) -> None:
    """Train the tool, predict the entities of the test data, and report what it cost, as the last line."""
    task = Task(**json.loads(sys.argv[1]))
    task = Task(**{**task.__dict__, "folder": Path(task.folder)})
    start, cpu_start = time.perf_counter(), time.process_time()
    predict = train(task)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    texts = [row.words for row in read_rows(task, "test")]
    predict(texts[:50])  # what is loaded or compiled at the first use is not measured
    start, cpu_start = time.perf_counter(), time.process_time()
    entities = predict(texts)
    prediction = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}
    with (task.folder / "predicted.jsonl").open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(of_sentence) + "\n" for of_sentence in entities)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result = {
        "training": {"seconds": seconds, "cpu_seconds": cpu_seconds},
        "prediction": prediction,
        "peak_mb": round(memory),
    }
    print(json.dumps(result), flush=True)
