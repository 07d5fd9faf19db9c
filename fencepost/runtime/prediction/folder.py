"""Output of several processes: a folder with a file for each input, and a manifest once it is complete.

Until then, `unfinished/` contains the description of the job, the parts of files (each written atomically),
and a record of each file whose parts have been joined. So a stopped job can be continued.
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
_SIGNATURE = {"command": "predict"}  # in every job and manifest, with a version
_TEMPORARY = (_JOB, f"*{_PART}", f"*{_TRIES}", "[0-9]" * 5 + ".json")  # in `unfinished/`
_INPUT_KEYS = ("input", "format", "input_bytes", "input_sha256", "parts", "rejected")

Job = dict[str, Any]
"""All that determines the output: the version of `fencepost`, the `model`, the `options` and the `shards`."""


@dataclass(slots=True)
class Summary(Counts):
    """Counts, size and checksum of an output file, or of a part of it."""

    bytes: int = 0
    sha256: str = ""


class PartFile:
    """File with a summary in the first line and the predicted lines of a part; it is complete or absent."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tries = path.with_suffix(_TRIES)

    def count_try(self) -> int:
        """Record an attempt to predict the part, which may crash the process; return their number."""
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
        """Return the summary and the lines; None if the file is missing or damaged."""
        try:
            head, _, lines = self.path.read_bytes().partition(b"\n")
            summary = Summary(**json.loads(head))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return (summary, lines) if hashlib.sha256(lines).hexdigest() == summary.sha256 else None


