"""What the benchmarks share: corpora and encoders, scores, runs that are resumed, one JSON object last."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

    from fencepost import Entity, Sentence
    from fencepost.evaluation import Evaluation

Item = TypeVar("Item")
Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"

LENGTHS = {"1": (1, 1), "2": (2, 2), "3": (3, 3), "3+": (3, math.inf), "6+": (6, math.inf)}
"""The shortest and the longest entities of each group, in words."""


def corpora() -> Path | None:
    """Return the folder of the real corpora; None if it does not exist."""
    folder = Path(os.environ.get("FENCEPOST_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


FILES = {
    "genia": "genia/{}.jsonl",
    "gum": "gum/{}.jsonl",
    "gum-named": "gum/{}.jsonl",
    "weibo": "weibo/{}.conll",
    "resume": "resume/{}.bmes",
    "wnut17": "wnut17/{}.conll",
}


def read_corpus(name: str) -> dict[str, list[Sentence]]:
    """Return the parts of a corpus by name: `train`, `test`, and `dev` if there is one.

    `gum-named` is GUM with its names only, and of those that overlap, with the outermost.
    """
    from fencepost.data import read

    folder = corpora()
    assert folder is not None
    files = {part: folder / FILES[name].format(part) for part in ("train", "dev", "test")}
    parts = {part: list(read(file)) for part, file in files.items() if file.exists()}
    if name == "gum-named":
        parts = {part: [keep_outermost_names(one) for one in of_part] for part, of_part in parts.items()}
    return parts


def keep_outermost_names(sentence: Sentence) -> Sentence:
    return sentence.with_entities(keep_outermost([e for e in sentence.entities if e.meta["named"]]))


def keep_outermost(entities: Sequence[Entity]) -> list[Entity]:
    """Return the entities without those that overlap a longer one, or an equally long one before them."""
    outermost: list[Entity] = []
    for entity in sorted(entities, key=lambda one: (-len(one), one.start)):
        if all(entity.end <= other.start or other.end <= entity.start for other in outermost):
            outermost.append(entity)
    return sorted(outermost, key=lambda one: one.start)


def find_encoder(name: str) -> Path | None:
    """Return the folder of a pretrained encoder besides the default one; None where it is absent."""
    folder = Path(os.environ.get("FENCEPOST_ENCODERS") or ROOT.parent / "shared" / "encoders") / name
    return folder if folder.is_dir() else None


def draw(sentences: Sequence[Sentence], count: int, seed: int) -> list[Sentence]:
    """Return this many of the sentences, drawn at random, in their order."""
    import numpy as np

    indices = sorted(np.random.default_rng(seed).permutation(len(sentences))[:count].tolist())
    return [sentences[index] for index in indices]


def say(message: str) -> None:
    """Progress, for the person who waits."""
    print(message, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """Return what a measurement depends on besides the code, and its date."""
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def use_training_precision(setting: str) -> torch.autocast:
    """Return the context in which training computes on this processor, with a pretrained encoder."""
    import torch

    from fencepost.training.processes import choose_precision

    is_half = choose_precision(setting, torch.device("cpu"), pretrained=True) == "bfloat16"
    return torch.autocast("cpu", torch.bfloat16, enabled=is_half)


def code_version() -> str:
    """Return the last commit that changed the code, with a hash of changes that are not committed."""
    code = ("fencepost", ":!fencepost/models")
    commit = _git("log", "-1", "--format=%H", "--", *code).strip()
    changes = _git("diff", "HEAD", "--", *code)
    return commit + (f"+{sha256(changes.encode()).hexdigest()[:8]}" if changes else "")


def _commit(revision: str) -> str:
    return _git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()


def _git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True)


def report(result: dict[str, Any]) -> None:
    """Print the result as the last line of standard output."""
    print(json.dumps(result, ensure_ascii=False), flush=True)


# Scores


def scores_of(result: Evaluation) -> dict[str, Any]:
    """Return the scores of all entities, and of those of each group of `LENGTHS`."""
    from fencepost.evaluation import Score

    by_length = {}
    for name, (shortest, longest) in LENGTHS.items():
        rows = [s.counts for length, s in result.by_length.items() if shortest <= length <= longest]
        group = asdict(Score.of(*map(sum, zip((0, 0, 0), *rows, strict=True))))
        by_length[name] = {key: group[key] for key in ("precision", "recall", "f1", "support")}
    scores = result.to_dict()
    return {
        **{name: scores[name] for name in ("precision", "recall", "f1", "macro_f1", "ece")},
        "by_length": by_length,
    }


def summarise(rows: Sequence[Any]) -> Any:
    """Return the mean and the standard deviation of each number of like dictionaries; None if one is None."""
    if isinstance(rows[0], Mapping):
        return {key: summarise([row[key] for row in rows]) for key in rows[0]}
    if any(row is None for row in rows):
        return None
    deviation = round(stdev(rows), 6) if len(rows) > 1 else None
    return {"mean": round(mean(rows), 6), "deviation": deviation}


def percent(summary: Mapping[str, Any]) -> str:
    """Return a summarised share of 1 as `71.5 ± 0.3`, in per cent."""
    deviation = "" if summary["deviation"] is None else f" ± {100 * summary['deviation']:.1f}"
    return f"{100 * summary['mean']:.1f}{deviation}"


def list_commits(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the commits of the lines, each with the date of its measurements if that is known."""
    dates = {line["commit"][:7]: line.get("date") for line in lines}
    return ", ".join(f"`{commit}`" + (f" {date}" if date else "") for commit, date in sorted(dates.items()))


