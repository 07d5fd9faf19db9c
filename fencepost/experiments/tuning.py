"""A tuning: trials with settings that are drawn from a space, in search of the best development F1.

A trial is in `OUT/trials/NNNN`, and its scores are in `OUT/study.db`. Only the best one keeps its model.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from fencepost.config import DEFAULT_WIDTH, Config
from fencepost.data.files import read_json
from fencepost.data.output import TEMPORARY, WriteError
from fencepost.errors import FencepostError, UsageError
from fencepost.evaluation import Evaluation, evaluate
from fencepost.experiments.trials import (
    Data,
    Trial,
    has_scores,
    is_started,
    lock_file,
    locked,
    run_trial,
    tidy,
    write_csv,
    write_failure,
    write_json,
    write_text,
)
from fencepost.experiments.tuning_space import Space, changed, space_tree, value_at
from fencepost.experiments.tuning_study import Ongoing, Search, Study, TrialRecord
from fencepost.experiments.workers import attempt
from fencepost.runtime.loading import load
from fencepost.training.run import RESULT_FILE, compute_fingerprint, prepare_sentences
from fencepost.training.trainer import Diverged

__all__ = ["Data", "TrialRecord", "Tuning"]

STUDY_FILE, RESULTS_FILE, TRIALS_FILE, BEST_FILE = "study.db", "tuning.json", "trials.csv", "best.yaml"
IN_A_ROW = 3
"""How many trials that fail one after another end the search."""


class Pruned(Exception):
    """A trial is given up: others were better at this epoch."""


_ENCODER_RATE = "training.encoder_learning_rate"


class Tuning:
    """The trials in a folder, of which some may exist already; a folder with another study is refused.

    To be used with `with`: meanwhile, no other process can work there.
    """

    def __init__(
        self,
        out: str | Path,
        config: Config,
        space: Space,
        data: Data,
        *,
        pruner: str = "median",
        startup_trials: int = 5,
        grace_epochs: int | None = None,
        keep_models: bool = False,
    ) -> None:
        """Without `grace_epochs`, no trial is pruned in the first quarter of its epochs."""
        if data.dev is None:
            raise UsageError("tuning needs development data, whose F1 it searches the best of")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UsageError("tuning works in one process; start it without torchrun and its like")
        self.out, self.config, self.space, self.data = Path(out), config, space, data
        self.keep_models = keep_models
        if grace_epochs is None:
            grace_epochs = math.ceil(config.training.count_epochs(len(data.train)) / 4)
        self.search = Search(config.training.seed, pruner, startup_trials, grace_epochs)
        self._test: Evaluation | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            _check_folder(self.out)
            stack.enter_context(locked(self.out, "tuning"))
            self.study = Study(self.out / STUDY_FILE, self.space, self.search)
            stack.callback(self.study.close)
            identity = self._identity()
            there = self.study.begin(identity, self._first_values())
            if there != identity:
                raise UsageError(
                    f"{self.out}: the study there is another one; go on with the same settings and data, or "
                    f"give another --out ({'; '.join(_differences(there, identity))})"
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def trials(self) -> list[TrialRecord]:
        """All trials, in their order."""
        return self.study.trials

    @property
    def ended(self) -> list[TrialRecord]:
        """The trials that are complete, pruned or failed."""
        return _ended(self.trials)

    @property
    def best(self) -> TrialRecord | None:
        """The best complete trial."""
        return _best(self.trials)

    def settings_of(self, trial: TrialRecord) -> Config:
        """Return the settings that a trial is trained with."""
        return changed(self.config, trial.values)

    def folder(self, number: int) -> Path:
        return self.out / _folder(number)

    @property
    def results(self) -> dict[str, Any]:
        """The results as they are in `tuning.json`."""
        return self._results(self.trials)

    def go(self, trials: int = 20, minutes: float | None = None) -> Iterator[TrialRecord]:
        """Train until there are this many trials in all; yield each when the results are written.

        After `minutes`, no trial is begun. A trial that fails does not affect the others, but three in a row
        end the search.
        """
        until = math.inf if minutes is None else time.monotonic() + 60 * minutes
        in_a_row, there = 0, self._write()
        while len(_ended(there)) < trials and time.monotonic() < until:
            ongoing = self.study.next()
            if ongoing is not None:
                self._run(ongoing, there)
            there = self._write()
            if ongoing is None:
                continue
            trial = there[-1]
            yield trial
            in_a_row = in_a_row + 1 if trial.state == "failed" else 0
            if in_a_row == IN_A_ROW:
                raise FencepostError(
                    f"the last {IN_A_ROW} trials failed, and so the search ends; the last one said: "
                    f"{trial.failure}. When that is corrected, the same command continues"
                )
        ended = _ended(there)
        if ended and _best(ended) is None:
            raise FencepostError(
                f"no trial is complete; trial {ended[-1].number}, the last one, said: {ended[-1].failure}. "
                "With a larger --trials, the same command tries others"
            )

    def score(self) -> Evaluation | None:
        """Return the scores of the best trial's model, and of no other, on the test data."""
        best, test = self.best, self.data.test
        if best is None or test is None:
            return None
        self._test = evaluate(test, load(self.folder(best.number), engine="pytorch").predict(test))
        self._write()
        return self._test

    def _run(self, ongoing: Ongoing, there: Sequence[TrialRecord]) -> None:
        """Train, unless a trial with the same values has its scores: with the same seed it ends alike."""
        scored = (one for one in there if one.state in ("complete", "pruned"))
        twin = next((one for one in scored if one.values == ongoing.values), None)
        if twin is not None:
            ongoing.end_like(twin)
            return
        seconds = ongoing.seconds
        try:
            ended = attempt(self._train, ongoing)
        except (KeyboardInterrupt, WriteError):  # not the fault of the trial, which is resumed
            with suppress(FencepostError):  # the study is on the same disk
                ongoing.note(ongoing.seconds)
            raise
        if ended.failure is not None:
            ongoing.end("failed", seconds + ended.seconds, ended.failure.message)
            write_failure(self.folder(ongoing.number), ended.failure)

    def _first_values(self) -> dict[str, Any]:
        """Return the values of the first trial, which are those of the settings."""
        values = {key: value_at(self.config, key) for key in self.space}
        if values.get(_ENCODER_RATE) == "auto":  # the encoder is not loaded yet
            values[_ENCODER_RATE] = self.config.training.compute_encoder_rate(DEFAULT_WIDTH)
        return values

    def _train(self, ongoing: Ongoing) -> None:
        config, folder = changed(self.config, ongoing.values), self.folder(ongoing.number)
        since = time.monotonic() - ongoing.seconds
        epochs = config.training.count_epochs(len(self.data.train))

        def after_epoch(epoch: int, f1: float) -> None:
            ongoing.report(epoch, f1, time.monotonic() - since)
            if epoch < epochs and ongoing.should_prune():
                raise Pruned

        if has_scores(folder):  # it was killed after its last epoch
            for epoch, scores in enumerate(read_json(folder / RESULT_FILE)["epochs"], start=1):
                ongoing.report(epoch, scores["dev_f1"], time.monotonic() - since)
        elif not is_started(folder):
            shutil.rmtree(folder, ignore_errors=True)  # what was begun before a kill
        try:
            trial = Trial(f"trial {ongoing.number}", config, folder)
            run_trial(replace(self.data, test=None), trial, after_epoch)
        except Pruned:
            ongoing.end("pruned", time.monotonic() - since)
        except Diverged as error:
            # the rest of it says where the last good epoch is, which is not kept here
            raise FencepostError(str(error).partition(". ")[0]) from None
        else:
            ongoing.end("complete", time.monotonic() - since)

    def _write(self) -> list[TrialRecord]:
        """Write the results, remove the models but the best and all checkpoints, and return all trials."""
        trials = self.trials
        best = _best(trials)
        for trial in _ended(trials):
            tidy(self.folder(trial.number), keep_model=self.keep_models or trial is best)
        write_json(self.out / RESULTS_FILE, self._results(trials))
        columns = ("trial", "state", "dev_f1", "epochs", *self.space, "seconds", "same_as", "failure")
        rows = [one.to_dict() for one in trials]
        write_csv(self.out / TRIALS_FILE, columns, [{**row, **_cells(row["values"])} for row in rows])
        if best is not None:
            write_text(self.out / BEST_FILE, self.settings_of(best).to_yaml())
        return trials

    def _results(self, trials: Sequence[TrialRecord]) -> dict[str, Any]:
        importance, why_not = self.study.importance(trials)
        best = _best(trials)
        return {
            "best": None if best is None else _description(best),
            "test": None if self._test is None else self._test.to_dict(),
            "importance": importance,
            "no_importance": why_not or None,
            "trials": [trial.to_dict() for trial in trials],
            "space": space_tree(self.space),
            "search": asdict(self.search),
            "settings": self.config.model_dump(mode="json"),
        }

    def _identity(self) -> dict[str, Any]:
        """Return what cannot change while the study continues, by its name in messages."""
        identity = {
            **_flat(self.config.model_dump(mode="json")),
            **{f"the search's {key}": value for key, value in asdict(self.search).items()},
            **{f"in the search space, {key}": domain.tree() for key, domain in self.space.items()},
            "training data": compute_fingerprint(prepare_sentences(self.data.train, self.config)),
            "development data": compute_fingerprint(self.data.dev or ()),
        }
        return json.loads(json.dumps(identity))  # type: ignore[no-any-return]


