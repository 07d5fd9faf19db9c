"""Tuning: trials with settings drawn from a search space, in search of the best development F1.

A trial is in `OUT/trials/NNNN`, and its scores are in `OUT/study.db`. Only the best trial keeps its model.
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
    list_entries,
    lock_folder,
    make_lock_name,
    run_trial,
    tidy,
    write_csv,
    write_failure,
    write_json,
    write_text,
)
from fencepost.experiments.tuning_space import Space, change_config, dump_space, get_value
from fencepost.experiments.tuning_study import RunningTrial, Search, Study, TrialRecord
from fencepost.experiments.workers import run_task
from fencepost.runtime.loading import load
from fencepost.settings import flatten_tree
from fencepost.training.data import compute_fingerprint, prepare_sentences
from fencepost.training.folder import RESULT_FILE
from fencepost.training.trainer import Diverged

__all__ = ["Data", "TrialRecord", "Tuning"]

STUDY_FILE, RESULTS_FILE, TRIALS_FILE, BEST_FILE = "study.db", "tuning.json", "trials.csv", "best.yaml"
MAX_FAILURES = 3
"""Number of consecutive failed trials that end the search."""


class TrialPruned(Exception):
    """A trial is stopped early because others were better at this epoch."""


_ENCODER_RATE = "training.encoder_learning_rate"


class Tuning:
    """Trials in a folder, of which some may already exist.

    It is a context manager, which locks the folder and raises `UsageError` if it contains another study.
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
        """Initialize the search; by default, `grace_epochs` is a quarter of the epochs."""
        if data.dev is None:
            raise UsageError("tuning needs development data, to compare the trials by their F1")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UsageError("tuning runs in one process; start it without torchrun or accelerate")
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
            stack.enter_context(lock_folder(self.out, "tuning"))
            self.study = Study(self.out / STUDY_FILE, self.space, self.search)
            stack.callback(self.study.close)
            identity = self._describe_study()
            stored = self.study.initialize(identity, self._get_first_values())
            if stored != identity:
                raise UsageError(
                    f"{self.out}: contains another study; continue with the same settings and data, or "
                    f"give another --out ({'; '.join(_list_differences(stored, identity))})"
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def trials(self) -> list[TrialRecord]:
        """All trials in order."""
        return self.study.trials

    @property
    def ended_trials(self) -> list[TrialRecord]:
        """Trials that are complete, pruned or failed."""
        return _select_ended(self.trials)

    @property
    def best(self) -> TrialRecord | None:
        """Best complete trial, or None."""
        return _find_best(self.trials)

    def make_config(self, trial: TrialRecord) -> Config:
        """Return the settings of a trial."""
        return change_config(self.config, trial.values)

    def get_folder(self, number: int) -> Path:
        return self.out / _folder(number)

    @property
    def results(self) -> dict[str, Any]:
        """Results as in `tuning.json`."""
        return self._collect_results(self.trials)

    def run(self, trials: int = 20, minutes: float | None = None) -> Iterator[TrialRecord]:
        """Run trials up to this total number; yield each after the results are written.

        No trial is started after `minutes`. A trial that fails does not affect the others, but three
        consecutive failures end the search.

        Raises `FencepostError` if the last three trials failed, or if no trial is complete at the end.
        """
        until = math.inf if minutes is None else time.monotonic() + 60 * minutes
        failures, records = 0, self._write()
        while len(_select_ended(records)) < trials and time.monotonic() < until:
            running = self.study.start_trial()
            if running is not None:
                self._run(running, records)
            records = self._write()
            if running is None:
                continue
            trial = records[-1]
            yield trial
            failures = failures + 1 if trial.state == "failed" else 0
            if failures == MAX_FAILURES:
                raise FencepostError(
                    f"the search ends because the last {MAX_FAILURES} trials failed; error of the last one: "
                    f"{trial.failure}. Correct the cause and run the same command again to continue"
                )
        ended = _select_ended(records)
        if ended and _find_best(ended) is None:
            raise FencepostError(
                f"no trial is complete; error of the last one ({ended[-1].number}): {ended[-1].failure}. "
                "To try others, run the same command with a larger --trials"
            )

    def score(self) -> Evaluation | None:
        """Return the scores of the best trial's model on the test data; None without either."""
        best, test = self.best, self.data.test
        if best is None or test is None:
            return None
        self._test = evaluate(test, load(self.get_folder(best.number), engine="pytorch").predict(test))
        self._write()
        return self._test

    def _run(self, trial: RunningTrial, records: Sequence[TrialRecord]) -> None:
        """Train, or copy the scores of a trial with the same values: the same seed gives the same scores."""
        scored = (one for one in records if one.state in ("complete", "pruned"))
        twin = next((one for one in scored if one.values == trial.values), None)
        if twin is not None:
            trial.end_like(twin)
            return
        seconds = trial.seconds
        try:
            result = run_task(self._train, trial)
        except (KeyboardInterrupt, WriteError):  # not a failure of the trial, which can be resumed
            with suppress(FencepostError):  # the study is on the same disk
                trial.save_progress(trial.seconds)
            raise
        if result.failure is not None:
            trial.end("failed", seconds + result.seconds, result.failure.message)
            write_failure(self.get_folder(trial.number), result.failure)

    def _get_first_values(self) -> dict[str, Any]:
        """Return the values of the first trial: those of the settings."""
        values = {key: get_value(self.config, key) for key in self.space}
        if values.get(_ENCODER_RATE) == "auto":  # the encoder is not loaded yet
            values[_ENCODER_RATE] = self.config.training.compute_encoder_rate(DEFAULT_WIDTH)
        return values

    def _train(self, trial: RunningTrial) -> None:
        config, folder = change_config(self.config, trial.values), self.get_folder(trial.number)
        since = time.monotonic() - trial.seconds
        epochs = config.training.count_epochs(len(self.data.train))

        def after_epoch(epoch: int, f1: float) -> None:
            trial.report(epoch, f1, time.monotonic() - since)
            if epoch < epochs and trial.should_prune():
                raise TrialPruned

        if has_scores(folder):  # killed after its last epoch
            for epoch, scores in enumerate(read_json(folder / RESULT_FILE)["epochs"], start=1):
                trial.report(epoch, scores["dev_f1"], time.monotonic() - since)
        elif not is_started(folder):
            shutil.rmtree(folder, ignore_errors=True)  # killed before it started
        try:
            run = Trial(f"trial {trial.number}", config, folder)
            run_trial(replace(self.data, test=None), run, after_epoch)
        except TrialPruned:
            trial.end("pruned", time.monotonic() - since)
        except Diverged as error:
            # the rest of the message is about the last good epoch, which is not kept here
            raise FencepostError(str(error).partition(". ")[0]) from None
        else:
            trial.end("complete", time.monotonic() - since)

    def _write(self) -> list[TrialRecord]:
        """Write the results, remove checkpoints and all models but the best, and return all trials."""
        trials = self.trials
        best = _find_best(trials)
        for trial in _select_ended(trials):
            tidy(self.get_folder(trial.number), keep_model=self.keep_models or trial is best)
        write_json(self.out / RESULTS_FILE, self._collect_results(trials))
        columns = ("trial", "state", "dev_f1", "epochs", *self.space, "seconds", "same_as", "failure")
        rows = [one.to_dict() for one in trials]
        write_csv(self.out / TRIALS_FILE, columns, [{**row, **_format_values(row["values"])} for row in rows])
        if best is not None:
            write_text(self.out / BEST_FILE, self.make_config(best).to_yaml())
        return trials

    def _collect_results(self, trials: Sequence[TrialRecord]) -> dict[str, Any]:
        importance, reason = self.study.compute_importance(trials)
        best = _find_best(trials)
        return {
            "best": None if best is None else _describe_best(best),
            "test": None if self._test is None else self._test.to_dict(),
            "importance": importance,
            "no_importance": reason or None,
            "trials": [trial.to_dict() for trial in trials],
            "space": dump_space(self.space),
            "search": asdict(self.search),
            "settings": self.config.model_dump(mode="json"),
        }

    def _describe_study(self) -> dict[str, Any]:
        """Return the values that must not change while the study continues, by their names in messages."""
        identity = {
            **flatten_tree(self.config.model_dump(mode="json")),
            **{f"the search's {key}": value for key, value in asdict(self.search).items()},
            **{f"in the search space, {key}": domain.to_tree() for key, domain in self.space.items()},
            "training data": compute_fingerprint(prepare_sentences(self.data.train, self.config)),
            "development data": compute_fingerprint(self.data.dev or ()),
        }
        return json.loads(json.dumps(identity))  # type: ignore[no-any-return]


def _folder(number: int) -> str:
    return f"trials/{number:04}"


def _select_ended(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [trial for trial in trials if trial.state != "running"]


def _find_best(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """Return the first complete trial with the highest development F1, or None."""
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.f1 or 0.0, default=None)


def _describe_best(best: TrialRecord) -> dict[str, Any]:
    result = {"trial": best.number, "dev_f1": best.f1, "values": best.values}
    return {**result, "config": BEST_FILE, "model": _folder(best.number)}


def _format_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for CSV."""
    return {
        key: json.dumps(one) if isinstance(one, list | dict | bool) else one for key, one in values.items()
    }


def _list_differences(stored: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[str]:
    for key in {**current, **stored}:
        if stored.get(key) == current.get(key):
            continue
        if key in ("training data", "development data"):
            yield f"it has other {key}"
        else:
            old, new = (
                json.dumps(one[key], ensure_ascii=False) if key in one else "not" for one in (stored, current)
            )
            yield f"{key} is {old} there and {new} here"


def _check_folder(out: Path) -> None:
    """Raise `UsageError` for a folder that is neither empty nor contains a study."""
    ours = (make_lock_name("tuning"), TEMPORARY)
    others = [path.name for path in list_entries(out) if not path.name.startswith(ours)]
    if others and STUDY_FILE not in others:
        raise UsageError(
            f"{out}: already exists and is not a study (it has no {STUDY_FILE}); give another --out"
        )
