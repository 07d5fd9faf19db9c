"""Run many cases in several processes, each of which may hang or crash."""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import fencepost
from benchmarks.common import machine, say
from benchmarks.fuzz.checks import check_outcome, check_round_trip
from benchmarks.fuzz.mutations import Case, make_case
from benchmarks.fuzz.reading import Outcome, read_case
from fencepost.data import FORMATS
from fencepost.data.text import make_splitter

CASE_SECONDS = 20  # after which reading some hundred bytes counts as a hang
STALL_SECONDS = 120  # the same, for a hang in C code that no signal interrupts
MEMORY_BYTES = 6 << 30
CHUNK = 250  # cases that a worker gets at once
SAVED_PER_SIGNATURE = 3  # inputs of one kind of failure that are saved

# Relative number of mutations of each format; those that use spaCy are slower.
WEIGHTS = {"jsonl-text": 50, "doccano": 50, "spacy-v2": 50, "brat": 40, "spacy": 25, "gpml": 85}
WEIGHT = 100
MINIMUM = 20_000  # mutations of any format in a full run
FUZZED = tuple(name for name in FORMATS if name not in ("xlsx", "parquet"))
"""Formats whose bytes are parsed by Fencepost, not by openpyxl or pyarrow."""

_PACKAGE = Path(fencepost.__file__).parent


class TooSlow(BaseException):
    """A case takes too long; not an `Exception`, which a reader might catch."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that was handled wrongly."""

    format: str
    number: int
    kind: str  # exception, hang, crash, wrong data
    signature: str  # the same for failures of one cause
    details: str