def _folder(number: int) -> str:
    return f"trials/{number:04}"


def _ended(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [trial for trial in trials if trial.state != "running"]


def _best(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the complete trial with the highest development F1; of several, the first."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.f1 or 0.0, default=None)


def _description(best: TrialRecord) -> dict[str, Any]:
    known = {"trial": best.number, "dev_f1": best.f1, "values": best.values}
    return {**known, "config": BEST_FILE, "model": _folder(best.number)}


def _cells(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as they are in a table."""
    return {
        key: json.dumps(one) if isinstance(one, list | dict | bool) else one for key, one in values.items()
    }


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for key in {**here, **there}:
        if there.get(key) == here.get(key):
            continue
        if key in ("training data", "development data"):
            yield f"it has other {key}"
        else:
            old, new = (
                json.dumps(one[key], ensure_ascii=False) if key in one else "not" for one in (there, here)
            )
            yield f"{key} is {old} there and {new} here"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def _check_folder(out: Path) -> None:
    """Refuse a folder that is neither empty nor has a study in it."""
    ours = (lock_file("tuning"), TEMPORARY)
    try:
        others = [path.name for path in out.iterdir() if not path.name.startswith(ours)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{out}: cannot be read: {error.strerror}") from None
    if others and STUDY_FILE not in others:
        raise UsageError(f"{out}: is there already, and no study (no {STUDY_FILE}); give another --out")
