"""Reading texts, selecting sentences and writing them for `fencepost suggest`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost.cli.corpora import OverlapsName, report_losses, write_corpus
from fencepost.cli.frame import check_json_target, explain_resume, format_count, say, write_json
from fencepost.cli.predict_arguments import check_resume_or_force, is_same_file
from fencepost.cli.progress import show_bar
from fencepost.data.entity import Sentence
from fencepost.data.formats.format import Format
from fencepost.data.writer import WriteResult, check_no_loop
from fencepost.errors import DataError, UsageError
from fencepost.runtime.loading import describe_model
from fencepost.runtime.prediction.lines import EXISTS, check_parent
from fencepost.runtime.prediction.text import Text
from fencepost.runtime.prediction.texts import Texts
from fencepost.runtime.suggestion import Chooser
from fencepost.runtime.suggestion.checkpoint import SUFFIX, Checkpoint


@dataclass
class SuggestJob:
    """Run of `fencepost suggest`: its input, its output and its checkpoint."""

    source: str
    output: str
    exclude: Sequence[str]
    json: Path | None
    resume: bool
    force: bool
    quiet: bool
    start: float = 0.0

    def __post_init__(self) -> None:
        """Raise `UsageError` if the output cannot be written."""
        check_resume_or_force(resume=self.resume, force=self.force)
        check_json_target(self.json)
        self.path = Path(self.output)
        self.checkpoint_path = self.path.with_name(self.path.name + SUFFIX)
        if self.output == "-":
            if self.resume or self.force:
                raise UsageError(f"--{'resume' if self.resume else 'force'} needs --output FILE")
            if self.json is not None and str(self.json) == "-":
                raise UsageError(
                    "the sentences and --json cannot both use standard output; give a file for one"
                )
            return
        check_no_loop(self.path)
        check_parent(self.path)
        for name in (self.source, *self.exclude):
            if is_same_file(self.path, Path(name)):
                raise UsageError(f"{self.output}: the output would overwrite the input; give another name")
        if not (self.resume or self.force):
            if self._has_output():
                raise UsageError(f"{self.output}: {EXISTS}")
            if self.checkpoint_path.exists():
                raise UsageError(
                    f"{self.checkpoint_path}: belongs to an interrupted run; use --resume to continue it or "
                    "--force to overwrite it"
                )

    def _has_output(self) -> bool:
        if self.path.is_dir():
            return any(self.path.iterdir())
        return self.path.is_file() and self.path.stat().st_size > 0

    def is_complete(self) -> bool:
        """Return whether `--resume` has nothing to do, and print a message if so."""
        complete = self.resume and self._has_output() and not self.checkpoint_path.exists()
        if complete:
            say(f"{self.output}: already complete", quiet=self.quiet)
        return complete

    def choose(self, chooser: Chooser, texts: Texts, options: dict[str, Any]) -> list[Sentence]:
        """Read the texts and select sentences; leave a checkpoint if this is interrupted."""
        self.start = time.perf_counter()
        if self.output == "-":
            chooser.read(self._watch_texts(texts))
            return chooser.finish()
        checkpoint = self._open_checkpoint(chooser, options)
        if self.resume:
            chooser.state = checkpoint.load() or chooser.state
        advice = f"continue with the same command and --resume (the progress is in {self.checkpoint_path})"
        with explain_resume(advice, self.checkpoint_path):
            chooser.read(self._watch_texts(texts), checkpoint.save)
            checkpoint.save(chooser.state, stopped=True)  # writing may still fail
            return chooser.finish()

    def _open_checkpoint(self, chooser: Chooser, options: dict[str, Any]) -> Checkpoint:
        checkpoint = Checkpoint(
            self.checkpoint_path, describe_model(chooser.recogniser), {**chooser.describe(), **options}
        )
        if self.force:
            self._remove_checkpoint()
        return checkpoint

    def _remove_checkpoint(self) -> None:
        """Remove the checkpoint, if there is one."""
        if self.output != "-":
            self.checkpoint_path.unlink(missing_ok=True)

    def _watch_texts(self, texts: Texts) -> Iterator[Text]:
        """Yield the texts and show a progress bar over the bytes of their file."""
        path = texts.source.path
        size = path.stat().st_size if path is not None and path.is_file() else None
        with show_bar(size, quiet=self.quiet) as report:
            for number, text in enumerate(texts, start=1):
                report(min(text.end, size or 0), number, number)
                yield text

    def write(
        self,
        chooser: Chooser,
        sentences: Sequence[Sentence],
        target: Format,
        overlaps: OverlapsName,
        *,
        skip_invalid: bool,
    ) -> None:
        """Write the sentences, print a summary and remove the checkpoint."""
        if not sentences:
            self._remove_checkpoint()
            reason = "all sentences are excluded" if chooser.state.sentences else "it contains no sentences"
            raise DataError(f"nothing to suggest: {reason}", source=self.source)
        result = write_corpus(sentences, self.output, target.name, overlaps, skip_invalid=skip_invalid)
        self._remove_checkpoint()
        self._report(chooser, result, target)

    def _report(self, chooser: Chooser, result: WriteResult, target: Format) -> None:
        state = chooser.state
        suggested = result.sentences + result.left_out
        sentences = format_count(result.sentences, "sentence")
        entities = format_count(result.entities, "entity", "entities")
        say(
            f"{sentences} of {state.sentences:,}, with {entities} ({chooser.name}) -> "
            f"{self.output} ({target.name})",
            quiet=self.quiet,
        )
        if state.excluded:
            say(f"{format_count(state.excluded, 'sentence')} excluded", quiet=self.quiet)
        if suggested < chooser.count:
            say(f"only {suggested:,} different sentences can be suggested", quiet=self.quiet)
        report_losses(result, quiet=self.quiet)
        if self.json is not None:
            figures = {
                "command": "suggest",
                "input": self.source,
                "output": self.output,
                "format": target.name,
                "strategy": chooser.name,
                "seed": chooser.seed,
                "count": chooser.count,
                "texts": state.texts,
                "sentences": state.sentences,
                "excluded": state.excluded,
                "suggested": result.sentences,
                "entities": result.entities,
                "left_out": result.left_out,
                "seconds": round(time.perf_counter() - self.start, 3),
            }
            write_json(figures, self.json)
