"""`fencepost audit`: annotations of a corpus that are probably wrong."""

from __future__ import annotations

import json as json_module
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from fencepost.cli.audit_tables import count_all, print_checks, print_kinds
from fencepost.cli.corpora import losses
from fencepost.cli.frame import Json, check_json_target, command, output_result, resumable
from fencepost.cli.groups import argument
from fencepost.cli.progress import duration, watch_reader
from fencepost.cli.training_options import ConfiguredOptions
from fencepost.errors import FencepostError, UsageError, require_extra

if TYPE_CHECKING:
    from fencepost.analysis.audit.folds import Audit
    from fencepost.analysis.audit.predictions import AuditPredictions
    from fencepost.analysis.audit.suggestions import Suggestion
    from fencepost.analysis.consistency import Inconsistency
    from fencepost.experiments.workers import Failure

PAGE_FILE, SUGGESTIONS_FILE, CONSISTENCY_FILE = "audit.html", "suggestions.jsonl", "consistency.json"


@dataclass(frozen=True, kw_only=True)
class AuditOptions(ConfiguredOptions):
    """The options of an audit."""

    title = "Audit"

    out: Annotated[
        Path | None, Option(metavar="FOLDER", help="The folder for the results; an audit in it is continued.")
    ] = None
    folds: Annotated[
        int, Option(min=2, help="Parts of the corpus, by document; each is judged by a model of the others.")
    ] = 5
    workers: Annotated[
        int, Option(min=1, help="Number of folds at once, in processes that share the cores.")
    ] = 1
    top: Annotated[int, Option(min=1, help="Suggestions on the page and in --write, the first ones.")] = 1000
    consistency_only: Annotated[
        bool, Option("--consistency-only", help="Train no models; only compare annotations with each other.")
    ] = False
    fix: Annotated[
        Path | None,
        Option(metavar="FILE.jsonl", help="Apply the suggestions in this file that a person accepted."),
    ] = None
    write: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --fix, the corrected corpus; else the sentences with suggestions, as predictions for "
            "review in an annotation tool.",
        ),
    ] = None
    to: Annotated[
        str | None, Option(help="The format of --write, as label-studio; by default its ending decides.")
    ] = None
    json: Json = None

    def check(self) -> None:
        """Refuse options that contradict each other."""
        check_json_target(self.json)
        if self.fix is not None and (self.consistency_only or self.out is not None):
            raise UsageError(
                "--fix applies suggestions and trains nothing; leave out --out, --consistency-only"
            )
        if self.fix is not None and self.write is None:
            raise UsageError("--fix needs a file for the corrected corpus; give --write")
        if self.to is not None and self.write is None:
            raise UsageError("--to is the format of --write; give both, or none of them")
        if self.consistency_only and (self.out is not None or self.write is not None):
            raise UsageError("--consistency-only has one result, for --json; leave out --out and --write")
        if self.fix is None and not self.consistency_only and self.out is None:
            raise UsageError("give the folder for the results with --out (or --consistency-only, or --fix)")
        if self.write is not None:
            self._check_written(self.write)

    def _check_written(self, path: Path) -> None:
        """Refuse a name that does not tell the format, before hours of training."""
        from fencepost.data.formats.registry import format_by_name, format_by_suffix

        if self.to is not None:
            format_by_name(self.to)
        elif str(path) != "-":
            format_by_suffix(path)
        if str(path) == "-" and (self.fix is None or str(self.json) == "-"):
            raise UsageError("--write - would mix the corpus with other output; name a file")


@command("audit")
def audit(
    data: Annotated[
        str, argument("DATA", "An annotated corpus: a file, a folder (BRAT), - or sample:train.")
    ],
    options: AuditOptions,
) -> None:
    """Find annotations that are probably wrong, by cross-validation and by comparison with each other.

    The same command continues where it was interrupted.

    Example: fencepost audit train.conll --out my-audit
    """
    options.check()
    if options.fix is not None:
        _fix(data, options)
    elif options.consistency_only:
        from fencepost.analysis.consistency import find_inconsistencies

        sentences = options.read(data)
        found = find_inconsistencies(sentences)
        every = [one.to_dict(sentences) for one in found]
        result = {"data": data, "sentences": len(sentences), "consistency": count_all(found)}
        output_result({**result, "inconsistencies": every}, options.json, lambda: print_checks(found))
    else:
        _audit(data, options)


