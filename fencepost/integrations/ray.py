"""Prediction with Ray Data: workers with a model each predict parts of files; one that dies is replaced.

A worker reads its part itself and writes the result to one file whose name identifies the part. So a part
that is predicted twice is written once, and only numbers pass through Ray.
"""

from __future__ import annotations

import io
import logging
import os
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
from fencepost.runtime.silence import silence_logging, silence_stderr

MAX_TRIES = 4
"""Number of workers that may die while predicting a part before the run fails."""

_BLOCKS = 2048  # maximum number for Ray Data; each takes the driver some milliseconds
_OBJECT_STORE = 100_000_000  # bytes; only numbers pass through it
_CLIENT = "ray://"


class Worker:
    """Process with a model, loaded with `options` of `fencepost.load`, that is called with the row of a part.

    An error that a user can cause is returned as `problem`, since Ray would wrap an exception in its own.
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
        return {key: row[key] for key in ("shard", "part", "texts")} | {"tries": tries, "problem": problem}

    def _predict(self, row: dict[str, Any]) -> int:
        output = PartFile(Path(row["output"]))
        tries = output.count_try()
        if tries > MAX_TRIES:
            unit = "rows" if row["kind"] == PARQUET else "bytes"
            raise FencepostError(
                f"{row['path']}: {MAX_TRIES} workers died while predicting {row['texts']} texts, from "
                f"{row['start']:,} to {row['end']:,} ({unit})"
            )
        file = File(row["path"], row["kind"], row["size"], row["text_column"])
        texts = self.reader.read(file, ShardPart(row["start"], row["end"], row["texts"]))
        output.write(predict_texts(self.recogniser, texts, row["offsets"]))
        return tries


@dataclass(slots=True)
class Progress:
    """Numbers of texts predicted before and in this run, and of parts repeated because a worker died."""

    before: int = 0
    texts: int = 0
    repeated: int = 0


def predict(
    shards: Sequence[Shard],
    options: Mapping[str, Any],
    folder: OutputFolder,
    workers: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    offsets: OffsetUnit = "characters",
) -> tuple[list[Summary], Progress]:
    """Write the output of each shard, as far as it is missing; Ray must be running (see `open_ray`).

    `options` are those of `fencepost.load`. By default, there are as many `workers` as the cluster has
    processors for. `report` is called whenever a part is finished. `offsets` is the unit of the offsets.
    """
    summaries = [folder.read_summary(number) for number in range(len(shards))]
    missing: list[set[int]] = []
    rows: list[dict[str, Any]] = []
    for number, shard in enumerate(shards):
        missing.append(set() if summaries[number] else set(folder.find_missing(number, len(shard.parts))))
        if not (missing[number] or summaries[number]):
            summaries[number] = folder.assemble(number, len(shard.parts))
        for part in sorted(missing[number]):
            path = str(folder.get_part(number, part).path.resolve())
            location = asdict(shard.file) | asdict(shard.parts[part])
            rows.append({"shard": number, "part": part, "output": path, "offsets": offsets, **location})
    progress = Progress(before=sum(shard.texts for shard in shards) - sum(row["texts"] for row in rows))
    for row in _run_workers(rows, options, workers) if rows else ():
        number = row["shard"]
        missing[number].discard(row["part"])
        if not missing[number]:
            summaries[number] = folder.assemble(number, len(shards[number].parts))
        progress.texts += row["texts"]
        progress.repeated += row["tries"] > 1
        report(progress)
    return [summary for summary in summaries if summary is not None], progress


def _run_workers(
    rows: list[dict[str, Any]], options: Mapping[str, Any], workers: int | None
) -> Iterator[dict[str, Any]]:
    """Yield the row that a worker returns for each part, in any order."""
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
    """Raise `UsageError` if Ray is not installed, or if the address is of a kind that cannot be used."""
    address = _choose_address(address)
    if address is not None and address.startswith(_CLIENT):
        raise UsageError(
            f"--ray-address {address}: run the command on a machine of the cluster, with --ray-address auto"
        )
    with _silence():
        _import_ray(address)


def _choose_address(address: str | None) -> str | None:
    return address or os.environ.get("RAY_ADDRESS") or None


@contextmanager
def open_ray(address: str | None, processors: int, threads: int) -> Iterator[None]:
    """Connect to a cluster, or start a local Ray with this number of processors, until the end of the block.

    If this process has already started Ray, it is used and left running. A worker needs `threads` processors.
    """
    check_ready(address)
    with _silence():
        import ray
        from ray.data import DataContext

        is_new = not ray.is_initialized()
        if is_new:
            _start(_choose_address(address), processors)
        context = DataContext.get_current()
        before = context.enable_progress_bars
        context.enable_progress_bars = False
        try:
            _check_threads(threads)
            yield
        finally:
            context.enable_progress_bars = before
            if is_new:
                ray.shutdown()


def _import_ray(address: str | None) -> None:
    """Import Ray, after setting variables that it reads when it is imported."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address is None:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # use the loopback interface only
    with require_extra("ray", "--engine ray"):
        import_module("ray.data")


def _check_threads(threads: int) -> None:
    """Raise `UsageError` if no machine has enough processors for a worker; Ray would wait silently."""
    import ray

    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    largest = max((int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]), default=0)
    if largest < threads:
        raise UsageError(
            f"--threads {threads}: a worker runs on one machine, but the largest has only {largest} "
            "processors for Ray"
        )


def _start(address: str | None, processors: int) -> None:
    import ray

    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is None:
        settings |= {"num_cpus": processors, "object_store_memory": _OBJECT_STORE, "include_dashboard": False}
    try:
        with silence_stderr(), _block_cloud_queries(address):
            ray.init(address=address or "local", **settings)
    except Exception as error:  # Ray raises this class when a node times out
        problem = f"the Ray cluster {address} does not answer" if address else "Ray does not start"
        raise FencepostError(f"{problem}: {describe_error(error)}") from error


@contextmanager
def _block_cloud_queries(address: str | None) -> Iterator[None]:
    """Prevent a local Ray from sending network requests that detect the cloud of this machine.

    Its processes send them over HTTP (the library `requests`) even if usage statistics are off, and no
    setting prevents it. A proxy on a closed local port does: nothing else in these processes uses HTTP.
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
    """Suppress messages and warnings of Ray that no setting suppresses."""
    with silence_logging(logging.ERROR), redirect_stdout(io.StringIO()):
        yield