class OutputFolder:
    """A folder of `count` output files."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count
        self.unfinished = path / UNFINISHED

    def check(self, *, resume: bool, force: bool) -> None:
        """Raise `UsageError` if the folder exists, unless it is output to be continued or overwritten."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(
                f"{self.path}: is a file, but several processes need a folder; give another name"
            )
        check_parent(self.path)
        if not self.path.exists() or not any(self.path.iterdir()):
            return
        if self.unfinished.is_symlink():
            raise UsageError(f"{self.unfinished}: is a link, which predict does not make; give another name")
        if self._read_job() is None:
            raise UsageError(f"{self.path}: already exists, and is not output of predict; give another name")
        if not (resume or force):
            raise UsageError(f"{self.path}: {EXISTS}")

    def _read_job(self) -> Job | None:
        """Return the job of the existing output, complete or not; None if there is no output of predict."""
        path = self.path / MANIFEST if self._has_manifest else self.unfinished / _JOB
        try:
            job = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return job if _is_job(job) else None

    @property
    def _has_manifest(self) -> bool:
        return (self.path / MANIFEST).exists()

    def is_complete(self, job: Job) -> bool:
        """Return whether all files match the manifest; raise `UsageError` for output of another job."""
        existing = self._read_job()
        if existing is None:
            return False
        self._check_same(job, existing)
        return self._has_manifest and all(self._check_files(existing))

    def begin(self, job: Job, *, resume: bool) -> list[Path]:
        """Prepare the folder: use the output of an earlier run of the same job, or remove it.

        Returns the files of a complete output that are missing or were changed.
        """
        existing = self._read_job()
        if existing is not None and resume:
            self._check_same(job, existing)
            for tries in self.unfinished.glob(f"*{_TRIES}"):
                tries.unlink()
            return self._reopen(job, existing) if self._has_manifest else []
        earlier = OutputFolder(self.path, 0 if existing is None else len(existing["shards"]))
        for path in set(self._paths) - set(earlier._paths):
            if path.exists():
                raise UsageError(
                    f"{path}: already exists, and is not output of predict; give another --output"
                )
        if existing is not None:
            (self.path / MANIFEST).unlink(missing_ok=True)
            for path in earlier._paths:
                path.unlink(missing_ok=True)
            self._remove_temporary()
        self._open(job)
        return []

    def _open(self, job: Job) -> None:
        try:
            self.unfinished.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error
        _write(self.unfinished / _JOB, {"fencepost": job["fencepost"], **_SIGNATURE, **job})

    def _reopen(self, job: Job, manifest: Job) -> list[Path]:
        """Turn a complete output into an unfinished one; return the files that do not match the manifest."""
        self._open(job)
        wrong = []
        for number, summary in enumerate(self._check_files(manifest)):
            if summary is None:
                wrong.append(self.get_path(number))
            else:
                _write(self._get_record_path(number), asdict(summary))
        (self.path / MANIFEST).unlink()
        return wrong

    def _check_files(self, manifest: Job) -> Iterator[Summary | None]:
        """Yield the summary of each file in the manifest; None if the file does not match it."""
        for path, shard in zip(self._paths, manifest["shards"], strict=True):
            values = {field.name: shard.get(field.name) for field in fields(Summary)}
            is_same = (
                None not in values.values()
                and path.is_file()
                and path.stat().st_size == values["bytes"]
                and compute_sha256(path) == values["sha256"]
            )
            yield Summary(**values) if is_same else None

    def _check_same(self, job: Job, existing: Job) -> None:
        """Raise `UsageError` if the existing output is of another job."""
        # a manifest has more keys for each shard than a job
        shards = [{key: shard.get(key) for key in _INPUT_KEYS} for shard in existing["shards"]]
        existing = {**existing, "shards": shards}
        for key, value in json.loads(json.dumps(job)).items():
            if existing.get(key) != value:
                other = f"{_OTHER[key]}, so it cannot be continued; use --force to overwrite it"
                raise UsageError(f"{self.path}: was made with {other}")

    def _remove_temporary(self) -> None:
        """Remove the files of predict from `unfinished/`, and the folder if it is then empty."""
        for pattern in _TEMPORARY:
            for path in self.unfinished.glob(pattern):
                if path.is_file():
                    path.unlink(missing_ok=True)
        remove_leftovers(self.unfinished)
        with suppress(OSError):
            self.unfinished.rmdir()

    def get_path(self, shard: int) -> Path:
        """Return the path of the output for the input with this number."""
        return self.path / f"part-{shard:05d}-of-{self.count:05d}.jsonl"

    @property
    def _paths(self) -> list[Path]:
        return [self.get_path(number) for number in range(self.count)]

    def get_part(self, shard: int, part: int) -> PartFile:
        return PartFile(self.unfinished / f"{shard:05d}-{part:06d}{_PART}")

    def find_missing(self, shard: int, parts: int) -> list[int]:
        """Return the numbers of the parts of an input that are not predicted yet."""
        return [number for number in range(parts) if self.get_part(shard, number).read() is None]

    def _get_record_path(self, shard: int) -> Path:
        return self.unfinished / f"{shard:05d}.json"

    def read_summary(self, shard: int) -> Summary | None:
        """Return the summary of the output for an input; None if it is missing or damaged."""
        try:
            summary = Summary(**json.loads(self._get_record_path(shard).read_text(encoding="utf-8")))
            return summary if compute_sha256(self.get_path(shard)) == summary.sha256 else None
        except (OSError, ValueError, TypeError):
            return None

    def assemble(self, shard: int, parts: int) -> Summary:
        """Join all parts of the output for an input, remove them, and return the summary."""
        total, digest = Summary(), hashlib.sha256()
        files = [self.get_part(shard, number) for number in range(parts)]
        with whole_file(self.get_path(shard)) as stream:
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
        _write(self._get_record_path(shard), asdict(total))
        for file in files:
            file.path.unlink()
        return total

    def finish(self, job: Job, summaries: Sequence[Summary]) -> None:
        """Write the manifest, which marks the output as complete."""
        shards = [
            {**shard, "output": path.name, **asdict(summary)}
            for shard, path, summary in zip(job["shards"], self._paths, summaries, strict=True)
        ]
        keys = ("texts", "sentences", "entities", "rejected")
        totals = {key: sum(shard[key] for shard in shards) for key in keys}
        head = {key: value for key, value in job.items() if key != "shards"}
        head = {"fencepost": job["fencepost"], **_SIGNATURE, **head}
        _write(self.path / MANIFEST, {**head, **totals, "shards": shards})
        self._remove_temporary()


def _is_job(job: object) -> bool:
    return (
        isinstance(job, dict)
        and job.items() >= _SIGNATURE.items()
        and isinstance(job.get("fencepost"), str)
        and isinstance(shards := job.get("shards"), list)
        and all(isinstance(shard, dict) for shard in shards)
    )


def _write(path: Path, value: dict[str, Any]) -> None:
    with whole_file(path) as stream:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        stream.write(text.encode("utf-8", "backslashreplace"))  # file names need not be UTF-8
