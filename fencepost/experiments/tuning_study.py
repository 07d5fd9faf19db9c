"""Trials of a tuning: Optuna draws their values, prunes them and stores them in an SQLite file.

Each value of trial N is determined by the seed, N, the setting and the earlier trials. So an interrupted
study gives the same results as an uninterrupted one, even if it was killed between two values of a trial.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from fencepost.data.output import WriteError
from fencepost.errors import UsageError, describe_error
from fencepost.experiments.trials import State
from fencepost.experiments.tuning_space import Choices, Domain, Space

PRUNERS = ("median", "none")
MAX_STARTS = 3
"""Number of times that a trial may be killed in one epoch before it counts as failed."""
MIN_COMPLETE = 4
"""Minimum number of complete trials to compute the importance of settings."""
_TOP = 0.25
_STUDY = "fencepost"

_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
}


@dataclass(frozen=True, slots=True)
class Search:
    """Settings of the search: how values are drawn, and when a trial is pruned.

    The first `startup_trials` are drawn at random. No trial is pruned before they are complete, nor in the
    first `grace_epochs` of a trial.
    """

    seed: int = 1
    pruner: str = "median"
    startup_trials: int = 5
    grace_epochs: int = 1

    def __post_init__(self) -> None:
        if self.pruner not in PRUNERS:
            raise UsageError.unknown("pruner", self.pruner, PRUNERS)

    def make_sampler(self, number: int, index: int = 0) -> optuna.samplers.BaseSampler:
        """Return the sampler of one value of trial `number`, or (index 0) of all that are drawn together."""
        (seed,) = np.random.SeedSequence([self.seed, number, index]).generate_state(1)
        return optuna.samplers.TPESampler(seed=int(seed), n_startup_trials=self.startup_trials)

    def make_pruner(self) -> optuna.pruners.BasePruner:
        if self.pruner == "none":
            return optuna.pruners.NopPruner()
        return optuna.pruners.MedianPruner(self.startup_trials, self.grace_epochs + 1)


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """Record of a trial: its values by key, and its development F1 by epoch, from 1."""

    number: int
    state: State
    values: dict[str, Any]
    by_epoch: dict[int, float]
    seconds: float = 0.0
    failure: str | None = None
    same_as: int | None = None
    """Number of an earlier trial with the same values, whose scores are used instead of training again."""

    @property
    def f1(self) -> float | None:
        """Development F1 of the best epoch."""
        return max(self.by_epoch.values(), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the trial for JSON."""
        return {
            "trial": self.number,
            "state": self.state,
            "dev_f1": self.f1,
            "epochs": len(self.by_epoch),
            "values": self.values,
            "seconds": self.seconds,
            "dev_f1_by_epoch": list(self.by_epoch.values()),
            "same_as": self.same_as,
            "failure": self.failure,
        }


class RunningTrial:
    """Trial that is running.

    `seconds` is its time until the end of its last epoch, `starts` the number of times it was started since.
    """

    def __init__(self, study: Study, trial: optuna.Trial) -> None:
        self.number, self._study, self._trial = trial.number, study, trial
        self.values = study.decode_values(trial)
        self.seconds, self.starts = _read_progress(trial)

    def save_progress(self, seconds: float, starts: int = 0) -> None:
        """Store the progress; by default, reset the number of starts."""
        self.seconds = seconds
        with self._study.guard_storage():
            self._trial.set_user_attr("progress", {"seconds": round(seconds, 3), "starts": starts})

    def report(self, epoch: int, f1: float, seconds: float) -> None:
        """Store the score of an epoch and the time of the trial so far."""
        with self._study.guard_storage():
            self._trial.report(f1, epoch)  # a score reported before a kill is kept
        self.save_progress(seconds)

    def should_prune(self) -> bool:
        """Return whether the trial should be stopped, by the scores of the others."""
        with self._study.guard_storage():
            return self._trial.should_prune()

    def end(self, state: State, seconds: float, failure: str | None = None) -> None:
        """Store the final state: complete, pruned or failed."""
        self.save_progress(seconds)
        with self._study.guard_storage():
            if failure is not None:
                self._trial.set_user_attr("failure", failure)
            code = next(code for code, name in _STATES.items() if name == state)
            scores = self._study.optuna.get_trials(deepcopy=False)[self.number].intermediate_values
            f1 = max(scores.values()) if state == "complete" else None
            self._study.optuna.tell(self._trial, f1, state=code)

    def end_like(self, twin: TrialRecord) -> None:
        """Store the scores of an earlier trial with the same values as those of this one."""
        with self._study.guard_storage():
            self._trial.set_user_attr("same_as", twin.number)
        for epoch, f1 in twin.by_epoch.items():
            self.report(epoch, f1, 0.0)
        self.end(twin.state, 0.0)


