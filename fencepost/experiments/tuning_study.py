"""The trials of a tuning: Optuna draws their values and prunes them, and keeps them in an SQLite file.

Each value of trial N follows from the seed, N, the setting and the trials before it. So a study that was
interrupted ends like one that was not, even if it was killed between two values of a trial.
"""

from __future__ import annotations

import json
import logging
import math
import sqlite3
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
from fencepost.experiments.tuning_space import Choices, Domain, Space

PRUNERS = ("median", "none")
TRIES = 3
"""So often in a row a trial may die in one epoch until it counts as failed."""
LEAST = 4
"""Fewer complete trials say nothing about which setting matters."""
_TOP = 0.25
_STUDY = "fencepost"

State = Literal["complete", "pruned", "failed", "running"]
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
}


@dataclass(frozen=True, slots=True)
class Search:
    """How values are drawn, and when a trial is given up.

    The first trials are drawn at random, and so many must be complete before any is pruned, in no epoch
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
class Trial:
    """What is known of a trial: its values by key, and its development F1 by epoch, from 1."""

    number: int
    state: State
    values: dict[str, Any]
    by_epoch: dict[int, float]
    seconds: float = 0.0
    failure: str | None = None
    same_as: int | None = None
    """The trial before it with the same values, whose scores it has: it was not trained again."""

    @property
    def f1(self) -> float | None:
        """Of its best epoch."""
        return max(self.by_epoch.values(), default=None)


@dataclass(frozen=True, slots=True)
class Progress:
    """How long a trial took so far, and how often it was begun since its last epoch was over."""

    seconds: float = 0.0
    begun: int = 0


def _progress(trial: optuna.Trial | FrozenTrial) -> Progress:
    return Progress(**trial.user_attrs.get("progress", {}))


def _note(trial: optuna.Trial, progress: Progress) -> None:
    trial.set_user_attr("progress", {"seconds": round(progress.seconds, 3), "begun": progress.begun})


class Ongoing:
    """A trial that is under way."""

    def __init__(self, study: Study, trial: optuna.Trial) -> None:
        self.number = trial.number
        self.values = study.decoded(trial.params)
        self.seconds = _progress(trial).seconds
        self._study, self._trial = study, trial

    def report(self, epoch: int, f1: float, seconds: float) -> None:
        """An epoch is over; `seconds` is how long all of them took so far."""
        with self._study.quietly():
            self._trial.report(f1, epoch)  # one that was reported before it died keeps its score, the same
            _note(self._trial, Progress(seconds))

    def is_hopeless(self) -> bool:
        """Whether it shall be given up, by the scores of the others."""
        with self._study.quietly():
            return self._trial.should_prune()

    def let_go(self) -> None:
        """Leaves it to whoever goes on with the study."""
        with self._study.quietly():
            _note(self._trial, Progress(_progress(self._trial).seconds))

    def end(self, seconds: float, *, pruned: bool = False) -> None:
        """It is complete, or given up."""
        with self._study.quietly():
            _note(self._trial, Progress(seconds))
            if pruned:
                self._study.optuna.tell(self._trial, state=TrialState.PRUNED)
            else:
                self._study.optuna.tell(self._trial, self._study.of(self.number).f1)

    def end_like(self, twin: Trial) -> None:
        """It has the values of a trial before it, and so its scores."""
        with self._study.quietly():
            self._trial.set_user_attr("same_as", twin.number)
        for epoch, f1 in twin.by_epoch.items():
            self.report(epoch, f1, 0.0)
        self.end(0.0, pruned=twin.state == "pruned")

    def fail(self, message: str, seconds: float) -> None:
        with self._study.quietly():
            _note(self._trial, Progress(seconds))
            self._trial.set_user_attr("failure", message)
            self._study.optuna.tell(self._trial, state=TrialState.FAIL)


class Study:
    """Optuna's study in a file, which is made if it is not there."""

    def __init__(self, path: Path, space: Space, search: Search) -> None:
        self.path, self.space, self.search = path, space, search
        self._verbosity = optuna.logging.get_verbosity()
        with self.quietly():
            self._distributions = {key: _distribution(domain) for key, domain in space.items()}
            self._storage = _opened(path)
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

    @property
    def identity(self) -> dict[str, Any] | None:
        """What it is a study of; None if nobody said yet."""
        with self.quietly():
            found: dict[str, Any] | None = self.optuna.user_attrs.get(_STUDY)
            return found

    def begin_with(self, identity: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Of a new study; these values are its first trial, if the space has them."""
        with self.quietly():
            if all(domain.has(values[key]) for key, domain in self.space.items()):
                self.optuna.enqueue_trial(self._encoded(values), skip_if_exists=True)
            self.optuna.set_user_attr(_STUDY, dict(identity))

    @property
    def trials(self) -> list[Trial]:
        """In their order; one whose values are not drawn yet is not among them."""
        with self.quietly():
            return [self._told(one) for one in self._frozen() if one.state in _STATES and self._is_whole(one)]

    def of(self, number: int) -> Trial:
        """The trial with this number."""
        with self.quietly():
            return self._told(self._frozen()[number])

    def next(self) -> Ongoing | None:
        """The trial that was broken off, or a new one; none if the former fails since it always dies."""
        with self.quietly():
            trials = self._frozen()
            running = next((one for one in trials if one.state == TrialState.RUNNING), None)
            number = sum(one.state != TrialState.WAITING for one in trials)
            self.optuna.sampler = self.search.sampler(running.number if running else number)
            trial = optuna.Trial(self.optuna, running._trial_id) if running else self.optuna.ask()
            _ = trial.relative_params  # values that TPE draws together, when this is first read
            for place, (key, distribution) in enumerate(self._distributions.items(), start=1):
                self.optuna.sampler = self.search.sampler(trial.number, place)
                trial._suggest(key, distribution)  # a value that was drawn before stays
            before = _progress(trial)
            _note(trial, Progress(before.seconds, before.begun + 1))
        ongoing = Ongoing(self, trial)
        if before.begun < TRIES:
            return ongoing
        reason = f"its process was killed {TRIES} times, perhaps since the memory was used up"
        ongoing.fail(reason, ongoing.seconds)
        return None

    def importance(self, trials: Sequence[Trial]) -> tuple[dict[str, float] | None, str]:
        """How much each setting tells the best quarter of the complete trials from all: shares of 1.

        Where that cannot be said, None and why. PED-ANOVA (Watanabe et al., IJCAI 2023).
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
            found = optuna.importance.get_param_importances(
                self.optuna, evaluator=evaluator, params=list(self.space), normalize=False
            )
        total = sum(found.values())
        if not math.isfinite(total) or total <= 0:
            return None, "the best trials have the same values as the others"
        shares = {key: found[key] / total for key in self.space}
        return dict(sorted(shares.items(), key=lambda one: -one[1])), ""

    def decoded(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """Optuna's values as settings."""
        return {
            key: json.loads(drawn[key]) if isinstance(domain, Choices) else domain.value(drawn[key])
            for key, domain in self.space.items()
        }

    def _encoded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            key: json.dumps(values[key]) if isinstance(domain, Choices) else values[key]
            for key, domain in self.space.items()
        }

    def _frozen(self) -> list[FrozenTrial]:
        return self.optuna.get_trials(deepcopy=False)

    def _is_whole(self, trial: FrozenTrial) -> bool:
        return self.space.keys() <= trial.params.keys()

    def _told(self, trial: FrozenTrial) -> Trial:
        more = trial.user_attrs
        return Trial(
            number=trial.number,
            state=_STATES[trial.state],
            values=self.decoded(trial.params),
            by_epoch=dict(sorted(trial.intermediate_values.items())),
            seconds=_progress(trial).seconds,
            failure=more.get("failure") if trial.state == TrialState.FAIL else None,
            same_as=more.get("same_as"),
        )


def _opened(path: Path) -> optuna.storages.RDBStorage:
    """By a function of ours: in an address, some letters of a path would mean something."""

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
        return CategoricalDistribution([json.dumps(value) for value in domain.values])
    if isinstance(domain.low, int) and isinstance(domain.high, int):
        return IntDistribution(domain.low, domain.high, log=domain.log, step=int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
