"""Prediction by Ray Data: workers with a model each predict parts of files; one that dies is replaced.

A worker reads its part itself and writes the result as one file whose name identifies the part. So a part
that is predicted twice is there once, and nothing but numbers passes through Ray.
"""

from __future__ import annotations

import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from fencepost.errors import FencepostError, UsageError, describe_error, require_extra, shorten
from fencepost.runtime.loading import load
from fencepost.runtime.offsets import OffsetUnit
from fencepost.runtime.prediction.folder import OutputFolder, PartFile, Summary
from fencepost.runtime.prediction.kinds import PARQUET
from fencepost.runtime.prediction.results import predict_texts
from fencepost.runtime.prediction.shards import File, PartReader, Shard, ShardPart

MOST_TRIES = 4
"""Number of workers that may die of a part before it is given up."""

_BLOCKS = 2048  # in which Ray Data gets the parts: each costs the driver some milliseconds
_OBJECT_STORE = 100_000_000  # bytes; only numbers pass through it
_CLIENT = "ray://"


class Worker:
    """A process with a model, loaded with `options` of `fencepost.load`; it is called with the row of a part.

    An error that a user can cause is returned as `problem`: raised, it would be wrapped in Ray's own words.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.reader = PartReader()
        self.problem = ""
        try:
            self.recogniser = load(**options)
        except FencepostError as error:
            self.problem = str(error)
            return
        if self.recogniser.engine == "pytorch":
            import torch

            torch.set_num_threads(options.get("threads", 1))

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
        tries = output.count_try()
        if tries > MOST_TRIES:
            raise FencepostError(
                f"{row['path']}: {MOST_TRIES} workers died while predicting {row['texts']} texts of it, from "
                f"{row['start']:,} to {row['end']:,} ({'rows' if row['kind'] == PARQUET else 'bytes'})"
            )
        file = File(row["path"], row["kind"], row["size"], row["text_column"])
        texts = self.reader.read(file, ShardPart(row["start"], row["end"], row["texts"]))
        output.write(predict_texts(self.recogniser, texts, row["offsets"]))
        return tries


@dataclass(slots=True)
class Progress:
    """Numbers of texts done before and in this run, and of parts done again because a worker had died."""

    before: int = 0
    texts: int = 0
    again: int = 0


def predict(
    shards: Sequence[Shard],
    options: Mapping[str, Any],
    folder: OutputFolder,
    workers: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    offsets: OffsetUnit = "characters",
) -> tuple[list[Summary], Progress]:
    """Write the output of each shard, as far as it is missing; Ray must be running (see `open_ray`).

    `options` are those of `fencepost.load`. The number of `workers` is by default what the processors of the
    cluster allow. `report` is called whenever a part is done. `offsets` is what those of the output count.
    """
    done = [folder.finished(number) for number in range(len(shards))]
    missing: list[set[int]] = []
    rows: list[dict[str, Any]] = []
    for number, shard in enumerate(shards):
        missing.append(set() if done[number] else set(folder.missing(number, len(shard.parts))))
        if not (missing[number] or done[number]):
            done[number] = folder.assemble(number, len(shard.parts))
        for part in sorted(missing[number]):
            path = str(folder.part(number, part).path.resolve())
            place = asdict(shard.file) | asdict(shard.parts[part])
            rows.append({"shard": number, "part": part, "output": path, "offsets": offsets, **place})
    progress = Progress(before=sum(shard.texts for shard in shards) - sum(row["texts"] for row in rows))
    for row in _results(rows, options, workers) if rows else ():
        number = row["shard"]
        missing[number].discard(row["part"])
        if not missing[number]:
            done[number] = folder.assemble(number, len(shards[number].parts))
        progress.texts += row["texts"]
        progress.again += row["tries"] > 1
        report(progress)
    return [one for one in done if one is not None], progress


def _results(
    rows: list[dict[str, Any]], options: Mapping[str, Any], workers: int | None
) -> Iterator[dict[str, Any]]:
    """Yield what the workers return for each part, in any order."""
    import ray
    from ray.data import ActorPoolStrategy
    from ray.exceptions import RayError

    threads = options["threads"]
    processors = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    size = min(workers or max(1, processors // threads), len(rows))
    try:
        parts = ray.data.from_items(rows, override_num_blocks=min(len(rows), _BLOCKS))
        results = parts.map(
            cast("Any", Worker),
            fn_constructor_args=(options,),
            compute=ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=2),
            num_cpus=threads,
        )
        for row in results.iter_rows():
            if row["problem"]:
                raise FencepostError(row["problem"])
            yield row
    except RayError as error:
        last = shorten(str(error).strip().rpartition("\n")[2])
        raise FencepostError(f"Ray could not continue ({type(error).__name__}): {last}") from error


def check_ready(address: str | None) -> None:
    """Refuse what cannot work before the work starts: no Ray, or an address by which it is not reached."""
    address = _address(address)
    if address is not None and address.startswith(_CLIENT):
        raise UsageError(
            f"--ray-address {address}: run the command on a machine of the cluster, with --ray-address auto"
        )
    with _silence():
        _import_ray(address)


def _address(given: str | None) -> str | None:
    return given or os.environ.get("RAY_ADDRESS") or None


@contextmanager
def open_ray(address: str | None, processors: int, threads: int) -> Iterator[None]:
    """Connect to a cluster, or start a local Ray with this number of processors that ends with the block.

    A Ray that this process has started already is used, and left as it is. A worker needs `threads`
    processors.
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


def _import_ray(address: str | None) -> None:
    """Import Ray, which reads these variables only then."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address is None:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # this means: loopback only
    with require_extra("ray", "--engine ray"):
        import_module("ray.data")


def _check_room(threads: int) -> None:
    """Refuse workers for which no machine has enough processors; Ray would wait for one in silence."""
    import ray

    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    most = max((int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]), default=0)
    if most < threads:
        raise UsageError(
            f"--threads {threads}: a worker runs on one machine, and none has that many processors for Ray; "
            f"the largest has {most}"
        )


def _start(address: str | None, processors: int) -> None:
    import ray

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        settings |= {"num_cpus": processors, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    try:
        with _no_errors(), _no_cloud_queries(address):
            ray.init(address=address or "local", **settings)
    except Exception as error:  # Ray raises just that when a node times out
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
    """Suppress messages and warnings of Ray for which it has no setting."""
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
    """Suppress what libraries in C++ write to standard error."""
    kept = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