def _audit(data: str, options: AuditOptions) -> None:
    """Train and judge the folds that are not done, and write the results."""
    with require_extra("train"):
        from fencepost.analysis.audit.folds import Audit
    from fencepost.analysis.audit.ranking import rank
    from fencepost.analysis.consistency import find_inconsistencies
    from fencepost.training import find_idle_settings

    assert options.out is not None  # noqa: S101 - `check` has made sure
    config = options.settings()
    text = {"language": config.text.language, "lines": config.text.lines}
    sentences = options.read(data, text)
    plan = Audit(options.out, sentences, config, options.folds, options.device, options.quiet)
    plan.check()
    for note in find_idle_settings(config, sentences, None):
        options.say(note)
    with resumable("continue with the same command, which keeps what is finished", options.out):
        _train(plan, options)
        options.say("comparing the annotations with the predictions")
        predictions = plan.read_predictions()
        suggestions, found = rank(predictions), find_inconsistencies(sentences)
        files = _write_files(data, options, predictions, suggestions, found)
    kinds = Counter(one.kind for one in suggestions)
    result = {
        "data": data,
        "sentences": len(sentences),
        "folds": options.folds,
        "suggestions": len(suggestions),
        "kinds": dict(kinds),
        "consistency": count_all(found),
        "files": {name: str(path) for name, path in files.items()},
    }

    def show() -> None:
        print_kinds(suggestions, sentences)
        print_checks(found)
        options.say(f"review the suggestions in {files['page']}")

    output_result(result, options.json, show)


def _train(plan: Audit, options: AuditOptions) -> None:
    todo = [fold for fold in range(plan.folds) if not plan.is_done(fold)]
    workers = min(options.workers, max(1, len(todo)))
    finished = f"; {plan.folds - len(todo)} finished already" if len(todo) < plan.folds else ""
    options.say(f"{plan.folds} folds of {len(plan.sentences):,} sentences{finished}")
    failed: dict[int, Failure] = {}
    seconds = 0.0
    for number, ended in enumerate(plan.run(workers), start=1):
        seconds += ended.seconds
        line = f"fold {ended.task + 1} of {plan.folds}: {duration(ended.seconds)}"
        if ended.failure is not None:
            failed[ended.task] = ended.failure
            line = f"fold {ended.task + 1} of {plan.folds} failed: {ended.failure.message}"
        if number < len(todo):
            line += f"; about {duration(seconds / number * (len(todo) - number) / workers)} left"
        options.say(line)
    if failed:
        lines = "".join(f"\n  fold {fold + 1}: {failure.message}" for fold, failure in sorted(failed.items()))
        raise FencepostError(
            f"{len(failed)} of {plan.folds} folds failed; when that is corrected, the same command tries "
            f"them again:{lines}"
        )


def _write_files(
    data: str,
    options: AuditOptions,
    predictions: AuditPredictions,
    suggestions: Sequence[Suggestion],
    found: Sequence[Inconsistency],
) -> dict[str, Path]:
    """Write the suggestions, the inconsistencies, the page, and what was asked for with `--write`."""
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
    write_json(files["consistency"], {"inconsistencies": [one.to_dict(sentences) for one in found]})
    name = "standard input" if data == "-" else Path(data).name
    write_text(
        files["page"], render(AuditPage(name, sentences, found, predictions, suggestions, options.top))
    )
    if options.write is not None:
        _write(apply_for_review(suggestions[: options.top], predictions), options)
        files["review"] = options.write
    return files


def _fix(data: str, options: AuditOptions) -> None:
    """Apply accepted suggestions to the corpus, and write it."""
    from fencepost.analysis.audit.fixing import apply_suggestions, read_accepted

    assert options.fix is not None  # noqa: S101 - `check` has made sure
    accepted = read_accepted(options.fix)
    count = sum(map(len, accepted.values()))
    config = options.settings() if options.config or options.changes else None
    text = {} if config is None else {"language": config.text.language, "lines": config.text.lines}
    with options.open(data, text) as reader:
        fixed = apply_suggestions(watch_reader(reader, quiet=options.quiet), accepted, str(options.fix))
        sentences = _write(fixed, options)
    result = {"data": data, "applied": count, "sentences": sentences, "output": str(options.write)}
    plural = "s" * (count != 1)
    line = f"{count:,} suggestion{plural} applied; {sentences:,} sentences are in {options.write}"
    output_result(result, options.json, lambda: options.say(line))


def _write(sentences: Any, options: AuditOptions) -> int:
    """Write a corpus and return its number of sentences."""
    from fencepost.data import write

    assert options.write is not None  # noqa: S101 - `check` has made sure
    written = write(sentences, options.write, options.to)
    for line in losses(written):
        options.say(line)
    return written.sentences
