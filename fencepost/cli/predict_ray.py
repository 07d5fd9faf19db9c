"""`fencepost predict --engine ray`: predict files of texts with many processes into a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost import __version__
from fencepost.cli.frame import format_count, say
from fencepost.cli.options import TextOptions
from fencepost.cli.predict_arguments import check_resume_or_force
from fencepost.cli.prediction import describe_counts
from fencepost.cli.progress import show_bar
from fencepost.data.writer import check_no_loop
from fencepost.errors import FencepostError, UsageError
from fencepost.integrations.ray import Progress, check_ready, open_ray, predict
from fencepost.runtime.loading import SHIPPED, describe_model
from fencepost.runtime.offsets import OffsetUnit
from fencepost.runtime.prediction.folder import OutputFolder
from fencepost.runtime.prediction.results import Counts
from fencepost.runtime.prediction.shards import Shard, find_files, plan_shard
from fencepost.runtime.recogniser import Recogniser
from fencepost.runtime.threads import count_cores


@dataclass
class RayPrediction:
    """Prediction of files with Ray; no option of `unsupported` can be set."""

    source: str | None
    output: str | None
    reading: TextOptions
    unsupported: Mapping[str, object]
    workers: int | None
    threads: int
    address: str | None
    resume: bool
    force: bool

    def __post_init__(self) -> None:
        """Find the files; raise `UsageError` for unsupported options and for a bad output."""
        source, output = self.source, self.output
        for name, value in {**self.unsupported, "--pretokenized": self.reading.pretokenized}.items():
            if value:
                raise UsageError(f"{name} cannot be used with --engine ray")
        if source is None or source == "-":
            raise UsageError(
                "--engine ray reads files: give a file, a folder or a quoted pattern with --input"
            )
        if output is None or output == "-":
            raise UsageError("--engine ray writes one file per input file: give a folder with --output")
        check_resume_or_force(resume=self.resume, force=self.force)
        check_no_loop(Path(output))
        check_ready(self.address)
        self.files = find_files(source)
        self.folder = OutputFolder(Path(output), len(self.files))
        self.folder.check(resume=self.resume, force=self.force)
        for file in self.files:
            if self.folder.path.resolve() in file.resolve().parents:
                raise UsageError(f"{file}: the input is inside the output folder; give another --output")

    def run(
        self, recogniser: Recogniser, settings: dict[str, Any], filters: dict[str, Any], offsets: OffsetUnit
    ) -> None:
        """Predict the files with the model of a recogniser, and these settings and filters."""
        job: dict[str, Any] = {
            "fencepost": __version__,
            "model": describe_model(recogniser),
            "options": {
                **filters,
                "format": self.reading.format,
                "text_column": self.reading.text_column,
                "skip_invalid": self.reading.skip_invalid,
                "offsets": offsets,
            },
        }
        options = {
            "path": None if recogniser.folder == SHIPPED.resolve() else str(recogniser.folder),
            "engine": recogniser.engine,
            "settings": settings,
            "language": recogniser.language,
            "lines": recogniser.lines,
            "threads": self.threads,
            **filters,
        }
        shards, job["shards"] = self._plan()
        if self.resume and self.folder.is_complete(job):
            self._say(f"{self.output}: already complete")
        else:
            self._predict(shards, options, job, offsets)

    def _say(self, message: str) -> None:
        say(message, quiet=self.reading.quiet)

    def _plan(self) -> tuple[list[Shard], list[dict[str, Any]]]:
        """Return the shards of the files and their records; print invalid texts."""
        shards, records = [], []
        for file in self.files:
            with self.reading.open(str(file)) as (texts, skip_log):
                shards.append(plan_shard(texts))
            records.append(shards[-1].to_record(skip_log.count))
        return shards, records

    def _predict(
        self, shards: list[Shard], options: dict[str, Any], job: dict[str, Any], offsets: OffsetUnit
    ) -> None:
        """Predict the shards; change the output only after Ray has started."""
        processors = (self.workers or count_cores() // self.threads or 1) * self.threads
        texts = sum(shard.texts for shard in shards)

        def show(progress: Progress) -> None:
            count = progress.before + progress.texts
            report(count, count, progress.texts)

        with (
            open_ray(self.address, processors, self.threads),
            show_bar(texts, quiet=self.reading.quiet) as report,
            self._explain_resume(),
        ):
            for path in self.folder.begin(job, resume=self.resume):
                self._say(f"{path}: missing or changed, so it is written again")
            start = time.perf_counter()
            results, progress = predict(shards, options, self.folder, self.workers, show, offsets)
        self.folder.finish(job, results)
        rate = progress.texts / max(time.perf_counter() - start, 1e-9)
        counts = Counts()
        for result in results:
            counts.add(result)
        files = format_count(len(results), "file")
        self._say(f"{describe_counts(counts)} -> {self.output} ({files}); {rate:,.1f} texts per second")
        if progress.repeated:
            self._say(f"{format_count(progress.repeated, 'part')} computed again because a worker died")

    @contextmanager
    def _explain_resume(self) -> Iterator[None]:
        """Add advice on how to continue to the message of an error or of Ctrl-C."""
        advice = f"finished parts are in {self.output}; continue with the same command and --resume"
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"; {advice}") from None
        except UsageError:
            raise
        except FencepostError as error:
            raise FencepostError(f"{error}; {advice}") from error
