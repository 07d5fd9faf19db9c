"""Engine that runs the graphs in a model's folder with onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import onnxruntime

from fencepost.data.files import SETTINGS_BYTES, read_json_object
from fencepost.encoder.inputs import InputReader
from fencepost.encoder.settings import LARGEST_WINDOW
from fencepost.encoder.subwords import Subwords
from fencepost.encoder.vocabulary import read_vocabulary
from fencepost.errors import DataError, UsageError, describe_error, quote, shorten
from fencepost.runtime.engine import ENCODER, Predictor
from fencepost.runtime.folder import CONFIG_FILE, FACTS_FILE, GRAPH_FOLDER, list_members, read_saved_config
from fencepost.runtime.graph_file import find_not_finite
from fencepost.runtime.threads import count_cores, read_omp_threads

Precision = Literal["float32", "int8"]
_OUTPUTS = ["word_vectors", "prompts"]
_SPIN = "100"  # microseconds


def get_graph_file(name: str, precision: Precision = "float32") -> str:
    return f"{name}.onnx" if precision == "float32" else f"{name}.{precision}.onnx"


def list_precisions(folder: Path) -> list[Precision]:
    """Return the precisions to which the model in this folder was exported, the fastest first."""
    precisions: tuple[Precision, ...] = ("int8", "float32")
    if members := list_members(folder):
        of_members = [list_precisions(member) for member in members]
        return [one for one in precisions if all(one in of_member for of_member in of_members)]
    if not (folder / FACTS_FILE).is_file():
        return []
    return [one for one in precisions if (folder / GRAPH_FOLDER / get_graph_file(ENCODER, one)).is_file()]


def find_trusted_precision(folder: Path) -> Precision | None:
    """Return the fastest precision to use by default: `int8` only if it passed `fencepost export --check`."""
    precisions = list_precisions(folder)
    if "int8" in precisions:
        results = read_json_object(folder / FACTS_FILE, limit=SETTINGS_BYTES).get("checked")
        int8 = results.get("int8") if isinstance(results, dict) else None
        if isinstance(int8, dict) and int8.get("good") is True:
            return "int8"
    return "float32" if "float32" in precisions else None


class ExportFacts(NamedTuple):
    """Content of `onnx/export.json`."""

    graphs: list[str]
    room: int | None
    types: tuple[str, ...] | None
    """Types that the graphs predict; None for exports of earlier versions."""


def _read_facts(folder: Path) -> ExportFacts:
    path = folder / FACTS_FILE
    facts = read_json_object(path, limit=SETTINGS_BYTES)
    graphs, room, types = facts.get("graphs"), facts.get("room", "missing"), facts.get("types")
    # names must be short identifiers, so that none refers to a file outside the folder
    if not isinstance(graphs, list) or not all(
        isinstance(name, str) and name.isidentifier() and len(name) < 100 for name in graphs
    ):
        message = f"graphs is {quote(graphs)}"
    elif room is not None and (type(room) is not int or not 1 <= room <= LARGEST_WINDOW):
        message = f"room is {quote(room)}"
    elif types is not None and not isinstance(types, list):
        message = f"types is {quote(types)}"
    else:
        return ExportFacts(graphs, room, None if types is None else tuple(types))
    raise DataError(f"this is not an exported fencepost model: {message}; export it again", source=str(path))


class OnnxEngine:
    """Engine that runs the graphs in a model's folder."""

    subwords_per_batch: int | None = 384
    """Size with padding; batches of this size stay in the processor's caches, which is faster."""

    def __init__(
        self, folder: Path, precision: Precision, graphs: Sequence[str], threads: int | None = None
    ) -> None:
        """Open the graphs; `threads` is by default `OMP_NUM_THREADS`, or else the number of cores."""
        self.name: str = "onnx" if precision == "float32" else precision
        threads = threads or read_omp_threads()
        self.threads = threads or count_cores()
        self._paths = {name: folder / GRAPH_FOLDER / get_graph_file(name) for name in graphs}
        self._paths[ENCODER] = folder / GRAPH_FOLDER / get_graph_file(ENCODER, precision)
        self.graphs = {name: open_graph(path, _make_options(threads)) for name, path in self._paths.items()}
        self._files = self._identify_files()
        outputs = self.graphs[ENCODER].outputs
        if outputs not in (_OUTPUTS[:1], _OUTPUTS):
            message = f"the outputs of the encoder are {quote(outputs)}; export the model again"
            raise DataError(message, source=str(folder))
        self._single: dict[str, Session] | None = None
        self._has_tried_single = False
        self._lock = Lock()

    def open_single(self) -> dict[str, Session] | None:
        """Return sessions that use one thread per call; None if they cannot be opened.

        onnxruntime sets the number of threads per session, not per call, and sessions cannot share their
        weights. So this is a second copy of the model, opened when it is first needed.
        """
        with self._lock:
            if not self._has_tried_single:
                self._has_tried_single = True
                with suppress(DataError, OSError):  # too little memory for two copies, or the files are gone
                    single = {name: _open(path, _make_options(1)) for name, path in self._paths.items()}
                    if self._identify_files() == self._files:  # else the files are of another model
                        self._single = single
            return self._single

    def _identify_files(self) -> list[tuple[int, int, int]]:
        stats = [path.stat() for path in self._paths.values()]
        return [(stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats]


def load_predictor(
    folder: str | Path, precision: Precision = "float32", *, threads: int | None = None
) -> Predictor:
    """Return a predictor that runs the graphs in a model's folder; raise `DataError` if it does not work."""
    folder = Path(folder)
    if precision not in list_precisions(folder):
        raise UsageError(f"{folder}: this model was not exported to {precision}; run fencepost export")
    saved, facts = read_saved_config(folder), _read_facts(folder)
    known, _ = read_vocabulary(folder)
    if facts.types not in (None, saved.types):
        message = f"the graphs are for other types than those in {CONFIG_FILE}; export the model again"
        raise DataError(message, source=str(folder))
    config = saved.parse_config()
    subwords = Subwords.load(folder) if facts.room is not None else None
    inputs = InputReader(config.encoder, known, subwords, facts.room)
    engine = OnnxEngine(folder, precision, facts.graphs, threads)
    predictor = Predictor(engine, config, saved.types, inputs, saved.parse_calibration(), str(folder))
    return predictor.try_out(folder)


class Session:
    """A graph that is called with named arrays; inputs that the export has removed are ignored."""

    def __init__(self, session: onnxruntime.InferenceSession, path: Path) -> None:
        self._session, self._path = session, path
        self.outputs = [output.name for output in session.get_outputs()]
        self._names = {array.name for array in session.get_inputs()}

    def __call__(self, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs; raise `DataError` if the graph cannot be run or computes NaN."""
        arguments = {name: array for name, array in inputs.items() if name in self._names}
        try:
            outputs = [np.asarray(output) for output in self._session.run(None, arguments)]
        except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
            message = f"the graph cannot be run: {describe_error(error)}; export the model again"
            raise DataError(message, source=str(self._path)) from None
        if any(output.dtype.kind == "f" and np.isnan(output).any() for output in outputs):
            message = "the graph computes NaN: its weights are damaged or not finite"
            raise DataError(f"{message}; export the model again", source=str(self._path))
        return outputs


def open_graph(path: Path, options: onnxruntime.SessionOptions | None = None) -> Session:
    """Return the graph in a file; raise `DataError` if it cannot be loaded or a weight is not finite."""
    session = _open(path, options or _make_options(read_omp_threads()))
    with _name_graph(path):
        not_finite = find_not_finite(path)
    if not_finite is not None:
        message = f"the weights of this graph contain NaN or infinity (in {shorten(not_finite)})"
        raise DataError(f"{message}; train the model again", source=str(path))
    return session


def _open(path: Path, options: onnxruntime.SessionOptions) -> Session:
    with _name_graph(path):
        session = onnxruntime.InferenceSession(
            str(path),
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=0,  # otherwise, an error is also printed to standard output
        )
    return Session(session, path)


@contextmanager
def _name_graph(path: Path) -> Iterator[None]:
    """Raise any error of the block as a `DataError` about this file."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
        message = f"the graph cannot be loaded: {describe_error(error)}; export the model again"
        raise DataError(message, source=str(path)) from None


def _make_options(threads: int | None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    # each graph of a model has its own threads, which must not busy-wait while those of other graphs work
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # within a graph, threads busy-wait for a short time: long enough to resume at once, short enough not to
    # slow down other processes (see `benchmarks.contention`); some versions of onnxruntime ignore this
    options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN)
    return options
