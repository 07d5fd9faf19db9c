"""`fencepost predict --engine ray`: files of texts, predicted by many processes into a folder."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost import __version__
from fencepost.cli.frame import say
from fencepost.cli.predict_arguments import check_one_of
from fencepost.cli.prediction import Input, describe, many
from fencepost.cli.progress import progress_bar
from fencepost.data.writer import check_no_loop
from fencepost.errors import FencepostError, UsageError
from fencepost.integrations.ray import Progress, check_ready, open_ray, predict
from fencepost.runtime.loading import SHIPPED, describe_model
from fencepost.runtime.prediction.folder import OutputFolder
from fencepost.runtime.prediction.results import Counts
from fencepost.runtime.prediction.shards import Shard, find_files, plan_shard
from fencepost.runtime.threads import count_cores

if TYPE_CHECKING:
    from fencepost.runtime.offsets import OffsetUnit
    from fencepost.runtime.recogniser import Recogniser


class RayPrediction:
    """A prediction of files by Ray."""

    def __init__(
        self,
        source: str | None,
        output: str | None,
        reading: Input,
        refused: Mapping[str, object],
        *,
        workers: int | None,
        threads: int,
        address: str | None,
        resume: bool,
        force: bool,
    ) -> None:
        """Find the files; refuse options of `refused` that are set, and an output that cannot be written."""
        for name, value in {**refused, "--pretokenized": reading.options.pretokenized}.items():
            if value:
                raise UsageError(f"{name} does not go with --engine ray")
        if source is None or source == "-":
            raise UsageError("--engine ray reads files: give --input, a file, a folder or a quoted pattern")
        if output is None or output == "-":
            raise UsageError("--engine ray writes a file for each input: give --output, the name of a folder")
        self.output, self.reading, self.resume = output, reading, resume
        self.workers, self.threads, self.address = workers, threads, address
        check_one_of(resume=resume, force=force)
        check_no_loop(Path(output))
        check_ready(address)
        self.files = find_files(source)
        self.folder = OutputFolder(Path(output), len(self.files))
        self.folder.check(resume=resume, force=force)
        for file in self.files:
            if self.folder.path.resolve() in file.resolve().parents:
                raise UsageError(f"{file}: is in the folder of the output; give another --output")

    def run(
        self,
        recogniser: Recogniser,
        settings: dict[str, Any],
        filters: dict[str, Any],
        offsets: OffsetUnit,
    ) -> None:
        """Predict the files with the model of a recogniser, and these settings and filters of `load`."""
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
            self._say(f"{self.output}: is complete already")
        else:
            self._predict(shards, options, job, offsets)

    def _say(self, message: str) -> None:
        say(message, quiet=self.reading.quiet)

    def _plan(self) -> tuple[list[Shard], list[dict[str, Any]]]:
        """Cut the files into parts, and describe them; invalid texts are reported here."""
        shards, records = [], []
        for file in self.files:
            with self.reading.open_file(str(file)) as (texts, skipped):
                shards.append(plan_shard(texts))
            records.append(shards[-1].to_record(skipped.count))
        return shards, records

    def _predict(
        self, shards: list[Shard], options: dict[str, Any], job: dict[str, Any], offsets: OffsetUnit
    ) -> None:
        """Predict; the output is not touched before Ray runs."""
        processors = (self.workers or count_cores() // self.threads or 1) * self.threads
        texts = sum(shard.texts for shard in shards)

        def show(progress: Progress) -> None:
            done = progress.before + progress.texts
            report(done, done, progress.texts)

        with (
            open_ray(self.address, processors, self.threads),
            progress_bar(texts, quiet=self.reading.quiet) as report,
            self._how_to_continue(),
        ):
            for path in self.folder.begin(job, resume=self.resume):
                self._say(f"{path}: is missing or was changed, so it is made again")
            start = time.perf_counter()
            done, progress = predict(shards, options, self.folder, self.workers, show, offsets)
        self.folder.finish(job, done)
        rate = progress.texts / max(time.perf_counter() - start, 1e-9)
        counts = Counts()
        for one in done:
            counts.add(one)
        files = many(len(done), "file")
        self._say(f"{describe(counts)} -> {self.output} ({files}); {rate:,.1f} texts a second")
        if progress.repeated:
            self._say(f"{many(progress.repeated, 'part')} repeated because a worker died")

    @contextmanager
    def _how_to_continue(self) -> Iterator[None]:
        """Add how to continue to whatever stops the work."""
        advice = f"what is done is in {self.output}: continue with the same command and --resume"
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"; {advice}") from None
        except UsageError:
            raise
        except FencepostError as error:
            raise FencepostError(f"{error}; {advice}") from error
