"""The output of many processes: a folder with a file for each input, and a manifest that says it is complete.

Until then, what is done lies in `unfinished/`: what the job is, the parts of files, each written whole, and a
record of each file whose parts have been put together. So a job that was stopped can go on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from fencepost.data.output import remove_leftovers, whole_file
from fencepost.errors import FencepostError, UsageError
from fencepost.runtime.prediction.results import Found, Tally, as_object
from fencepost.runtime.prediction.lines import encoded

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
_OURS = {"command": "predict"}  # by which our own files are known, and by what else every one has
_LEFT = (_JOB, f"*{_PART}", f"*{_TRIES}", "[0-9]" * 5 + ".json")  # in `unfinished/`

INPUT_KEYS = ("format", "input_bytes", "input_sha256", "parts", "rejected")
"""What is known of an input besides its name, as `shards` of a job have it."""

Job = dict[str, Any]
"""What makes the output what it is: `fencepost`, its version; `model`, `options`; `shards`, the inputs."""


@dataclass(frozen=True, slots=True)
class Done:
    """What is in a part of the output, or in a file of it."""

    texts: int
    sentences: int
    entities: int
    bytes: int
    sha256: str

    def plus(self, other: Done) -> Done:
        """Both one behind the other; of the SHA-256 this says nothing."""
        return Done(
            self.texts + other.texts,
            self.sentences + other.sentences,
            self.entities + other.entities,
            self.bytes + other.bytes,
            "",
        )


class PartFile:
    """The lines of a part, behind a line that says what they are; it is there as a whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tries = path.with_suffix(_TRIES)

    def tried(self) -> int:
        """Counts this attempt to make it, and says how many there were: a process may die of a part."""
        tries = 1 + (int(self._tries.read_text() or 0) if self._tries.is_file() else 0)
        self._tries.write_text(str(tries))
        return tries

    def write(self, found: Iterable[Found]) -> Done:
        tally = Tally()
        lines = b"".join(encoded(as_object(one)) + b"\n" for one in tally.counting(found))
        sha256 = hashlib.sha256(lines).hexdigest()
        done = Done(tally.texts, tally.sentences, tally.entities, len(lines), sha256)
        with whole_file(self.path) as stream:
            stream.write(encoded(asdict(done)) + b"\n")
            stream.write(lines)
        self._tries.unlink(missing_ok=True)
        return done

    def read(self) -> tuple[Done, bytes] | None:
        """What it is and its lines; None where it is not there, or broken."""
        try:
            head, _, lines = self.path.read_bytes().partition(b"\n")
            done = Done(**json.loads(head))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return (done, lines) if hashlib.sha256(lines).hexdigest() == done.sha256 else None


