"""The trials of a tuning: Optuna draws their values and prunes them, and stores them in an SQLite file.

Each value of trial N follows from the seed, N, the setting and the trials before it. So a study that was
interrupted ends like one that was not, even if it was killed between two values of a trial.
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
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from fencepost.data.output import WriteError
from fencepost.errors import UsageError, describe_error
from fencepost.experiments.trials import State
from fencepost.experiments.tuning_space import Choices, Domain, Space

PRUNERS = ("median", "none")
TRIES = 3
"""How often in a row a trial may die in one epoch until it counts as failed."""
LEAST = 4
"""Fewer complete trials say nothing about which setting matters."""
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
    """How values are drawn, and when a trial is pruned.

    The first trials are drawn at random. That number must be complete before any is pruned, in no epoch
    before `grace_epochs` are over.
    """

    seed: int = 1
    pruner: str = "median"
    startup_trials: int = 5
    grace_epochs: int = 1

    def __post_init__(self) -> None:
        if self.pruner not in PRUNERS:
            raise UsageError.unknown("pruner", self.pruner, PRUNERS)

    def sampler(self, number: int, place: int = 0) -> optuna.samplers.BaseSampler:
        """Return what draws the value at this place of trial `number`, or (0) all that are drawn together."""
        (seed,) = np.random.SeedSequence([self.seed, number, place]).generate_state(1)
        return optuna.samplers.TPESampler(seed=int(seed), n_startup_trials=self.startup_trials)

    def optuna_pruner(self) -> optuna.pruners.BasePruner:
        if self.pruner == "none":
            return optuna.pruners.NopPruner()
        return optuna.pruners.MedianPruner(self.startup_trials, self.grace_epochs + 1)


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """What is known of a trial: its values by key, and its development F1 by epoch, from 1."""

    number: int
    state: State
    values: dict[str, Any]
    by_epoch: dict[int, float]
    seconds: float = 0.0
    failure: str | None = None
    same_as: int | None = None
    """The earlier trial with the same values, whose scores it has: it was not trained again."""

    @property
    def f1(self) -> float | None:
        """The development F1 of the best epoch."""
        return max(self.by_epoch.values(), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the trial as JSON has it."""
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


class Ongoing:
    """A trial that is running.

    `seconds` is how long it took until its last epoch was over, `begun` how often it was begun since then.
    """

    def __init__(self, study: Study, trial: optuna.Trial) -> None:
        self.number, self._study, self._trial = trial.number, study, trial
        self.values = study.values_of(trial)
        self.seconds, self.begun = _progress(trial)

    def note(self, seconds: float, begun: int = 0) -> None:
        """Store the progress; without `begun`, it may die as often again as at first."""
        self.seconds = seconds
        with self._study.quietly():
            self._trial.set_user_attr("progress", {"seconds": round(seconds, 3), "begun": begun})

    def report(self, epoch: int, f1: float, seconds: float) -> None:
        """Store the score of an epoch, and how long the trial took so far."""
        with self._study.quietly():
            self._trial.report(f1, epoch)  # a score that was reported before a kill stays, and is the same
        self.note(seconds)

    def should_prune(self) -> bool:
        """Return whether it should be given up, by the scores of the others."""
        with self._study.quietly():
            return self._trial.should_prune()

    def end(self, state: State, seconds: float, failure: str | None = None) -> None:
        """Store that it is complete, pruned or failed."""
        self.note(seconds)
        with self._study.quietly():
            if failure is not None:
                self._trial.set_user_attr("failure", failure)
            code = next(code for code, name in _STATES.items() if name == state)
            scores = self._study.optuna.get_trials(deepcopy=False)[self.number].intermediate_values
            f1 = max(scores.values()) if state == "complete" else None
            self._study.optuna.tell(self._trial, f1, state=code)

    def end_like(self, twin: TrialRecord) -> None:
        """Store the scores of an earlier trial with the same values."""
        with self._study.quietly():
            self._trial.set_user_attr("same_as", twin.number)
        for epoch, f1 in twin.by_epoch.items():
            self.report(epoch, f1, 0.0)
        self.end(twin.state, 0.0)


