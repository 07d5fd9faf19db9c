"""Prediction by Ray Data: parts of files go to workers that have a model each; a killed one starts again.

A worker reads its part itself and writes the result as one file whose name says which part it is. So a part
that is predicted twice is there once, and nothing but numbers passes through Ray.
"""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fencepost.errors import FencepostError, UsageError, describe_error, shorten
from fencepost.runtime.loading import EngineName, load
from fencepost.runtime.prediction.folder import Done, OutputFolder, PartFile
from fencepost.runtime.prediction.results import find
from fencepost.runtime.prediction.shards import File, Part, Shard, Tables, texts_of
from fencepost.runtime.prediction.texts import PARQUET

if TYPE_CHECKING:
    from fencepost.runtime.recogniser import Recogniser

TRIES = 4
"""A part of which so many workers have died is given up."""

_BLOCKS = 2048  # in which Ray Data gets the parts: each costs the driver some milliseconds
_OBJECT_STORE = 100_000_000  # bytes; what passes through it are numbers
_CLIENT = "ray://"


@dataclass(frozen=True)
class Work:
    """What a worker must know: the model and how to use it. The one that ships is None."""

    model: str | None
    engine: EngineName
    settings: dict[str, Any] = field(default_factory=dict)
    language: str | None = None
    min_confidence: float = 0.0
    types: Sequence[str] | None = None
    threads: int = 1

    def recogniser(self) -> Recogniser:
        recogniser = load(
            self.model,
            engine=self.engine,
            settings=self.settings,
            language=self.language,
            min_confidence=self.min_confidence,
            types=self.types,
            threads=self.threads,
        )
        if recogniser.engine == "pytorch":
            import torch

            torch.set_num_threads(self.threads)
        return recogniser


