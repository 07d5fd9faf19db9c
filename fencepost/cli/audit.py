"""`fencepost audit`: find annotations of a corpus that are probably wrong."""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fencepost.cli.audit_tables import print_checks, print_kinds, summarize_checks
from fencepost.cli.corpora import OVERLAPS_HELP, OverlapsName, report_losses, write_corpus
from fencepost.cli.frame import Json, check_json_target, command, explain_resume, format_count, output_result
from fencepost.cli.groups import argument, option
from fencepost.cli.progress import format_duration, watch_reader
from fencepost.cli.training_options import ConfiguredOptions
from fencepost.errors import FencepostError, UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.analysis.audit.folds import Audit
    from fencepost.analysis.audit.predictions import AuditPredictions
    from fencepost.analysis.audit.suggestions import Suggestion
    from fencepost.analysis.consistency import Inconsistency
    from fencepost.data.entity import Sentence
    from fencepost.experiments.workers import Failure

PAGE_FILE, SUGGESTIONS_FILE, CONSISTENCY_FILE = "audit.html", "suggestions.jsonl", "consistency.json"


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ConfiguredOptions):
    """Options of an audit."""

    title = "Audit"

    out: Path | None = option(None, "Folder for the results; an audit in it is continued.", metavar="FOLDER")
    folds: int = option(
        5, "Number of folds, split by document; a model of all others checks each fold.", min=2
    )
    workers: int = option(1, "Number of folds trained at once, in processes that share the cores.", min=1)
    top: int = option(1000, "Maximum number of suggestions on the page and in --write.", min=1)
    consistency_only: bool = option(False, "Train no models; only compare the annotations with each other.")
    fix: Path | None = option(
        None, "Apply the suggestions that are accepted in this file.", metavar="FILE.jsonl"
    )
    write: Path | None = option(
        None,
        "File for the corrected corpus of --fix; without --fix, for the sentences with suggestions, "
        "to review in an annotation tool.",
        metavar="FILE",
    )
    to: str | None = option(None, "Format of --write, for example label-studio. Default: from the file name.")
    overlaps: OverlapsName = option("refuse", OVERLAPS_HELP)
    json: Json = None

    def check(self) -> None:
        """Raise `UsageError` for options that contradict each other."""
        check_json_target(self.json)
        if self.fix is not None and (self.consistency_only or self.out is not None):
            raise UsageError(
                "--fix applies suggestions and trains no models; leave out --out and --consistency-only"
            )
        if self.fix is not None and self.write is None:
            raise UsageError("--fix needs --write, the file for the corrected corpus")
        if self.write is None and (self.to is not None or self.overlaps != "refuse"):
            raise UsageError(f"{'--overlaps' if self.to is None else '--to'} needs --write")
        if self.consistency_only and (self.out is not None or self.write is not None):
            raise UsageError("--consistency-only writes only --json; leave out --out and --write")
        if self.fix is None and not self.consistency_only and self.out is None:
            raise UsageError("give the folder for the results with --out (or --consistency-only, or --fix)")
        if self.write is not None:
            self._check_format(self.write)

    def _check_format(self, path: Path) -> None:
        """Raise `UsageError` if the format of `--write` is unknown, before hours of training."""
        from fencepost.data.formats.registry import format_by_name, format_by_suffix

        if self.to is not None:
            format_by_name(self.to)
        elif str(path) != "-":
            format_by_suffix(path)
        if str(path) == "-" and (self.fix is None or str(self.json) == "-"):
            raise UsageError("--write - would mix the corpus with other output; give a file")


@command("audit")
def audit(
    *,
    data: str = argument("DATA", "Annotated corpus: a file, a folder (BRAT), - or sample:train."),
    options: AuditOptions,
) -> None:
    """Find annotations that are probably wrong, by cross-validation and by comparing them with each other.

    To continue after an interruption, run the same command again.

    Example: fencepost audit train.conll --out my-audit
    """
    options.check()
    if options.fix is not None:
        _fix(data, options)
    elif options.consistency_only:
        from fencepost.analysis.consistency import find_inconsistencies

        sentences = options.read(data)
        inconsistencies = find_inconsistencies(sentences)
        result = {
            "data": data,
            "sentences": len(sentences),
            "consistency": summarize_checks(inconsistencies),
            "inconsistencies": [one.to_dict(sentences) for one in inconsistencies],
        }
        output_result(result, options.json, lambda: print_checks(inconsistencies))
    else:
        _audit(data, options)