def examine(case: Case, counts: Counter[str], folder: Path) -> Failure | None:
    """Read a case in every way, check the results, and return a failure if there is one."""
    stage = "exception"
    try:
        signal.setitimer(signal.ITIMER_REAL, CASE_SECONDS)
        counts["cases"] += 1
        outcomes = read_case(case)
        _count(outcomes[0], counts)
        stage = "wrong data"
        for outcome in outcomes:
            for complaint in check_outcome(outcome):
                return Failure(case.format, case.number, stage, f"{outcome.format}: {complaint}", complaint)
        if case.number % 4 == 0 and case.format != "brat":
            for complaint in check_round_trip(outcomes[0], folder):
                return Failure(case.format, case.number, stage, f"{case.format}: {complaint}", complaint)
    except TooSlow:
        return Failure(case.format, case.number, "hang", _describe_error(), traceback.format_exc())
    except Exception:  # noqa: BLE001 - the fuzzer searches for these
        return Failure(case.format, case.number, stage, _describe_error(), traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _describe_error() -> str:
    """Return the current exception and the innermost function of our own code in its traceback."""
    error = sys.exc_info()[1]
    frames = traceback.extract_tb(error.__traceback__) if error else []
    ours = [
        frame
        for frame in frames
        if _PACKAGE in Path(frame.filename).parents or "benchmarks" in frame.filename
    ]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
    return f"{type(error).__name__} in {place}"


def _count(outcome: Outcome, counts: Counter[str]) -> None:
    accepted = len(outcome.sentences)
    rejected = len(outcome.readings) - accepted
    counts["sentences found"] += accepted
    counts["sentences rejected"] += rejected
    if accepted and outcome.complete and not rejected:
        counts["accepted"] += 1
    elif accepted:
        counts["accepted in part"] += 1
    elif rejected or not outcome.complete:
        counts["refused"] += 1
    else:
        counts["empty"] += 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """Cases of one format that a worker examines together."""

    format: str
    start: int
    end: int


def _work(connection: Connection, current: Any, seed: int) -> None:
    """Examine chunks in a worker until there are no more, and publish the number of the current case."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _raise_too_slow)
    make_splitter("en")  # compiles the rules, which is not part of a case
    with tempfile.TemporaryDirectory() as folder:
        while (chunk := connection.recv()) is not None:
            counts: Counter[str] = Counter()
            failures = []
            for number in range(chunk.start, chunk.end):
                current.value = number
                failure = examine(make_case(chunk.format, number, seed), counts, Path(folder))
                if failure:
                    failures.append(failure)
            connection.send((chunk, counts, failures))


def _raise_too_slow(*_: object) -> None:
    raise TooSlow


class Worker:
    """A process that examines chunks and may crash."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.current = context.Value("q", -1, lock=False)
        self.process = context.Process(target=_work, args=(theirs, self.current, seed), daemon=True)
        self.process.start()
        theirs.close()
        self.chunk: Chunk | None = None
        self.last_change = (-1, time.monotonic())

    def give(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.current.value = -1  # still in preparation
        self.last_change = (-1, time.monotonic())
        self.connection.send(chunk)

    def is_stalled(self) -> bool:
        """Return whether the current case takes too long."""
        if self.chunk is None:
            return False
        if self.current.value != self.last_change[0]:
            self.last_change = (self.current.value, time.monotonic())
        return time.monotonic() - self.last_change[1] > STALL_SECONDS

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


@dataclass
class Campaign:
    """A whole run: the chunks that are left, and the results of the others."""

    seed: int
    jobs: int
    failures_folder: Path | None
    todo: deque[Chunk]
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    signatures: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        total = sum(chunk.end - chunk.start for chunk in self.todo)
        workers = [Worker(self.seed) for _ in range(self.jobs)]
        reported = time.monotonic()
        try:
            while self.todo or any(worker.chunk for worker in workers):
                workers = [self._serve(worker) for worker in workers]
                wait([worker.connection for worker in workers if worker.chunk], timeout=1)
                if time.monotonic() - reported > 10:
                    reported = time.monotonic()
                    cases = sum(counts["cases"] for counts in self.counts.values())
                    say(f"{cases:,} of {total:,} cases, {sum(self.signatures.values()):,} failures")
        finally:
            for worker in workers:
                worker.stop()

    def _serve(self, worker: Worker) -> Worker:
        """Collect the results of a worker and give it a chunk; return a new worker if it has crashed."""
        if worker.chunk is not None:
            if worker.connection.poll():
                try:
                    chunk, counts, failures = worker.connection.recv()
                except (EOFError, ConnectionError):
                    return self._replace(worker, worker.chunk, "crash")
                self.counts.setdefault(chunk.format, Counter()).update(counts)
                for failure in failures:
                    self._record(failure)
                worker.chunk = None
            elif worker.is_stalled():
                return self._replace(worker, worker.chunk, "hang")
        if worker.chunk is None and self.todo:
            worker.give(self.todo.popleft())
        return worker

    def _replace(self, worker: Worker, chunk: Chunk, kind: str) -> Worker:
        """Record the case that stopped a worker, and return a new one; the other cases are run again."""
        number = max(worker.current.value, chunk.start)
        worker.stop()
        details = f"the process ended with {worker.process.exitcode}"
        self._record(Failure(chunk.format, number, kind, f"{kind} of the process in {chunk.format}", details))
        self.counts.setdefault(chunk.format, Counter())["cases"] += 1
        for start, end in ((chunk.start, number), (number + 1, chunk.end)):
            if start < end:
                self.todo.appendleft(Chunk(chunk.format, start, end))
        return Worker(self.seed)

    def _record(self, failure: Failure) -> None:
        signature = f"{failure.kind}: {failure.signature}"
        self.signatures[signature] += 1
        if self.signatures[signature] > SAVED_PER_SIGNATURE:
            return
        self.failures.append(failure)
        say(f"{failure.format} case {failure.number}: {signature}")
        if self.failures_folder is not None:
            for path in _save(
                failure, make_case(failure.format, failure.number, self.seed), self.failures_folder
            ):
                say(f"  {path}")


def _save(failure: Failure, case: Case, folder: Path) -> list[Path]:
    """Save the input of a failure (for BRAT, both files) and a report; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{failure.format}-{failure.number}"
    suffixes = (".ann", ".txt") if failure.format == "brat" else (".input",)
    paths = [folder / f"{stem}{suffix}" for suffix in suffixes]
    for path, part in zip(paths, case.parts, strict=True):
        path.write_bytes(part)
    paths.append(folder / f"{stem}.report.json")
    about = {**asdict(failure), "options": asdict(case.options)}
    paths[-1].write_text(
        json.dumps(about, indent=1, ensure_ascii=False), encoding="utf-8", errors="backslashreplace"
    )
    return paths


def distribute(mutations: int, names: Sequence[str]) -> dict[str, int]:
    """Return the number of mutations of each format, by weight but with a minimum."""
    minimum = min(MINIMUM, mutations // (2 * len(names)))
    total = sum(WEIGHTS.get(name, WEIGHT) for name in names)
    counts = {name: max(minimum, mutations * WEIGHTS.get(name, WEIGHT) // total) for name in names}
    counts[names[0]] += mutations - sum(counts.values())
    return counts


def fuzz(
    mutations: int, seed: int = 0, jobs: int = 1, failures: Path | None = None, names: Sequence[str] = FUZZED
) -> dict[str, Any]:
    """Examine this number of cases of all formats and return the results."""
    shares = distribute(mutations, names)
    chunks = [
        Chunk(name, start, min(start + CHUNK, count))
        for name, count in shares.items()
        for start in range(0, count, CHUNK)
    ]
    random.Random(seed).shuffle(chunks)  # to find failures of all formats early
    campaign = Campaign(seed, jobs, failures, deque(chunks))
    started = time.monotonic()
    campaign.run()
    return {
        "benchmark": "fuzz_readers",
        "mutations": sum(counts["cases"] for counts in campaign.counts.values()),
        "seed": seed,
        "jobs": jobs,
        "seconds": round(time.monotonic() - started, 1),
        "failures": dict(campaign.signatures),
        "formats": {name: _summarise(campaign.counts[name]) for name in shares},
        **machine(),
    }


def _summarise(counts: Counter[str]) -> dict[str, Any]:
    with_sentences = counts["accepted"] + counts["accepted in part"]
    readings = counts["sentences found"] + counts["sentences rejected"]
    return {
        **{
            name.replace(" ", "_"): counts[name]
            for name in ("cases", "accepted", "accepted in part", "refused", "empty")
        },
        "share_with_sentences": round(with_sentences / max(counts["cases"], 1), 3),
        "sentences_found": counts["sentences found"],
        "share_of_sentences_found": round(counts["sentences found"] / max(readings, 1), 3),
    }
