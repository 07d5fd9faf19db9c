"""Load damaged models, each in a separate process with limits on time and memory."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.common import machine, say
from benchmarks.fuzz.model_mutations import ModelCase, make_model_case
from benchmarks.fuzz.model_seeds import TEXT, make_models
from fencepost.errors import FencepostError
from fencepost.runtime.folder import files_of
from fencepost.runtime.loading import load

CASE_SECONDS = 10
MEMORY_BYTES = 2 << 30
"""Memory that a case may use in addition to that of the process at its start."""


def fuzz_models(
    mutations: int, seed: int = 0, failures: Path | None = None, models: list[Path] | None = None
) -> dict[str, Any]:
    """Load this number of damaged models and return the outcomes; a failure's file is kept in `failures`."""
    started = time.monotonic()
    outcomes: dict[str, Counter[str]] = {}
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        models = models or make_models(Path(name) / "models")
        for model in models:  # load all libraries once, and check that undamaged models work
            for engine in ("pytorch", "onnx"):
                _check_answer(model, engine)
        for number in range(mutations):
            case = make_model_case(models, number, seed)
            outcome = run_case(case, Path(name) / "case")
            kind = outcome if outcome in ("answered", "refused") else "failed"
            outcomes.setdefault(case.file, Counter())[kind] += 1
            if kind == "failed":
                _record(case, outcome, failed, failures)
            if (number + 1) % 250 == 0:
                say(f"{number + 1:,} of {mutations:,} cases, {failed.total():,} failures")
    return {
        "benchmark": "fuzz_models",
        "mutations": mutations,
        "seed": seed,
        "seconds": round(time.monotonic() - started, 1),
        "failures": dict(failed),
        "files": {file: dict(counts) for file, counts in sorted(outcomes.items())},
        **machine(),
    }


def _record(case: ModelCase, outcome: str, failed: Counter[str], folder: Path | None) -> None:
    signature = f"{Path(case.file).suffix}, {case.engine}: {outcome.splitlines()[0]}"
    failed[signature] += 1
    if failed[signature] > 3:
        return
    say(f"case {case.number} ({case.model.name}, {case.file}, {case.mutation}): {signature}")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{case.number}-{case.model.name}-{case.file.replace('/', '-')}"
        (folder / stem).write_bytes(case.content or b"")
        (folder / f"{stem}.txt").write_text(outcome, encoding="utf-8", errors="backslashreplace")


def run_case(case: ModelCase, folder: Path) -> str:
    """Load the model in a child process; return "answered", "refused", or the failure."""
    for name in files_of(case.model):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        if name != case.file:
            os.link(case.model / name, target)
        elif case.content is not None:
            target.write_bytes(case.content)
    for name in set(files_of(folder)) - set(files_of(case.model)):
        (folder / name).unlink()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_child(case, folder, writing)
    os.close(writing)
    try:
        return _wait(child, reading)
    finally:
        os.close(reading)


def _wait(child: int, reading: int) -> str:
    ended = os.pidfd_open(child)
    in_time = bool(select.select([ended], [], [], CASE_SECONDS)[0])
    os.close(ended)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not in_time:
        return f"no answer in {CASE_SECONDS} seconds"
    if os.WIFSIGNALED(status):
        return f"the process ended with {signal.Signals(os.WTERMSIG(status)).name}"
    return os.read(reading, 1 << 16).decode() or f"the process ended with code {os.WEXITSTATUS(status)}"


def _run_child(case: ModelCase, folder: Path, writing: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # native libraries print errors there that they also raise
    limit = _measure_data() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        _check_answer(folder, case.engine)
        outcome = "answered"
    except FencepostError as error:
        message = str(error)
        outcome = "refused" if len(message) < 5000 else f"a message of {len(message):,} characters"
    except BaseException as error:  # noqa: BLE001 - the fuzzer searches for these
        outcome = f"{type(error).__name__} in {_find_place(error)}\n{traceback.format_exc()}"
    os.write(writing, outcome.encode("utf-8", "backslashreplace")[: 1 << 15])
    os._exit(0)


def _check_answer(folder: Path, engine: Any) -> None:
    """Load a model, predict entities in a text, and check that each of them is possible."""
    recogniser = load(folder, engine=engine, threads=1)
    for span in recogniser(TEXT):
        assert span.type in recogniser.types, span
        assert 0 <= span.start < span.end <= len(TEXT), span
        assert 0 <= span.score <= 1, span


def _measure_data() -> int:
    """Return the memory of this process that counts for `RLIMIT_DATA`."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    sys.exit("this needs Linux, which reports the memory of a process")


def _find_place(error: BaseException) -> str:
    """Return the innermost function of our own code in the traceback of an exception."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/fencepost/" in frame.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "?"
