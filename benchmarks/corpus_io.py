"""How fast corpora are read, and in how much memory a large one is converted.

`python -m benchmarks.corpus_io [--gigabytes 1.0] [--runs 3]`

Three parts: the real corpora, each file read whole; the sample corpus, repeated up to the given size as
JSONL, converted by the command line in a process of its own, whose peak memory stands beside that of the
same conversion of 10 MB; and the sample corpus read in each format.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import corpora, machine, report, say
from fencepost.data import FORMATS, Reader, sample, write
from fencepost.data.entity import Sentence

SMALL_BYTES = 10_000_000
POLL_SECONDS = 0.02
REPEATS = 5  # of the sample corpus, where formats are compared
CONVERSIONS = {
    "jsonl to jsonl": ["--to", "jsonl"],
    "jsonl to conll": ["--to", "conll", "--overlaps", "outermost"],
    "jsonl to jsonl-text": ["--to", "jsonl-text"],
}


def sample_bytes() -> bytes:
    return b"".join(sample.get_path(part).read_bytes() for part in sample.PARTS)


def count_sentences(path: Path, format_: str | None = None) -> int:
    return sum(1 for _ in Reader(path, format_))


def timed(action: Callable[[], int], size: int, runs: int) -> dict[str, Any]:
    """Measure the fastest of some runs, which other processes disturb least."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        sentences = action()
        seconds.append(time.perf_counter() - start)
    best = min(seconds)
    return {
        "sentences": sentences,
        "megabytes": round(size / 1e6, 3),
        "seconds": round(best, 4),
        "sentences_per_second": round(sentences / best),
        "megabytes_per_second": round(size / 1e6 / best, 2),
    }


# --- The real corpora -------------------------------------------------------------------------------


def read_corpora(folder: Path, runs: int) -> dict[str, Any]:
    results = {}
    for path in sorted(folder.glob("*/*")):
        if path.suffix in (".jsonl", ".conll", ".bmes"):
            name = f"{path.parent.name}/{path.name}"
            results[name] = timed(lambda path=path: count_sentences(path), path.stat().st_size, runs)  # type: ignore[misc]
            say(f"{name}: {results[name]}")
    return results


# --- Conversion of a large file ---------------------------------------------------------------------


def convert_both(gigabytes: float) -> dict[str, Any]:
    """Each conversion of a large file and of a small one, and how much more memory the large one took."""
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="fencepost-corpus-io-") as name:
        folder = Path(name)
        large, small = folder / "large.jsonl", folder / "small.jsonl"
        for path, size in ((large, int(gigabytes * 1e9)), (small, SMALL_BYTES)):
            say(f"writing {size / 1e6:,.0f} MB")
            repeat_sample(path, size)
        for conversion, options in CONVERSIONS.items():
            of_small = convert(small, folder / "out", options)
            of_large = convert(large, folder / "out", options)
            results[conversion] = {
                "small": of_small,
                "large": of_large,
                "memory_ratio": round(of_large["peak_megabytes"] / of_small["peak_megabytes"], 3),
            }
            say(f"{conversion}: {results[conversion]}")
    return results


def repeat_sample(path: Path, size: int) -> None:
    """Write a file of whole lines with at least `size` bytes."""
    block = sample_bytes()
    with path.open("wb") as stream:
        for _ in range(-(-size // len(block))):
            stream.write(block)


def convert(source: Path, target: Path, options: list[str]) -> dict[str, Any]:
    """Run `fencepost convert`, and measure its time and its peak memory."""
    account = target.with_suffix(".account.json")
    command = [sys.executable, "-m", "fencepost", "convert", str(source), str(target), *options]
    start = time.perf_counter()
    with subprocess.Popen([*command, "--quiet", "--json", str(account)]) as process:
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, peak_megabytes(process.pid))
            time.sleep(POLL_SECONDS)
    seconds = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    counts = json.loads(account.read_text(encoding="utf-8"))
    size = source.stat().st_size
    target.unlink()
    return {
        "megabytes": round(size / 1e6, 1),
        "sentences": counts["sentences"],
        "entities_dropped": counts["entities_dropped"],
        "seconds": round(seconds, 2),
        "sentences_per_second": round(counts["sentences"] / seconds),
        "megabytes_per_second": round(size / 1e6 / seconds, 2),
        "peak_megabytes": round(peak, 1),
    }


def peak_megabytes(pid: int) -> float:
    """Return the peak resident memory of a process; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    match = re.search(r"VmHWM:\s+([0-9]+) kB", status)
    return int(match[1]) / 1024 if match else 0.0


# --- All formats --------------------------------------------------------------------------------------


def read_formats(runs: int) -> dict[str, Any]:
    """Measure writing and reading the sample corpus in each format (flat ones with outermost entities)."""
    sentences = [sentence for part in sample.PARTS for sentence in Reader(sample.get_path(part))] * REPEATS
    results = {}
    with tempfile.TemporaryDirectory(prefix="fencepost-corpus-io-") as folder:
        for name in FORMATS:
            results[name] = read_format(name, sentences, Path(folder) / name, runs)
            say(f"{name}: {results[name]}")
    return results


def read_format(name: str, sentences: list[Sentence], path: Path, runs: int) -> dict[str, Any]:
    left_out: list[str] = []
    write(sentences, path, name, prefer="outermost", on_refused=lambda _, reason: left_out.append(reason))
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    return timed(lambda: count_sentences(path, name), size, runs) | {"left_out": len(left_out)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the file to convert")
    parser.add_argument("--runs", type=int, default=3, help="the fastest of so many runs counts")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"benchmark": "corpus_io", **machine()}
    if Path("/proc/self/status").exists():
        result["convert"] = convert_both(arguments.gigabytes)
    else:
        result["skipped"] = "convert: this system does not tell a process's peak memory in /proc"
    folder = corpora()
    if folder is None:
        result["skipped"] = "corpora: the real corpora are not here; set FENCEPOST_DATA to their folder"
    else:
        result["corpora"] = read_corpora(folder, arguments.runs)
    result["formats"] = read_formats(arguments.runs)
    report(result)


if __name__ == "__main__":
    main()