class Worker:
    """A process with a model; called with the row of a part, it writes the part, and says so.

    What a user can cause is returned as `problem`: raised, it would come wrapped in Ray's own words.
    """

    def __init__(self, work: Work) -> None:
        self.tables = Tables()
        self.problem = ""
        try:
            self.recogniser = work.recogniser()
        except FencepostError as error:
            self.problem = str(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        tries, problem = 1, self.problem
        if not problem:
            try:
                tries = self._predict(row)
            except FencepostError as error:
                problem = str(error)
            except OSError as error:
                problem = describe_error(error)
        kept = {key: row[key] for key in ("shard", "part", "texts")}
        return {**kept, "tries": tries, "problem": problem}

    def _predict(self, row: dict[str, Any]) -> int:
        output = PartFile(Path(row["output"]))
        tries = output.tried()
        if tries > TRIES:
            raise FencepostError(
                f"{row['path']}: {TRIES} workers died while they predicted {row['texts']} texts of it, from "
                f"{row['start']:,} to {row['end']:,} ({'rows' if row['kind'] == PARQUET else 'bytes'})"
            )
        part = Part(row["start"], row["end"], row["texts"])
        file = File(row["path"], row["kind"], row["size"], row["text_column"])
        texts = texts_of(file, part, self.tables)
        output.write(find(self.recogniser, texts))
        return tries


@dataclass(slots=True)
class Progress:
    """What was done in this run: texts, and parts that were done again because a worker had died.

    `before` is how many texts were there already.
    """

    before: int = 0
    texts: int = 0
    again: int = 0


def predict(
    shards: Sequence[Shard],
    work: Work,
    folder: OutputFolder,
    workers: int | None = None,
    tell: Callable[[Progress], None] = lambda _: None,
) -> tuple[list[Done], Progress]:
    """Makes the output of each shard, as far as it is not there already; Ray must be `running`.

    `workers` is how many there are, unless set as many as the cluster has processors for. `tell` is called
    whenever a part is done.
    """
    done = [folder.finished(number) for number in range(len(shards))]
    missing = [
        set() if done[number] else set(folder.missing(number, len(shard.parts)))
        for number, shard in enumerate(shards)
    ]
    for number, shard in enumerate(shards):
        if not (missing[number] or done[number]):
            done[number] = folder.assemble(number, len(shard.parts))
    rows = [
        {
            "shard": number,
            "part": part,
            "output": str(folder.part(number, part).path.resolve()),
            **asdict(shard.file),
            **asdict(shard.parts[part]),
        }
        for number, shard in enumerate(shards)
        for part in sorted(missing[number])
    ]
    texts = sum(shard.texts for shard in shards)
    progress = Progress(before=texts - sum(row["texts"] for row in rows))
    for row in _results(rows, work, workers) if rows else ():
        number = row["shard"]
        missing[number].discard(row["part"])
        if not missing[number]:
            done[number] = folder.assemble(number, len(shards[number].parts))
        progress.texts += row["texts"]
        progress.again += row["tries"] > 1
        tell(progress)
    return [one for one in done if one is not None], progress


def _results(rows: list[dict[str, Any]], work: Work, workers: int | None) -> Iterator[dict[str, Any]]:
    """What the workers say of each part, in any order."""
    import ray
    from ray.data import ActorPoolStrategy
    from ray.exceptions import RayError

    processors = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    size = min(workers or max(1, processors // work.threads), len(rows))
    try:
        parts = ray.data.from_items(rows, override_num_blocks=min(len(rows), _BLOCKS))
        results = parts.map(
            cast("Any", Worker),
            fn_constructor_args=(work,),
            compute=ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=2),
            num_cpus=work.threads,
        )
        for row in results.iter_rows():
            if row["problem"]:
                raise FencepostError(row["problem"])
            yield row
    except RayError as error:
        last = shorten(str(error).strip().rpartition("\n")[2])
        raise FencepostError(f"Ray could not go on ({type(error).__name__}): {last}") from error


def check_ready(address: str | None) -> None:
    """Refuses what cannot work before anything is begun: no Ray, or an address that it is not reached by."""
    address = _address(address)
    if address is not None and address.startswith(_CLIENT):
        raise UsageError(
            f"--ray-address {address}: run the command on a machine of the cluster, with --ray-address auto"
        )
    with _silence():
        _prepare(address)


def _address(given: str | None) -> str | None:
    return given or os.environ.get("RAY_ADDRESS") or None


@contextmanager
def running(address: str | None, processors: int, threads: int) -> Iterator[None]:
    """A Ray of our own with so many processors, which ends with the work, or else a connection to a cluster.

    One that runs in this process already is used, and left as it is. A worker will need `threads` processors.
    """
    check_ready(address)
    with _silence():
        import ray
        from ray.data import DataContext

        ours = not ray.is_initialized()
        if ours:
            _start(_address(address), processors)
        context = DataContext.get_current()
        before = context.enable_progress_bars
        context.enable_progress_bars = False
        try:
            _check_room(threads)
            yield
        finally:
            context.enable_progress_bars = before
            if ours:
                ray.shutdown()


def _prepare(address: str | None) -> None:
    """Imports Ray, which looks at these variables only then."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address is None:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # its word for: loopback only
    try:
        import_module("ray.data")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--engine ray needs {error.name}, which is not installed: pip install 'fencepost[ray]'"
        ) from None


def _check_room(threads: int) -> None:
    """That a machine has the processors that a worker needs; Ray would wait for one that has, in silence."""
    import ray

    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    most = max((int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]), default=0)
    if most < threads:
        raise UsageError(
            f"--threads {threads}: a worker runs on one machine, and none has so many processors for Ray; "
            f"the most that one has is {most}"
        )


def _start(address: str | None, processors: int) -> None:
    import ray

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        settings |= {"num_cpus": processors, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    try:
        with _no_errors(), _no_cloud_queries(address):
            ray.init(address=address or "local", **settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"the Ray cluster {address} does not answer" if address else "Ray does not start"
        raise FencepostError(f"{where}: {describe_error(error)}") from error


@contextmanager
def _no_cloud_queries(address: str | None) -> Iterator[None]:
    """Keep a Ray of our own from asking the network which cloud this machine belongs to.

    Its processes ask for that over HTTP (the library `requests`) even where usage statistics are off, and
    no setting prevents it. A proxy on a closed local port does: nothing else in these processes uses HTTP.
    """
    variable = "HTTP_PROXY"
    if address is not None or variable in os.environ or os.environ.get("RAY_USAGE_STATS_ENABLED") == "1":
        yield
        return
    os.environ[variable] = "http://127.0.0.1:9"
    try:
        yield
    finally:
        del os.environ[variable]


@contextmanager
def _silence() -> Iterator[None]:
    """Ray tells the terminal of its doings in several ways, which cannot be switched off in Ray."""
    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


@contextmanager
def _no_errors() -> Iterator[None]:
    """Without what libraries in C++ write to standard error."""
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
