"""Kills commands at random moments, resumes them, and compares the results with undisturbed runs.

Run on Linux as `python -m benchmarks.kills --kills 300 --seed 0`.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import io
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the number of threads decides the last digits of a result

from benchmarks.common import machine, report, say

SMALL = (
    "encoder.name=scratch",
    "encoder.lstm.size=16",
    "encoder.scratch.word_size=16",
    "encoder.scratch.character_size=8",
    "encoder.scratch.character_output=8",
    "encoder.lstm.dropout=0.1",
    "method.size=16",
    "method.width_size=4",
    "method.dropout=0.1",
    "training.batch_size=2",
    "training.warmup=0.1",
    "training.learning_rate=0.05",
)
LONGEST = 120.0  # seconds until an attempt counts as hanging
IN_A_CASE = 3  # kills until a run is left alone; a trial of `tune` that dies more often counts as failed
AUDITED = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")
LIBRARIES = (
    "fencepost.analysis.report",
    "fencepost.analysis.tuning",
    "fencepost.cli.prediction",
    "fencepost.experiments.tuning",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "tensorboard.summary.writer.record_writer",
    "torch.utils.tensorboard.summary",
)
NOT_COMPARED = ("study.db", ".lock", "report.html")
"""Ends of names: `tuning.json` has what the study has; a report has its date and the speed."""


@dataclass(frozen=True)
class Command:
    """A command under test: `arguments` for its output and whether it is resumed, and what it needs."""

    name: str
    arguments: Callable[[Path, bool], list[str]]
    kills: int = IN_A_CASE


@dataclass(frozen=True)
class Moment:
    """When an attempt is killed: after a number of seconds, or at a file operation, by its number."""

    seconds: float = 0.0
    operation: int = 0
    halfway: bool = False  # a write is done in part; else the operation is not started


@dataclass(frozen=True)
class Attempt:
    """How an attempt ended: its exit code, negative for a signal; what it said, and how much it did."""

    code: int
    output: str
    seconds: float
    operations: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", default="train,predict,sweep,workers,tune")
    arguments = parser.parse_args()
    names = arguments.commands.split(",")
    with tempfile.TemporaryDirectory() as temporary:
        commands = _commands(Path(temporary))
        if unknown := set(names) - {command.name for command in commands}:
            parser.error(f"there is no command {', '.join(sorted(unknown))}")
        _load_libraries()
        result = _kill(
            [one for one in commands if one.name in names], Path(temporary), arguments.kills, arguments.seed
        )
    report({"benchmark": "kills", "seed": arguments.seed, **result, **machine()})
    sys.exit(1 if result["failures"] else 0)


def _load_libraries() -> None:
    """Import once what each attempt needs, and adopt the processes that an attempt leaves."""
    for name in LIBRARIES:
        import_module(name)
    gc.freeze()
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _commands(folder: Path) -> list[Command]:
    """Write small corpora into the folder, and return the commands that use them."""
    from fencepost.data import read, write

    sentences = list(read("sample:train"))
    # in so few steps, a model finds something in what it has learnt from and in nothing else
    for part, chosen in {"train": sentences[:48], "dev": sentences[:24], "test": sentences[24:48]}.items():
        write(chosen, folder / f"{part}.jsonl")
    texts = [" ".join(sentence.words) for sentence in sentences]
    (folder / "texts.txt").write_text("\n".join(texts * 2) + "\n", encoding="utf-8")
    data = [
        "--train",
        f"{folder}/train.jsonl",
        "--dev",
        f"{folder}/dev.jsonl",
        "--test",
        f"{folder}/test.jsonl",
    ]
    small = [argument for change in SMALL for argument in ("--set", change)]

    def train(out: Path, resume: bool) -> list[str]:
        return ["train", *data, *small, "--epochs", "4", "--out", str(out), *(["--resume"] if resume else [])]

    def predict(out: Path, _: bool) -> list[str]:
        source = ["--input", f"{folder}/texts.txt", "--output", str(out / "found.jsonl")]
        return ["predict", f"{folder}/reference-train", *source, "--engine", "pytorch", "--resume"]

    def sweep(out: Path, workers: int) -> list[str]:
        grid = ["--grid", "method.epsilon=0,0.1", "--seeds", "2", "--workers", str(workers)]
        return ["sweep", *data, *small, "--epochs", "2", "--out", str(out), *grid]

    def tune(out: Path, _: bool) -> list[str]:
        space = ["--search", "training.learning_rate=0.02..0.1:log", "--search", "method.epsilon=0..0.3"]
        search = ["--trials", "4", "--startup-trials", "2", "--grace-epochs", "0", "--out", str(out)]
        return ["tune", *data, *small[:-2], *space, *search, "--epochs", "2"]

    return [
        Command("train", train),
        Command("predict", predict),
        Command("sweep", lambda out, _: sweep(out, 1)),
        Command("workers", lambda out, _: sweep(out, 2)),
        Command("tune", tune, kills=2),
    ]


def _kill(commands: Sequence[Command], folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill the commands in turn until that number of kills is reached; return the counts and the failures."""
    references = {command.name: _reference(command, folder) for command in _with_model(commands, folder)}
    chance, failures = random.Random(seed), list[dict[str, str]]()
    count, cases, kinds = Counter[str](), Counter[str](), Counter[str]()
    while count.total() < kills:
        # more kills of what is fast, and some of everything
        command = min(commands, key=lambda one: count[one.name] * references[one.name].seconds ** 0.5)
        undisturbed = references[command.name]
        out = folder / f"{command.name}-{cases[command.name]}"
        limit = min(chance.randint(1, command.kills), kills - count.total())
        cases[command.name] += 1
        number = 0
        while number < limit:
            moment = _moment(chance, undisturbed)
            attempt = _attempt(command, out, moment)
            if attempt.code != -signal.SIGKILL:  # it was done before that moment
                if not number and not attempt.code:
                    seconds = min(undisturbed.seconds, attempt.seconds)
                    references[command.name] = replace(undisturbed, seconds=seconds)
                break
            number += 1
            kinds["operation" if moment.operation else "time"] += 1
        count[command.name] += number
        last = _attempt(command, out)
        failure = _verdict(command, last, out, folder / f"reference-{command.name}")
        say(f"{count.total()}/{kills} {out.name}: {number} kills, {failure or 'same'} ({last.seconds:.1f} s)")
        if failure:
            failures.append({"case": out.name, "kills": str(number), "failure": failure})
    return {
        "kills": count.total(),
        "by_command": dict(count),
        "by_moment": dict(kinds),
        "cases": dict(cases),
        "seconds": {name: round(one.seconds, 1) for name, one in references.items()},
        "operations": {name: one.operations for name, one in references.items()},
        "failures": failures,
    }


