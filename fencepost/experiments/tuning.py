"""A tuning: trainings with other settings each, drawn from a space, in search of the best development F1.

A trial is in `OUT/trials/NNNN`, and is what `train` makes; what its scores are is in `OUT/study.db`. Only the
best one keeps its model.
"""

from __future__ import annotations

import gc
import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fencepost.config import Config
from fencepost.data.files import read_json
from fencepost.data.output import TEMPORARY, WriteError, naming, remove_leftovers
from fencepost.errors import FencepostError, UsageError
from fencepost.evaluation import Evaluation, evaluate
from fencepost.experiments.sweep import MODEL_FILES, Data
from fencepost.experiments.tuning_results import best_of, described, described_best, folder_of, write_results
from fencepost.experiments.tuning_space import Space, changed, space_tree, value_at
from fencepost.experiments.tuning_study import Ongoing, Search, Study, Trial
from fencepost.experiments.workers import Failure
from fencepost.methods.model import Model
from fencepost.training.run import RESULT_FILE, RUN_FILE, fingerprint, learnt_from, remove_checkpoints, train
from fencepost.training.trainer import Diverged

__all__ = ["Data", "Trial", "Tuning"]

STUDY_FILE, LOCK_FILE = "study.db", ".tuning.lock"
IN_A_ROW = 3
"""So many trials that fail one after another end the search."""


class Pruned(Exception):
    """A trial is given up: others were better at this epoch."""


class Tuning:
    """The trials in a folder, of which some may be there already; others than these settings' are refused.

    To be used with `with`: meanwhile, nobody else can work there.
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
            grace_epochs = math.ceil(config.training.epochs / 4)
        self.search = Search(config.training.seed, pruner, startup_trials, grace_epochs)
        self._test: Evaluation | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            _check_folder(self.out)
            stack.enter_context(_alone(self.out))
            self.study = Study(self.out / STUDY_FILE, self.space, self.search)
            stack.callback(self.study.close)
            identity = self._identity()
            there = self.study.identity
            if there is None:
                self.study.begin_with(identity, {key: value_at(self.config, key) for key in self.space})
            elif there != identity:
                raise UsageError(
                    f"{self.out}: the study there is another one; go on with the same settings and data, or "
                    f"give another --out ({_differences(there, identity)})"
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def trials(self) -> list[Trial]:
        """All that there are, in their order."""
        return self.study.trials

    @property
    def ended(self) -> list[Trial]:
        """Those that are complete, pruned or failed."""
        return _ended(self.trials)

    @property
    def best(self) -> Trial | None:
        """Of the complete ones."""
        return best_of(self.trials)

    def settings_of(self, trial: Trial) -> Config:
        """What it is trained with."""
        return changed(self.config, trial.values)

    def folder(self, number: int) -> Path:
        return self.out / folder_of(number)

    @property
    def results(self) -> dict[str, Any]:
        """As they are in `tuning.json`."""
        return self._results(self.trials)

    def _results(self, trials: Sequence[Trial]) -> dict[str, Any]:
        importance, why_not = self.study.importance(trials)
        return {
            "best": described_best(best_of(trials)),
            "test": None if self._test is None else self._test.to_dict(),
            "importance": importance,
            "no_importance": why_not or None,
            "trials": [described(trial) for trial in trials],
            "space": space_tree(self.space),
            "search": asdict(self.search),
            "settings": self.config.model_dump(mode="json"),
        }

    def go(self, trials: int = 20, minutes: float | None = None) -> Iterator[Trial]:
        """Trains until there are so many trials in all, and tells of each; the results are in files by then.

        After so many minutes, no trial is begun any more. A trial that fails costs no other, but three in
        a row end the search.
        """
        until = math.inf if minutes is None else time.monotonic() + 60 * minutes
        in_a_row, there = 0, self._settled()
        while len(_ended(there)) < trials and time.monotonic() < until:
            ongoing = self.study.next()
            if ongoing is not None:
                self._carry_out(ongoing, there)
            there = self._settled()
            if ongoing is None:
                continue
            trial = there[-1]
            yield trial
            in_a_row = in_a_row + 1 if trial.state == "failed" else 0
            if in_a_row == IN_A_ROW:
                raise FencepostError(
                    f"the last {IN_A_ROW} trials failed, and so the search ends; the last one said: "
                    f"{trial.failure}. When that is mended, the same command goes on"
                )
        ended = _ended(there)
        if ended and best_of(ended) is None:
            raise FencepostError(
                f"no trial is complete; trial {ended[-1].number}, the last one, said: {ended[-1].failure}. "
                "With a larger --trials, the same command tries others"
            )

    def score(self) -> Evaluation | None:
        """How good the best trial's model is on the test data, if there is some; no other is scored on it."""
        best, test = self.best, self.data.test
        if best is None or test is None:
            return None
        model = Model.load(self.folder(best.number))
        self._test = evaluate(test, model.predict(test))
        self._settled()
        return self._test

    def _carry_out(self, ongoing: Ongoing, there: Sequence[Trial]) -> None:
        """With the same seed, a trial with the values of one that is there would end the same."""
        scored = (one for one in there if one.state in ("complete", "pruned"))
        twin = next((one for one in scored if one.values == ongoing.values), None)
        if twin is not None:
            ongoing.end_like(twin)
            return
        start = time.monotonic()
        try:
            self._train(ongoing)
        except (KeyboardInterrupt, WriteError):  # the trial is not to blame: it is resumed
            with suppress(FencepostError):  # the study is on the same disk
                ongoing.let_go()
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other trials are not to blame
            failure = Failure.of(error)
            ongoing.fail(failure.message, ongoing.seconds + time.monotonic() - start)
            if failure.details:
                report = self.folder(ongoing.number).with_name(f"{ongoing.number:04}.error.txt")
                with naming(report):
                    report.parent.mkdir(parents=True, exist_ok=True)
                    report.write_text(failure.details, encoding="utf-8")

    def _train(self, ongoing: Ongoing) -> None:
        folder, config = self.folder(ongoing.number), changed(self.config, ongoing.values)
        since = time.monotonic() - ongoing.seconds

        def after_epoch(epoch: int, f1: float) -> None:
            ongoing.report(epoch, f1, time.monotonic() - since)
            if epoch < config.training.epochs and ongoing.is_hopeless():
                raise Pruned

        try:
            if (folder / RESULT_FILE).is_file():  # it was killed when all was done
                for epoch, record in enumerate(read_json(folder / RESULT_FILE)["epochs"], start=1):
                    ongoing.report(epoch, record["dev_f1"], time.monotonic() - since)
            else:
                resume = (folder / RUN_FILE).is_file()
                if not resume:
                    shutil.rmtree(folder, ignore_errors=True)  # what was begun before a kill
                train(config, self.data.train, folder, self.data.dev, resume=resume, after_epoch=after_epoch)
            ongoing.end(time.monotonic() - since)
        except Pruned:
            ongoing.end(time.monotonic() - since, pruned=True)
        except Diverged as error:
            # the rest of it says where the last good epoch is, which is not kept here
            raise FencepostError(str(error).partition(". ")[0]) from None
        finally:
            gc.collect()  # a trainer's parts hold each other, and weights whose room the next trial needs

    def _settled(self) -> list[Trial]:
        """All trials, whose results are written now; the models but the best are removed, and checkpoints."""
        trials = self.trials
        best = best_of(trials)
        for trial in _ended(trials):
            folder = self.folder(trial.number)
            remove_leftovers(folder)
            remove_checkpoints(folder)
            if not self.keep_models and trial is not best:
                for name in MODEL_FILES:
                    (folder / name).unlink(missing_ok=True)
        write_results(self.out, self._results(trials), None if best is None else self.settings_of(best))
        return trials

    def _identity(self) -> dict[str, Any]:
        """What makes the study what it is: nothing of it can change while it goes on."""
        learnt, dev = learnt_from(self.data.train, self.config), self.data.dev or ()
        identity = {
            "settings": self.config.model_dump(mode="json"),
            "space": space_tree(self.space),
            "search": asdict(self.search),
            "training data": fingerprint(learnt),
            "development data": fingerprint(dev),
        }
        return json.loads(json.dumps(identity))  # type: ignore[no-any-return]


