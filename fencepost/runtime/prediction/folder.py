"""The output of several processes: a folder with a file for each input, and a manifest once it is complete.

Until then, `unfinished/` has the description of the job, the parts of files (each written as a whole), and a
record of each file whose parts have been joined. So a stopped job can continue.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fencepost.data.output import remove_leftovers, whole_file
from fencepost.errors import FencepostError, UsageError
from fencepost.runtime.folder import compute_sha256
from fencepost.runtime.prediction.lines import EXISTS, check_parent, encode
from fencepost.runtime.prediction.results import Counts, PredictedText

MANIFEST = "manifest.json"
UNFINISHED = "unfinished"
_JOB = "job.json"
_PART, _TRIES = ".part", ".tries"
_OTHER = {
    "fencepost": "another version of fencepost",
    "model": "another model",
    "options": "other options",
    "shards": "another input",
}
_OURS = {"command": "predict"}  # every file of ours has this, and a version
_TEMPORARY = (_JOB, f"*{_PART}", f"*{_TRIES}", "[0-9]" * 5 + ".json")  # in `unfinished/`
_INPUT_KEYS = ("input", "format", "input_bytes", "input_sha256", "parts", "rejected")

Job = dict[str, Any]
"""What determines the output: `fencepost`, its version; `model`; `options`; `shards`, the inputs."""


@dataclass(slots=True)
class Summary(Counts):
    """Content of a part of the output, or of a file of it."""

    bytes: int = 0
    sha256: str = ""


class PartFile:
    """The lines of a part after a line that describes them; the file is complete or absent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tries = path.with_suffix(_TRIES)

    def count_try(self) -> int:
        """Record an attempt to write it, and return the number of attempts: a part may kill a process."""
        tries = 1 + (int(self._tries.read_text() or 0) if self._tries.is_file() else 0)
        self._tries.write_text(str(tries))
        return tries

    def write(self, predicted: Iterable[PredictedText]) -> Summary:
        summary = Summary()
        lines = b"".join(encode(one.to_record()) + b"\n" for one in summary.count(predicted))
        summary.bytes, summary.sha256 = len(lines), hashlib.sha256(lines).hexdigest()
        with whole_file(self.path) as stream:
            stream.write(encode(asdict(summary)) + b"\n" + lines)
        self._tries.unlink(missing_ok=True)
        return summary

    def read(self) -> tuple[Summary, bytes] | None:
        """Return its summary and its lines; None if it is missing or damaged."""
        try:
            head, _, lines = self.path.read_bytes().partition(b"\n")
            summary = Summary(**json.loads(head))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return (summary, lines) if hashlib.sha256(lines).hexdigest() == summary.sha256 else None