def _with_model(commands: Sequence[Command], folder: Path) -> list[Command]:
    """Return the commands whose undisturbed results are needed: `predict` uses the model of `train`."""
    train = [command for command in _commands(folder) if command.name == "train"]
    return [*train, *(command for command in commands if command.name != "train")]


def _reference(command: Command, folder: Path) -> Attempt:
    attempt = _attempt(command, folder / f"reference-{command.name}")
    if attempt.code:
        raise SystemExit(f"{command.name} without a kill ended with {attempt.code}:\n{attempt.output}")
    say(f"{command.name}: {attempt.seconds:.1f} s and {attempt.operations} file operations without a kill")
    return attempt


def _moment(chance: random.Random, undisturbed: Attempt) -> Moment:
    if chance.random() < 0.5:
        return Moment(seconds=chance.uniform(0, undisturbed.seconds))
    return Moment(operation=chance.randint(1, undisturbed.operations), halfway=chance.random() < 0.5)


def _verdict(command: Command, last: Attempt, out: Path, reference: Path) -> str:
    """Return what is wrong with a run that was killed and resumed; nothing if all is right."""
    complete = command.name == "train" and "this training run is complete" in last.output
    if last.code and not complete:
        return f"exit code {last.code}: {last.output[-500:]}"
    here, there = _contents(out), _contents(reference)
    if here.keys() != there.keys():
        return f"other files: {', '.join(sorted(here.keys() ^ there.keys()))}"
    return ", ".join(name for name in here if here[name] != there[name])


