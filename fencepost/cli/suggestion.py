"""How `fencepost suggest` reads texts, chooses sentences, and writes them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.cli.corpora import losses
from fencepost.cli.frame import check_json_target, resumable, say, write_json
from fencepost.cli.predict_arguments import check_one_of, is_same
from fencepost.cli.prediction import many
from fencepost.cli.progress import progress_bar
from fencepost.data import write
from fencepost.data.writer import check_no_loop
from fencepost.errors import DataError, UsageError
from fencepost.runtime.loading import describe_model
from fencepost.runtime.prediction.lines import EXISTS, check_parent
from fencepost.runtime.suggestion.checkpoint import SUFFIX, Checkpoint

if TYPE_CHECKING:
    from fencepost.data.entity import Sentence
    from fencepost.data.formats.format import Format
    from fencepost.data.formats.overlaps import Prefer
    from fencepost.data.writer import WriteResult
    from fencepost.runtime.prediction.text import Text
    from fencepost.runtime.prediction.texts import Texts
    from fencepost.runtime.suggestion import Chooser


@dataclass
class Suggestion:
    """One run: where its texts come from, and where its results go."""

    source: str
    output: str
    exclude: Sequence[str]
    json: Path | None
    resume: bool
    force: bool
    quiet: bool
    start: float = 0.0

    def __post_init__(self) -> None:
        """Refuse an output that cannot be written, before any work is done."""
        check_one_of(resume=self.resume, force=self.force)
        check_json_target(self.json)
        self.path = Path(self.output)
        self.unfinished = self.path.with_name(self.path.name + SUFFIX)
        if self.output == "-":
            if self.resume or self.force:
                raise UsageError(
                    f"--{'resume' if self.resume else 'force'} is about --output FILE, which is missing"
                )
            if self.json is not None and str(self.json) == "-":
                raise UsageError(
                    "the sentences and --json cannot both go to standard output; name a file for one"
                )
            return
        check_no_loop(self.path)
        check_parent(self.path)
        for name in (self.source, *self.exclude):
            if is_same(self.path, Path(name)):
                raise UsageError(f"{self.output}: the output would overwrite the input; give another name")
        if not (self.resume or self.force):
            if self._has_output():
                raise UsageError(f"{self.output}: {EXISTS}")
            if self.unfinished.exists():
                raise UsageError(
                    f"{self.unfinished}: is of a run that was stopped; --resume continues it, "
                    "--force starts again"
                )

    def _has_output(self) -> bool:
        if self.path.is_dir():
            return any(self.path.iterdir())
        return self.path.is_file() and self.path.stat().st_size > 0

    def is_complete(self) -> bool:
        """Return whether there is nothing left to continue, and say so."""
        complete = self.resume and self._has_output() and not self.unfinished.exists()
        if complete:
            say(f"{self.output}: is complete already", quiet=self.quiet)
        return complete

    def choose(self, chooser: Chooser, texts: Texts, options: dict[str, Any]) -> list[Sentence]:
        """Read the texts, and choose; leave a file to continue from if that is stopped."""
        self.start = time.perf_counter()
        if self.output == "-":
            chooser.read(self._shown(texts))
            return chooser.finish()
        checkpoint = self._open_checkpoint(chooser, options)
        if self.resume:
            chooser.state = checkpoint.load() or chooser.state
        advice = f"continue with the same command and --resume ({self.unfinished} has what is done)"
        with resumable(advice, self.unfinished):
            chooser.read(self._shown(texts), checkpoint.save)
            checkpoint.save(chooser.state, stopped=True)  # the format may refuse the sentences
            return chooser.finish()

    def _open_checkpoint(self, chooser: Chooser, options: dict[str, Any]) -> Checkpoint:
        checkpoint = Checkpoint(
            self.unfinished, describe_model(chooser.recogniser), {**chooser.describe(), **options}
        )
        if self.force:
            self._forget()
        return checkpoint

    def _forget(self) -> None:
        """Remove what was kept to continue from."""
        if self.output != "-":
            self.unfinished.unlink(missing_ok=True)

    def _shown(self, texts: Texts) -> Iterator[Text]:
        """Yield the texts, with a bar over the bytes of their file."""
        path = texts.source.path
        size = path.stat().st_size if path is not None and path.is_file() else None
        with progress_bar(size, quiet=self.quiet) as report:
            for number, text in enumerate(texts, start=1):
                report(min(text.end, size or 0), number, number)
                yield text

    def write(
        self,
        chooser: Chooser,
        sentences: Sequence[Sentence],
        target: Format,
        prefer: Prefer | None,
        *,
        leave_out: bool,
    ) -> None:
        """Write the sentences, say what was done, and remove what was kept to continue."""
        if not sentences:
            self._forget()
            reason = "all of its sentences are excluded" if chooser.state.sentences else "it has no sentence"
            raise DataError(f"there is nothing to suggest: {reason}", source=self.source)
        ignore = (lambda *_: None) if leave_out else None  # the writer counts them
        result = write(sentences, self.output, target.name, prefer=prefer, on_refused=ignore)
        self._forget()
        self._report(chooser, result, target)

    def _report(self, chooser: Chooser, result: WriteResult, target: Format) -> None:
        state = chooser.state
        suggested = result.sentences + result.left_out
        say(
            f"{many(result.sentences, 'sentence')} with {many(result.entities, 'entity', 'entities')} of "
            f"{state.sentences:,} ({chooser.name}) -> {self.output} ({target.name})",
            quiet=self.quiet,
        )
        if state.excluded:
            say(f"{many(state.excluded, 'sentence')} excluded", quiet=self.quiet)
        if suggested < chooser.count:
            say(f"there are only {suggested:,} different sentences to suggest", quiet=self.quiet)
        if result.left_out:
            left_out = f"{many(result.left_out, 'sentence')} left out: {target.name} cannot hold them"
            say(left_out, quiet=self.quiet)
        for line in losses(result):
            say(line, quiet=self.quiet)
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