class Study:
    """Optuna study in a file, which is created if it does not exist."""

    def __init__(self, path: Path, space: Space, search: Search) -> None:
        self.path, self.space, self.search = path, space, search
        self._verbosity = optuna.logging.get_verbosity()
        with self.guard_storage():
            self._distributions = {key: _make_distribution(domain) for key, domain in space.items()}
            self._storage = _open_storage(path)
            optuna.logging.set_verbosity(logging.CRITICAL)
            self.optuna = optuna.create_study(
                storage=self._storage,
                study_name=_STUDY,
                direction="maximize",
                pruner=search.make_pruner(),
                load_if_exists=True,
            )

    def close(self) -> None:
        with self.guard_storage():
            self._storage.remove_session()
            self._storage.engine.dispose()
        optuna.logging.set_verbosity(self._verbosity)

    @contextmanager
    def guard_storage(self) -> Iterator[None]:
        """Ignore warnings of Optuna; raise `WriteError` if the file cannot be read or written."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except optuna.exceptions.StorageInternalError as error:
            reason = describe_error(getattr(error.__cause__, "orig", error))
            raise WriteError(f"{self.path}: the study cannot be written or read: {reason}") from None

    def initialize(self, identity: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored identity of the study; store `identity` if the study is new.

        The first trial of a new study has these values, if they are in the space.
        """
        with self.guard_storage():
            stored: dict[str, Any] | None = self.optuna.user_attrs.get(_STUDY)
            if stored is not None:
                return stored
            if all(domain.contains(values[key]) for key, domain in self.space.items()):
                encoded = {key: domain.encode(values[key]) for key, domain in self.space.items()}
                self.optuna.enqueue_trial(encoded, skip_if_exists=True)
            self.optuna.set_user_attr(_STUDY, identity)
            return identity

    @property
    def trials(self) -> list[TrialRecord]:
        """All trials in order, except one whose values are not all drawn yet."""
        with self.guard_storage():
            return [
                self._record(trial)
                for trial in self.optuna.get_trials(deepcopy=False)
                if trial.state in _STATES and self.space.keys() <= trial.params.keys()
            ]

    def start_trial(self) -> RunningTrial | None:
        """Return the interrupted trial, or a new one; None if the interrupted one was killed too often."""
        with self.guard_storage():
            trials = self.optuna.get_trials(deepcopy=False)
            running = next((one for one in trials if one.state == TrialState.RUNNING), None)
            number = sum(one.state != TrialState.WAITING for one in trials)
            self.optuna.sampler = self.search.make_sampler(running.number if running else number)
            trial = optuna.Trial(self.optuna, running._trial_id) if running else self.optuna.ask()
            _ = trial.relative_params  # draws the values that TPE draws together
            for index, (key, distribution) in enumerate(self._distributions.items(), start=1):
                self.optuna.sampler = self.search.make_sampler(trial.number, index)
                trial._suggest(key, distribution)  # keeps a value that was drawn before
        current = RunningTrial(self, trial)
        if current.starts < MAX_STARTS:
            current.save_progress(current.seconds, current.starts + 1)
            return current
        reason = f"its process was killed {MAX_STARTS} times, perhaps because it ran out of memory"
        current.end("failed", current.seconds, reason)
        return None

    def compute_importance(self, trials: Sequence[TrialRecord]) -> tuple[dict[str, float] | None, str]:
        """Return the importance of each setting, as shares of 1, and an empty string.

        It measures how much the setting distinguishes the best quarter of the complete trials from all, by
        PED-ANOVA (Watanabe et al., IJCAI 2023). If it cannot be computed, return None and the reason.
        """
        complete = [one for one in trials if one.state == "complete"]
        if len(complete) < MIN_COMPLETE:
            return None, f"it needs {MIN_COMPLETE} complete trials, but there are {len(complete)}"
        if len({one.f1 for one in complete}) == 1:
            return None, "all complete trials have the same development F1"
        if len(self.space) == 1:
            return None, "only one setting is searched"
        with self.guard_storage():
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=_TOP)
            importances = optuna.importance.get_param_importances(
                self.optuna, evaluator=evaluator, params=list(self.space), normalize=False
            )
        total = sum(importances.values())
        if not math.isfinite(total) or total <= 0:
            return None, "the best trials have the same values as the others"
        shares = {key: importances[key] / total for key in self.space}
        return dict(sorted(shares.items(), key=lambda one: -one[1])), ""

    def decode_values(self, trial: optuna.Trial | FrozenTrial) -> dict[str, Any]:
        return {key: domain.decode(trial.params[key]) for key, domain in self.space.items()}

    def _record(self, trial: FrozenTrial) -> TrialRecord:
        more = trial.user_attrs
        return TrialRecord(
            number=trial.number,
            state=_STATES[trial.state],
            values=self.decode_values(trial),
            by_epoch=dict(sorted(trial.intermediate_values.items())),
            seconds=_read_progress(trial)[0],
            failure=more.get("failure") if trial.state == TrialState.FAIL else None,
            same_as=more.get("same_as"),
        )


def _read_progress(trial: optuna.Trial | FrozenTrial) -> tuple[float, int]:
    stored = trial.user_attrs.get("progress", {})
    return stored.get("seconds", 0.0), stored.get("starts", 0)


def _open_storage(path: Path) -> optuna.storages.RDBStorage:
    """Open the study; connect by a function, because a path may contain special characters of URLs."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path)

    try:
        return optuna.storages.RDBStorage(
            "sqlite://", engine_kwargs={"creator": connect, "poolclass": NullPool}
        )
    except (SQLAlchemyError, RuntimeError) as error:
        reason = describe_error(getattr(error, "orig", error))
        raise UsageError(f"{path}: cannot be read as a study ({reason}); give another --out") from None


def _make_distribution(domain: Domain) -> BaseDistribution:
    if isinstance(domain, Choices):
        return CategoricalDistribution([domain.encode(value) for value in domain.values])
    if isinstance(domain.low, int) and isinstance(domain.high, int):
        return IntDistribution(domain.low, domain.high, log=domain.log, step=int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