class Study:
    """Optuna's study in a file, which is made if it does not exist."""

    def __init__(self, path: Path, space: Space, search: Search) -> None:
        self.path, self.space, self.search = path, space, search
        self._verbosity = optuna.logging.get_verbosity()
        with self.quietly():
            self._distributions = {key: _distribution(domain) for key, domain in space.items()}
            self._storage = _open_storage(path)
            optuna.logging.set_verbosity(logging.CRITICAL)
            self.optuna = optuna.create_study(
                storage=self._storage,
                study_name=_STUDY,
                direction="maximize",
                pruner=search.optuna_pruner(),
                load_if_exists=True,
            )

    def close(self) -> None:
        with self.quietly():
            self._storage.remove_session()
            self._storage.engine.dispose()
        optuna.logging.set_verbosity(self._verbosity)

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Ignore Optuna's warnings, which are for programmers; raise `WriteError` if the file fails."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except optuna.exceptions.StorageInternalError as error:
            reason = describe_error(getattr(error.__cause__, "orig", error))
            raise WriteError(f"{self.path}: the study cannot be written or read: {reason}") from None

    def begin(self, identity: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what it is a study of: `identity` if it is new.

        These values are the first trial of a new study, if they are in the space.
        """
        with self.quietly():
            stored: dict[str, Any] | None = self.optuna.user_attrs.get(_STUDY)
            if stored is not None:
                return stored
            if all(domain.has(values[key]) for key, domain in self.space.items()):
                encoded = {key: domain.encode(values[key]) for key, domain in self.space.items()}
                self.optuna.enqueue_trial(encoded, skip_if_exists=True)
            self.optuna.set_user_attr(_STUDY, identity)
            return identity

    @property
    def trials(self) -> list[TrialRecord]:
        """All trials in their order, but for one whose values are not all drawn yet."""
        with self.quietly():
            return [
                self._record(trial)
                for trial in self.optuna.get_trials(deepcopy=False)
                if trial.state in _STATES and self.space.keys() <= trial.params.keys()
            ]

    def next(self) -> Ongoing | None:
        """Return the trial that was interrupted, or a new one; None if the former fails as it always dies."""
        with self.quietly():
            trials = self.optuna.get_trials(deepcopy=False)
            running = next((one for one in trials if one.state == TrialState.RUNNING), None)
            number = sum(one.state != TrialState.WAITING for one in trials)
            self.optuna.sampler = self.search.sampler(running.number if running else number)
            trial = optuna.Trial(self.optuna, running._trial_id) if running else self.optuna.ask()
            _ = trial.relative_params  # values that TPE draws together, when this is first read
            for place, (key, distribution) in enumerate(self._distributions.items(), start=1):
                self.optuna.sampler = self.search.sampler(trial.number, place)
                trial._suggest(key, distribution)  # a value that was drawn before stays
        ongoing = Ongoing(self, trial)
        if ongoing.begun < TRIES:
            ongoing.note(ongoing.seconds, ongoing.begun + 1)
            return ongoing
        reason = f"its process was killed {TRIES} times, perhaps since the memory was used up"
        ongoing.end("failed", ongoing.seconds, reason)
        return None

    def importance(self, trials: Sequence[TrialRecord]) -> tuple[dict[str, float] | None, str]:
        """Return how much each setting tells the best quarter of the complete trials from all: shares of 1.

        Where that cannot be said, return None and why. PED-ANOVA (Watanabe et al., IJCAI 2023).
        """
        complete = [one for one in trials if one.state == "complete"]
        if len(complete) < LEAST:
            return None, f"it takes {LEAST} complete trials, and there are {len(complete)}"
        if len({one.f1 for one in complete}) == 1:
            return None, "all complete trials have the same development F1"
        if len(self.space) == 1:
            return None, "one setting is searched, and there is none to compare it with"
        with self.quietly():
            evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=_TOP)
            importances = optuna.importance.get_param_importances(
                self.optuna, evaluator=evaluator, params=list(self.space), normalize=False
            )
        total = sum(importances.values())
        if not math.isfinite(total) or total <= 0:
            return None, "the best trials have the same values as the others"
        shares = {key: importances[key] / total for key in self.space}
        return dict(sorted(shares.items(), key=lambda one: -one[1])), ""

    def values_of(self, trial: optuna.Trial | FrozenTrial) -> dict[str, Any]:
        return {key: domain.decode(trial.params[key]) for key, domain in self.space.items()}

    def _record(self, trial: FrozenTrial) -> TrialRecord:
        more = trial.user_attrs
        return TrialRecord(
            number=trial.number,
            state=_STATES[trial.state],
            values=self.values_of(trial),
            by_epoch=dict(sorted(trial.intermediate_values.items())),
            seconds=_progress(trial)[0],
            failure=more.get("failure") if trial.state == TrialState.FAIL else None,
            same_as=more.get("same_as"),
        )


def _progress(trial: optuna.Trial | FrozenTrial) -> tuple[float, int]:
    stored = trial.user_attrs.get("progress", {})
    return stored.get("seconds", 0.0), stored.get("begun", 0)


def _open_storage(path: Path) -> optuna.storages.RDBStorage:
    """Connect by a function of ours: in an address, some characters of a path would have a meaning."""

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path)

    try:
        return optuna.storages.RDBStorage(
            "sqlite://", engine_kwargs={"creator": connect, "poolclass": NullPool}
        )
    except (SQLAlchemyError, RuntimeError) as error:
        reason = describe_error(getattr(error, "orig", error))
        raise UsageError(f"{path}: this cannot be read as a study ({reason}); give another --out") from None


def _distribution(domain: Domain) -> BaseDistribution:
    if isinstance(domain, Choices):
        return CategoricalDistribution([domain.encode(value) for value in domain.values])
    if isinstance(domain.low, int) and isinstance(domain.high, int):
        return IntDistribution(domain.low, domain.high, log=domain.log, step=int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