def _audit(data: str, options: AuditOptions) -> None:
    """Train the unfinished folds, compare annotations with predictions, and write the results."""
    with require_extra("train"):
        from fencepost.analysis.audit.folds import Audit
    from fencepost.analysis.audit.ranking import rank
    from fencepost.analysis.consistency import find_inconsistencies
    from fencepost.training import find_idle_settings

    assert options.out is not None  # noqa: S101 - ensured by `check`
    config = options.settings()
    text = {"language": config.text.language, "lines": config.text.lines}
    sentences = options.read(data, text)
    plan = Audit(options.out, sentences, config, options.folds, options.device, options.quiet)
    plan.check()
    for note in find_idle_settings(config, sentences, None):
        options.say(note)
    with explain_resume("run the same command again to continue; finished folds are kept", options.out):
        _train_folds(plan, options)
        options.say("comparing the annotations with the predictions")
        predictions = plan.read_predictions()
        suggestions, inconsistencies = rank(predictions), find_inconsistencies(sentences)
        files = _write_files(data, options, predictions, suggestions, inconsistencies)
    kinds = Counter(one.kind for one in suggestions)
    result = {
        "data": data,
        "sentences": len(sentences),
        "folds": options.folds,
        "suggestions": len(suggestions),
        "kinds": dict(kinds),
        "consistency": summarize_checks(inconsistencies),
        "files": {name: str(path) for name, path in files.items()},
    }

    def show() -> None:
        print_kinds(suggestions, sentences)
        print_checks(inconsistencies)
        options.say(f"review the suggestions in {files['page']}")

    output_result(result, options.json, show)


def _train_folds(plan: Audit, options: AuditOptions) -> None:
    todo = [fold for fold in range(plan.folds) if not plan.is_done(fold)]
    workers = min(options.workers, max(1, len(todo)))
    finished = f"; {plan.folds - len(todo)} already finished" if len(todo) < plan.folds else ""
    options.say(f"{plan.folds} folds of {len(plan.sentences):,} sentences{finished}")
    failed: dict[int, Failure] = {}
    seconds = 0.0
    for number, result in enumerate(plan.run(workers), start=1):
        seconds += result.seconds
        line = f"fold {result.task + 1} of {plan.folds}: {format_duration(result.seconds)}"
        if result.failure is not None:
            failed[result.task] = result.failure
            line = f"fold {result.task + 1} of {plan.folds} failed: {result.failure.message}"
        if number < len(todo):
            line += f"; about {format_duration(seconds / number * (len(todo) - number) / workers)} left"
        options.say(line)
    if failed:
        lines = "".join(f"\n  fold {fold + 1}: {failure.message}" for fold, failure in sorted(failed.items()))
        raise FencepostError(
            f"{len(failed)} of {plan.folds} folds failed; correct the cause and run the same command "
            f"again:{lines}"
        )


def _write_files(
    data: str,
    options: AuditOptions,
    predictions: AuditPredictions,
    suggestions: Sequence[Suggestion],
    inconsistencies: Sequence[Inconsistency],
) -> dict[str, Path]:
    """Write the suggestions, the inconsistencies, the page and the file of `--write`; return the paths."""
    from fencepost.analysis.audit.page import AuditPage, render
    from fencepost.analysis.audit.suggestions import apply_for_review, to_dicts
    from fencepost.experiments.trials import write_json, write_text

    out, sentences = options.out or Path(), predictions.sentences
    files = {
        "suggestions": out / SUGGESTIONS_FILE,
        "consistency": out / CONSISTENCY_FILE,
        "page": out / PAGE_FILE,
    }
    lines = (json_module.dumps(one, ensure_ascii=False) for one in to_dicts(suggestions, sentences))
    write_text(files["suggestions"], "".join(f"{line}\n" for line in lines))
    cases = [one.to_dict(sentences) for one in inconsistencies]
    write_json(files["consistency"], {"inconsistencies": cases})
    name = "standard input" if data == "-" else Path(data).name
    write_text(
        files["page"],
        render(AuditPage(name, sentences, inconsistencies, predictions, suggestions, options.top)),
    )
    if options.write is not None:
        _write(apply_for_review(suggestions[: options.top], predictions), options)
        files["review"] = options.write
    return files


def _fix(data: str, options: AuditOptions) -> None:
    """Apply accepted suggestions to the corpus, and write it."""
    from fencepost.analysis.audit.fixing import apply_suggestions, read_accepted

    assert options.fix is not None  # noqa: S101 - ensured by `check`
    accepted = read_accepted(options.fix)
    count = sum(map(len, accepted.values()))
    config = options.settings() if options.config or options.changes else None
    text = {} if config is None else {"language": config.text.language, "lines": config.text.lines}
    with options.open(data, text) as reader:
        fixed = apply_suggestions(watch_reader(reader, quiet=options.quiet), accepted, str(options.fix))
        sentences = _write(fixed, options)
    result = {"data": data, "applied": count, "sentences": sentences, "output": str(options.write)}
    line = f"{format_count(count, 'suggestion')} applied; {sentences:,} sentences are in {options.write}"
    output_result(result, options.json, lambda: options.say(line))


def _write(sentences: Iterable[Sentence], options: AuditOptions) -> int:
    """Write a corpus and return its number of sentences."""
    assert options.write is not None  # noqa: S101 - ensured by `check`
    result = write_corpus(
        sentences, options.write, options.to, options.overlaps, skip_invalid=options.skip_invalid
    )
    report_losses(result, quiet=options.quiet)
    return result.sentences