def _ended(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if trial.state != "running"]


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    data = ("training data", "development data")
    told = [f"it has other {part}" for part in data if there.get(part) != here[part]]
    for words, old, new in (
        ("", _flat(there.get("settings", {})), _flat(here["settings"])),
        ("the search's ", there.get("search", {}), here["search"]),
        ("in the search space, ", there.get("space", {}), here["space"]),
    ):
        told += [
            f"{words}{key} is {_shown(old, key)} there and {_shown(new, key)} here"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]
    return "; ".join(told)


def _shown(tree: Mapping[str, Any], key: str) -> str:
    return json.dumps(tree[key], ensure_ascii=False) if key in tree else "not"


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _check_folder(out: Path) -> None:
    """It must be new or empty, or have a study in it."""
    ours = (LOCK_FILE, TEMPORARY)
    try:
        others = [path.name for path in out.iterdir() if not path.name.startswith(ours)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{out}: cannot be read: {error.strerror}") from None
    if others and STUDY_FILE not in others:
        raise UsageError(f"{out}: is there already, and no study (no {STUDY_FILE}); give another --out")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Makes the folder, and refuses a second tuning in it at the same time: both would do the same trials."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / LOCK_FILE).open("w")
    except OSError as error:
        raise UsageError(f"{out}: cannot be written: {error.strerror}") from None
    with lock:
        try:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{out}: another tuning is at work there; wait for it, or give this one another --out"
            raise UsageError(message) from None
        except (ImportError, OSError):  # Windows, and file systems without locks: the user must take care
            pass
        yield