class OutputFolder:
    """Where the output goes; `count` is how many files it has."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count
        self.unfinished = path / UNFINISHED

    def check(self, *, resume: bool, force: bool) -> None:
        """Refuses what is there already, unless it is said what to do with it, and is our own."""
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: is a file; several processes write into a folder")
        if not self.path.parent.is_dir():
            raise UsageError(f"{self.path}: cannot be written: there is no folder {self.path.parent}")
        if not self.path.exists() or not any(self.path.iterdir()):
            return
        if self.unfinished.is_symlink():
            raise UsageError(f"{self.unfinished}: is a link, which predict does not make; give another name")
        if self._recorded() is None:
            raise UsageError(f"{self.path}: is there already, and is no output of predict; give another name")
        if not (resume or force):
            raise UsageError(
                f"{self.path}: is there already; --resume goes on where it stopped, --force begins anew"
            )

    def _recorded(self) -> Job | None:
        """The job whose output is there, complete or not; where a manifest is not ours, it is none."""
        path = self.path / MANIFEST if self._has_manifest else self.unfinished / _JOB
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return found if _is_ours(found) else None

    @property
    def _has_manifest(self) -> bool:
        return (self.path / MANIFEST).exists()

    def is_complete(self, job: Job) -> bool:
        """Whether all the output is there as the manifest says; refuses what another job has left."""
        recorded = self._recorded()
        if recorded is None:
            return False
        self._check_same(job, recorded)
        return self._has_manifest and all(self._as_recorded(recorded))

    def begin(self, job: Job, *, resume: bool) -> list[Path]:
        """Makes the folder ready; what an earlier run left is used if it was the same job, or removed.

        Returns the files of an output that was complete which are gone or were changed.
        """
        recorded = self._recorded()
        if recorded is not None and resume:
            self._check_same(job, recorded)
            for tries in self.unfinished.glob(f"*{_TRIES}"):
                tries.unlink()
            return self._reopened(job, recorded) if self._has_manifest else []
        earlier = OutputFolder(self.path, 0 if recorded is None else len(recorded["shards"]))
        for path in set(self._files()) - set(earlier._files()):
            if path.exists():
                raise UsageError(f"{path}: is in the way; give another --output")
        if recorded is not None:
            earlier._remove()
        self._open(job)
        return []

    def _open(self, job: Job) -> None:
        try:
            self.unfinished.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error
        _write(self.unfinished / _JOB, {"fencepost": job["fencepost"], **_OURS, **job})

    def _reopened(self, job: Job, manifest: Job) -> list[Path]:
        """Turns what was complete into what is not, so that it can go on; the manifest goes last."""
        self._open(job)
        wrong = []
        for number, done in enumerate(self._as_recorded(manifest)):
            if done is None:
                wrong.append(self.file(number))
            else:
                _write(self._record(number), asdict(done))
        (self.path / MANIFEST).unlink()
        return wrong

    def _as_recorded(self, manifest: Job) -> Iterator[Done | None]:
        """What each file is by the manifest; None where it is not so."""
        for path, shard in zip(self._files(), manifest["shards"], strict=True):
            kept = {part.name: shard.get(part.name) for part in fields(Done)}
            right = (
                None not in kept.values()
                and path.is_file()
                and path.stat().st_size == kept["bytes"]
                and _sha256(path) == kept["sha256"]
            )
            yield Done(**kept) if right else None

    def _check_same(self, job: Job, recorded: Job) -> None:
        """That the job is the recorded one; a manifest says more about each shard."""
        wanted, there = json.loads(json.dumps(job)), dict(recorded)
        there["shards"] = [
            {key: of_input.get(key) for key in ("input", *INPUT_KEYS)} for of_input in there["shards"]
        ]
        for key, value in wanted.items():
            if there.get(key) != value:
                raise UsageError(
                    f"{self.path}: was begun with {_OTHER[key]}, so it cannot go on; --force begins anew"
                )

    def _remove(self) -> None:
        """The output, and nothing else that may be there; the manifest first."""
        (self.path / MANIFEST).unlink(missing_ok=True)
        for path in self._files():
            path.unlink(missing_ok=True)
        self._tidy()

    def _tidy(self) -> None:
        """Removes what the work has left in `unfinished/`, and that too, unless it has something else."""
        for pattern in _LEFT:
            for path in self.unfinished.glob(pattern):
                if path.is_file():
                    path.unlink(missing_ok=True)
        remove_leftovers(self.unfinished)
        with suppress(OSError):
            self.unfinished.rmdir()

    def file(self, shard: int) -> Path:
        """The output for the input with this number."""
        return self.path / f"part-{shard:05d}-of-{self.count:05d}.jsonl"

    def _files(self) -> list[Path]:
        return [self.file(number) for number in range(self.count)]

    def part(self, shard: int, part: int) -> PartFile:
        return PartFile(self.unfinished / f"{shard:05d}-{part:06d}{_PART}")

    def missing(self, shard: int, parts: int) -> Iterator[int]:
        """Which of so many parts of an input are not done."""
        return (number for number in range(parts) if self.part(shard, number).read() is None)

    def _record(self, shard: int) -> Path:
        return self.unfinished / f"{shard:05d}.json"

    def finished(self, shard: int) -> Done | None:
        """What the output for an input is, if it is there."""
        try:
            done = Done(**json.loads(self._record(shard).read_text(encoding="utf-8")))
            same = _sha256(self.file(shard)) == done.sha256
        except (OSError, ValueError, TypeError):
            return None
        return done if same else None

    def assemble(self, shard: int, parts: int) -> Done:
        """Makes the output for an input of its parts, which are all there; then they go."""
        digest = hashlib.sha256()
        total = Done(0, 0, 0, 0, "")
        with whole_file(self.file(shard)) as stream:
            for part in range(parts):
                found = self.part(shard, part).read()
                if found is None:
                    message = f"{self.part(shard, part).path}: is gone, or was changed; go on with --resume"
                    raise FencepostError(message)
                stream.write(found[1])
                digest.update(found[1])
                total = total.plus(found[0])
        total = replace(total, sha256=digest.hexdigest())
        _write(self._record(shard), asdict(total))
        for part in range(parts):
            self.part(shard, part).path.unlink()
        return total

    def finish(self, job: Job, done: Sequence[Done]) -> None:
        """Says that all is there."""
        names = [path.name for path in self._files()]
        shards = [
            {**of_input, "output": name, **asdict(of_output)}
            for of_input, name, of_output in zip(job["shards"], names, done, strict=True)
        ]
        totals = {
            key: sum(shard[key] for shard in shards) for key in ("texts", "sentences", "entities", "rejected")
        }
        head = {key: value for key, value in job.items() if key not in ("fencepost", "shards")}
        whole = {"fencepost": job["fencepost"], **_OURS, **head, **totals, "shards": shards}
        _write(self.path / MANIFEST, whole)
        self._tidy()


def _is_ours(found: object) -> bool:
    return (
        isinstance(found, dict)
        and found.items() >= _OURS.items()
        and isinstance(found.get("fencepost"), str)
        and isinstance(shards := found.get("shards"), list)
        and all(isinstance(shard, dict) for shard in shards)
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _write(path: Path, value: dict[str, Any]) -> None:
    with whole_file(path) as stream:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        stream.write(text.encode("utf-8", "backslashreplace"))  # a file's name need not be UTF-8