def say_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a Markdown table to standard error."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, ["-" * width for width in widths], *rows):
        say("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |")


# Runs of which each is a process, and which are kept as lines of a file


@dataclass(frozen=True)
class Task:
    """A run: the values that identify its line in the results, and the arguments of `python` that do it.

    The program prints one JSON object as its last line.
    """

    name: str
    key: Mapping[str, Any]
    arguments: Sequence[str]


def run_tasks(
    tasks: Sequence[Task], path: Path, jobs: int, *, again: bool = False, since: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Do the tasks that have no line in the file, each with one thread; return all lines and what failed.

    A line is appended as soon as a run has ended. With `again`, all runs are repeated; with `since`, lines of
    that commit and of later ones count, too. Of several lines of one run, the last counts.
    """
    rows = {} if again else _find_lines(tasks, path, since)
    todo = [task for index, task in enumerate(tasks) if index not in rows]
    say(f"{len(tasks)} runs, {len(rows)} of them done before")
    path.parent.mkdir(exist_ok=True)
    failed = []
    for task, line in run_in_parallel(_run, todo, jobs):
        if line is None:
            failed.append(task.name)
            continue
        rows[tasks.index(task)] = line
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        say(
            f"{task.name}: F1 {100 * line['f1']:.1f}, {line['cpu_seconds']:,} s ({len(rows)} of {len(tasks)})"
        )
    return [rows[index] for index in sorted(rows)], failed


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the results in a file; none if it does not exist."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]


def _find_lines(tasks: Sequence[Task], path: Path, since: str | None) -> dict[int, dict[str, Any]]:
    """Return the lines of runs that are done, by the number of their task."""
    lines = read_lines(path)
    accepted = set() if since is None else {*_git("rev-list", f"{since}..HEAD").split(), _commit(since)}
    return {
        index: line
        for index, task in enumerate(tasks)
        for line in lines
        if {name: line.get(name) for name in task.key}
        == {**task.key, **({"commit": line["commit"]} if line.get("commit") in accepted else {})}
    }


DEADLINE = "FENCEPOST_DEADLINE"
"""Variable of the environment: the time, in seconds since 1970, after which no run starts."""


def is_after_deadline() -> bool:
    return time.time() > float(os.environ.get(DEADLINE, math.inf))


def run_in_parallel(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with the result of the function, in the order in which they end.

    Items whose turn comes after the deadline are left out.
    """
    late = object()

    def run(item: Item) -> Any:
        return late if is_after_deadline() else function(item)

    with ThreadPoolExecutor(jobs) as executor:
        futures = [executor.submit(run, item) for item in items]
        by_future = dict(zip(futures, items, strict=True))
        try:
            for future in as_completed(futures):
                if future.result() is not late:
                    yield by_future[future], future.result()
        finally:  # after Ctrl-C, what has not started does not start
            executor.shutdown(cancel_futures=True)


SINGLE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", "TOKENIZERS_PARALLELISM": "false"}
"""Variables of the environment of runs of which several run at a time."""


def _run(task: Task) -> dict[str, Any] | None:
    """Return the line of a run; None, and say why, if it failed."""
    line = run_program(task.name, [sys.executable, *task.arguments], os.environ | SINGLE_THREAD)
    return None if line is None else {**task.key, **line}


def run_program(name: str, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the JSON object that a program prints last; None, and say why, if the program failed."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as progress:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=progress,
            text=True,
            check=False,
        )
        if ended.returncode:
            progress.seek(0)
            say(f"{name} failed with code {ended.returncode}: {progress.read()[-2000:]}")
            return None
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result