class OutputFolder:
    """A folder of `count` files of output."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count
        self.unfinished = path / UNFINISHED

    def check(self, *, resume: bool, force: bool) -> None:
        """Refuse an existing folder, unless it is our own and the user says what to do with it."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: is a file; several processes write into a folder")
        check_parent(self.path)
        if not self.path.exists() or not any(self.path.iterdir()):
            return
        if self.unfinished.is_symlink():
            raise UsageError(f"{self.unfinished}: is a link, which predict does not make; give another name")
        if self._recorded() is None:
            raise UsageError(f"{self.path}: already exists, and is no output of predict; give another name")
        if not (resume or force):
            raise UsageError(f"{self.path}: {EXISTS}")

    def _recorded(self) -> Job | None:
        """Return the job whose output is there, complete or not; None if a manifest is not ours."""
        path = self.path / MANIFEST if self._has_manifest else self.unfinished / _JOB
        try:
            job = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return job if _is_ours(job) else None

    @property
    def _has_manifest(self) -> bool:
        return (self.path / MANIFEST).exists()

    def is_complete(self, job: Job) -> bool:
        """Return whether all files are as the manifest says; refuse the output of another job."""
        recorded = self._recorded()
        if recorded is None:
            return False
        self._check_same(job, recorded)
        return self._has_manifest and all(self._summaries(recorded))

    def begin(self, job: Job, *, resume: bool) -> list[Path]:
        """Prepare the folder: use what an earlier run of the same job left, or remove it.

        Returns the files of a complete output that are missing or were changed.
        """
        recorded = self._recorded()
        if recorded is not None and resume:
            self._check_same(job, recorded)
            for tries in self.unfinished.glob(f"*{_TRIES}"):
                tries.unlink()
            return self._reopen(job, recorded) if self._has_manifest else []
        earlier = OutputFolder(self.path, 0 if recorded is None else len(recorded["shards"]))
        for path in set(self._files()) - set(earlier._files()):
            if path.exists():
                raise UsageError(f"{path}: is in the way; give another --output")
        if recorded is not None:
            (self.path / MANIFEST).unlink(missing_ok=True)
            for path in earlier._files():
                path.unlink(missing_ok=True)
            self._tidy()
        self._open(job)
        return []

    def _open(self, job: Job) -> None:
        try:
            self.unfinished.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error
        _write(self.unfinished / _JOB, {"fencepost": job["fencepost"], **_OURS, **job})

    def _reopen(self, job: Job, manifest: Job) -> list[Path]:
        """Turn a complete output into an unfinished one; return the files that are not as recorded."""
        self._open(job)
        wrong = []
        for number, summary in enumerate(self._summaries(manifest)):
            if summary is None:
                wrong.append(self.file(number))
            else:
                _write(self._record(number), asdict(summary))
        (self.path / MANIFEST).unlink()
        return wrong

    def _summaries(self, manifest: Job) -> Iterator[Summary | None]:
        """Yield the summary of each file by the manifest; None if the file is not like that."""
        for path, shard in zip(self._files(), manifest["shards"], strict=True):
            values = {part.name: shard.get(part.name) for part in fields(Summary)}
            is_same = (
                None not in values.values()
                and path.is_file()
                and path.stat().st_size == values["bytes"]
                and compute_sha256(path) == values["sha256"]
            )
            yield Summary(**values) if is_same else None

    def _check_same(self, job: Job, recorded: Job) -> None:
        """Refuse another job than the recorded one; a manifest says more about each shard."""
        shards = [{key: shard.get(key) for key in _INPUT_KEYS} for shard in recorded["shards"]]
        recorded = {**recorded, "shards": shards}
        for key, value in json.loads(json.dumps(job)).items():
            if recorded.get(key) != value:
                other = f"{_OTHER[key]}, so it cannot be continued; --force overwrites it"
                raise UsageError(f"{self.path}: was made with {other}")

    def _tidy(self) -> None:
        """Remove our files from `unfinished/`, and the folder too if nothing else is in it."""
        for pattern in _TEMPORARY:
            for path in self.unfinished.glob(pattern):
                if path.is_file():
                    path.unlink(missing_ok=True)
        remove_leftovers(self.unfinished)
        with suppress(OSError):
            self.unfinished.rmdir()

    def file(self, shard: int) -> Path:
        """Return the path of the output for the input with this number."""
        return self.path / f"part-{shard:05d}-of-{self.count:05d}.jsonl"

    def _files(self) -> list[Path]:
        return [self.file(number) for number in range(self.count)]

    def part(self, shard: int, part: int) -> PartFile:
        return PartFile(self.unfinished / f"{shard:05d}-{part:06d}{_PART}")

    def missing(self, shard: int, parts: int) -> list[int]:
        """Return the numbers of the parts of an input that are not done."""
        return [number for number in range(parts) if self.part(shard, number).read() is None]

    def _record(self, shard: int) -> Path:
        return self.unfinished / f"{shard:05d}.json"

    def finished(self, shard: int) -> Summary | None:
        """Return the summary of the output for an input, if it is there."""
        try:
            summary = Summary(**json.loads(self._record(shard).read_text(encoding="utf-8")))
            return summary if compute_sha256(self.file(shard)) == summary.sha256 else None
        except (OSError, ValueError, TypeError):
            return None

    def assemble(self, shard: int, parts: int) -> Summary:
        """Join the parts of the output for an input, which are all there, and remove them."""
        total, digest = Summary(), hashlib.sha256()
        files = [self.part(shard, number) for number in range(parts)]
        with whole_file(self.file(shard)) as stream:
            for file in files:
                content = file.read()
                if content is None:
                    raise FencepostError(f"{file.path}: is missing or was changed; continue with --resume")
                summary, lines = content
                total.add(summary)
                total.bytes += len(lines)
                stream.write(lines)
                digest.update(lines)
        total.sha256 = digest.hexdigest()
        _write(self._record(shard), asdict(total))
        for file in files:
            file.path.unlink()
        return total

    def finish(self, job: Job, summaries: Sequence[Summary]) -> None:
        """Write the manifest: the output is complete."""
        shards = [
            {**shard, "output": path.name, **asdict(summary)}
            for shard, path, summary in zip(job["shards"], self._files(), summaries, strict=True)
        ]
        keys = ("texts", "sentences", "entities", "rejected")
        totals = {key: sum(shard[key] for shard in shards) for key in keys}
        head = {key: value for key, value in job.items() if key != "shards"}
        head = {"fencepost": job["fencepost"], **_OURS, **head}
        _write(self.path / MANIFEST, {**head, **totals, "shards": shards})
        self._tidy()


def _is_ours(job: object) -> bool:
    return (
        isinstance(job, dict)
        and job.items() >= _OURS.items()
        and isinstance(job.get("fencepost"), str)
        and isinstance(shards := job.get("shards"), list)
        and all(isinstance(shard, dict) for shard in shards)
    )


def _write(path: Path, value: dict[str, Any]) -> None:
    with whole_file(path) as stream:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        stream.write(text.encode("utf-8", "backslashreplace"))  # a file's name need not be UTF-8