def _contents(folder: Path) -> dict[str, Any]:
    """Return what is compared, by name; the times in it are left out, and of events for TensorBoard all."""
    contents: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if "tfevents" in name:
            name, content = str(Path(name).with_name("events")), None
        elif path.is_dir() or name.endswith(NOT_COMPARED):
            content = None
        else:
            content = _timeless(path, path.read_bytes().replace(str(folder).encode(), b"OUT"))
        contents[name] = content
    return contents


def _timeless(path: Path, content: bytes) -> Any:
    if path.suffix == ".json":
        return _without_seconds(json.loads(content))
    if path.suffix == ".jsonl" and path.name.startswith("metrics"):
        return [_without_seconds(json.loads(line)) for line in content.splitlines()]
    if path.suffix == ".csv":
        return [_without_seconds(row) for row in csv.DictReader(io.StringIO(content.decode()))]
    return content


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_seconds(one) for key, one in value.items() if not key.endswith("seconds")}
    return [_without_seconds(one) for one in value] if isinstance(value, list) else value


# Attempts


def _attempt(command: Command, out: Path, moment: Moment | None = None) -> Attempt:
    """Run the command in a process of its own, to its end or to the moment when it is killed."""
    if command.name == "predict":
        out.mkdir(exist_ok=True)
    arguments = command.arguments(out, (out / "run.yaml").is_file())
    log, counted = out.with_name(f"{out.name}.log"), out.with_name(f"{out.name}.operations")
    counted.unlink(missing_ok=True)
    log.write_text("")  # a kill may come before the process has opened it
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        _run(arguments, out, log, counted, moment or Moment())
    with suppress(OSError):  # the child does the same, and whoever is first
        os.setpgid(child, child)
    limit = moment.seconds if moment is not None and moment.seconds else LONGEST
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() - start < limit:
        time.sleep(0.002)
    if ended == (0, 0):
        os.killpg(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)
    seconds = time.monotonic() - start
    _end_group(child)
    operations = int(counted.read_text()) if counted.exists() else 0
    hung = limit == LONGEST and seconds >= LONGEST
    output = f"it did not end in {LONGEST} s" if hung else log.read_text(errors="replace")
    return Attempt(1 if hung else os.waitstatus_to_exitcode(ended[1]), output, seconds, operations)


def _end_group(child: int) -> None:
    """End the other processes of the group, whose parent we are by now, and wait for them."""
    try:
        os.killpg(child, signal.SIGKILL)
        while True:
            os.waitpid(-child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def _run(arguments: list[str], out: Path, log: Path, counted: Path, moment: Moment) -> None:
    """Run the command in this process; never return."""
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        operations = _watch(out, moment)
        sys.argv = ["fencepost", *arguments]
        from fencepost import cli
        from fencepost.experiments import workers

        workers.PATIENCE = 0.1  # forked processes share their pipes, so they do not see one that is closed
        workers.CONTEXT = multiprocessing.get_context("fork")  # type: ignore[assignment]  # has all libraries
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        counted.write_text(str(operations()))
        sys.stdout.flush()
    finally:
        os._exit(code)


def _watch(out: Path, moment: Moment) -> Callable[[], int]:
    """Count the file operations in the folder `out`, and kill this process group at that of the moment."""
    from fencepost.data import output

    count = 0

    def die() -> None:
        os.killpg(0, signal.SIGKILL)

    def advance() -> bool:
        nonlocal count
        count += 1
        return count == moment.operation

    def hook(event: str, values: tuple[Any, ...]) -> None:
        if event not in AUDITED or not str(values[0]).startswith(str(out)):
            return
        if event == "open" and not values[2] & (os.O_WRONLY | os.O_RDWR):
            return
        if advance():
            die()

    write = output._Output.write

    def write_in_part(self: Any, data: Any) -> int:
        if advance():
            if moment.halfway:
                write(self, bytes(data)[: len(data) // 2])
            die()
        return write(self, data)

    sys.addaudithook(hook)
    output._Output.write = write_in_part  # type: ignore[method-assign]
    return lambda: count


if __name__ == "__main__":
    main()
