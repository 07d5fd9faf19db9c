"""`fencepost predict --engine ray`: files of texts, predicted by many processes into a folder."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import __version__
from fencepost.cli.corpora import Skipped
from fencepost.cli.frame import say
from fencepost.cli.models import EngineName, load_recogniser, settings_of
from fencepost.cli.predict_options import types_of
from fencepost.cli.prediction import many
from fencepost.cli.progress import bar
from fencepost.data.writer import check_no_loop
from fencepost.errors import FencepostError, UsageError
from fencepost.integrations.ray import Progress, Work, check_ready, predict, running
from fencepost.runtime.folder import CARD_FILE, files_of
from fencepost.runtime.loading import SHIPPED
from fencepost.runtime.prediction.folder import OutputFolder
from fencepost.runtime.prediction.shards import Shard, planned, shard_files
from fencepost.runtime.prediction.texts import opened_texts

if TYPE_CHECKING:
    from fencepost.data import ReadOptions
    from fencepost.runtime.recogniser import Recogniser


def check_request(
    source: str | None, output: str | None, options: ReadOptions, refused: Mapping[str, object]
) -> tuple[str, str]:
    """The input and the output; refuses what cannot be asked of many processes."""
    for name, value in {**refused, "--pretokenized": options.pretokenized}.items():
        if value:
            raise UsageError(f"{name} does not go with --engine ray")
    if source is None or source == "-":
        raise UsageError("--engine ray reads files: give --input, a file, a folder or a quoted pattern")
    if output is None or output == "-":
        raise UsageError("--engine ray writes a file for each input: give --output, the name of a folder")
    return source, output


@dataclass(frozen=True)
class ShardPrediction:
    """What is asked for."""

    model: Path
    source: str
    output: str
    options: ReadOptions
    engine: EngineName
    changes: Sequence[str]
    threads: int
    language: str | None
    min_confidence: float
    types: Sequence[str] | None
    format: str | None
    text_column: str | None
    skip_invalid: bool
    workers: int | None
    address: str | None
    quiet: bool

    def run(self, *, resume: bool, force: bool) -> None:
        if resume and force:
            raise UsageError(
                "--resume goes on with the output, and --force begins it anew: choose one of them"
            )
        check_no_loop(Path(self.output))
        check_ready(self.address)
        files = shard_files(self.source)
        folder = OutputFolder(Path(self.output), len(files))
        folder.check(resume=resume, force=force)
        for file in files:
            if folder.path.resolve() in file.resolve().parents:
                raise UsageError(f"{file}: is in the folder of the output; give another --output")
        work, job = self._work()
        shards, job["shards"] = self._planned(files)
        if resume and folder.is_complete(job):
            say(f"{self.output}: is complete already", quiet=self.quiet)
        else:
            self._predict(shards, work, folder, job, resume=resume)

    def _work(self) -> tuple[Work, dict[str, Any]]:
        """What the processes are told, and what is recorded; a model that cannot be loaded is seen here."""
        recogniser = load_recogniser(self.model, self.engine, self.changes, self.threads, self.language)
        types = types_of(self.types, recogniser.types)
        recogniser = recogniser.using(min_confidence=self.min_confidence, types=types)
        work = Work(
            None if self.model == SHIPPED else str(self.model.resolve()),
            recogniser.engine,  # type: ignore[arg-type]
            settings_of(self.model, self.changes),
            recogniser.language,
            self.min_confidence,
            types,
            self.threads,
        )
        options = {
            "min_confidence": self.min_confidence,
            "types": types,
            "format": self.format,
            "text_column": self.text_column,
            "skip_invalid": self.skip_invalid,
        }
        return work, {"fencepost": __version__, "model": _facts(self.model, recogniser), "options": options}

    def _planned(self, files: Sequence[Path]) -> tuple[list[Shard], list[dict[str, Any]]]:
        """The files cut into parts, and what is recorded of them; invalid texts show here."""
        shards, records = [], []
        for file in files:
            skipped = Skipped()
            on_invalid = skipped if self.skip_invalid else None
            with opened_texts(str(file), self.format, self.options, on_invalid, self.text_column) as texts:
                shard = planned(texts)
            skipped.tell(texts.source, quiet=self.quiet)
            shards.append(shard)
            records.append(
                {
                    "input": shard.name,
                    "format": shard.file.kind,
                    "input_bytes": shard.file.size,
                    "input_sha256": shard.sha256,
                    "parts": len(shard.parts),
                    "rejected": skipped.count,
                }
            )
        return shards, records

    def _predict(
        self, shards: Sequence[Shard], work: Work, folder: OutputFolder, job: dict[str, Any], *, resume: bool
    ) -> None:
        """Touches the output only when Ray runs."""
        processors = (self.workers or _processors() // self.threads or 1) * self.threads
        with (
            running(self.address, processors, self.threads),
            _shown(sum(shard.texts for shard in shards), quiet=self.quiet) as tell,
            self._how_to_go_on(),
        ):
            for path in folder.begin(job, resume=resume):
                say(f"{path}: is missing or was changed, so it is made again", quiet=self.quiet)
            start = time.perf_counter()
            done, progress = predict(shards, work, folder, self.workers, tell)
        folder.finish(job, done)
        rate = progress.texts / max(time.perf_counter() - start, 1e-9)
        texts, sentences, entities = (
            sum(getattr(one, of) for one in done) for of in ("texts", "sentences", "entities")
        )
        say(
            f"{many(texts, 'text')}, {many(sentences, 'sentence')}, {many(entities, 'entity', 'entities')} "
            f"-> {self.output} ({many(len(done), 'file')}); {rate:,.1f} texts a second",
            quiet=self.quiet,
        )
        if progress.again:
            say(f"{many(progress.again, 'part')} done again, since a worker had died", quiet=self.quiet)

    @contextmanager
    def _how_to_go_on(self) -> Iterator[None]:
        """Said with whatever stops the work."""
        on = f"what is done is in {self.output}: go on with the same command and --resume"
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"; {on}") from None
        except UsageError:
            raise
        except FencepostError as error:
            raise FencepostError(f"{error}; {on}") from error


def _facts(folder: Path, recogniser: Recogniser) -> dict[str, Any]:
    digest = hashlib.sha256()
    for name in files_of(folder):
        if name == CARD_FILE:  # which changes nothing that is found
            continue
        digest.update(name.encode())
        with (folder / name).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return {
        "name": folder.resolve().name,
        "engine": recogniser.engine,
        "language": recogniser.language,
        "settings": recogniser.settings,
        "sha256": digest.hexdigest(),
    }


def _processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _shown(texts: int, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """How far it is, in terminals only; to be called when a part is done."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    start = time.perf_counter()
    with bar(known=True) as shown:
        task = shown.add_task("", total=texts, texts=0, rate=0.0)

        def tell(progress: Progress) -> None:
            rate = progress.texts / (time.perf_counter() - start)
            done = progress.before + progress.texts
            shown.update(task, completed=done, texts=done, rate=rate)

        yield tell
