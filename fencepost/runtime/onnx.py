"""onnxruntime: the graphs in a model's folder as an engine."""

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
from fencepost.runtime.folder import CONFIG_FILE, FACTS_FILE, GRAPH_FOLDER, read_saved_config
from fencepost.runtime.graph_file import find_not_finite
from fencepost.runtime.threads import chosen_threads, usable_cores

Precision = Literal["float32", "int8"]
_OUTPUTS = ["word_vectors", "prompts"]
_SPIN = "100"  # microseconds


def graph_file(name: str, precision: Precision = "float32") -> str:
    return f"{name}.onnx" if precision == "float32" else f"{name}.{precision}.onnx"


def exported_precisions(folder: Path) -> list[Precision]:
    """What the model in this folder was exported to, the fastest first."""
    at_hand: tuple[Precision, ...] = ("int8", "float32")
    there = (folder / FACTS_FILE).is_file()
    return [one for one in at_hand if there and (folder / GRAPH_FOLDER / graph_file(ENCODER, one)).is_file()]


def trusted_precision(folder: Path) -> Precision | None:
    """The fastest that is known to be good: `int8` is, once `fencepost export --check` has shown it."""
    there = exported_precisions(folder)
    if "int8" in there:
        checked = read_json_object(folder / FACTS_FILE, limit=SETTINGS_BYTES).get("checked")
        of_int8 = checked.get("int8") if isinstance(checked, dict) else None
        if isinstance(of_int8, dict) and of_int8.get("good") is True:
            return "int8"
    return "float32" if "float32" in there else None


class ExportFacts(NamedTuple):
    """What `onnx/export.json` says about the graphs."""

    graphs: list[str]
    room: int | None
    types: tuple[str, ...] | None
    """That the graphs were made for; older exports do not say."""


def _read_facts(folder: Path) -> ExportFacts:
    path = folder / FACTS_FILE
    facts = read_json_object(path, limit=SETTINGS_BYTES)
    graphs, room, types = facts.get("graphs"), facts.get("room", "missing"), facts.get("types")
    # a name is a short identifier, so that none leads out of the folder
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
    """Runs the graphs in a model's folder."""

    pieces: int | None = 384
    """With its padding, a batch of this size stays in the caches, which is faster."""

    def __init__(
        self, folder: Path, precision: Precision, graphs: Sequence[str], threads: int | None = None
    ) -> None:
        """`threads` is by default `OMP_NUM_THREADS`, or else the number of the processor's cores."""
        self.name: str = "onnx" if precision == "float32" else precision
        threads = threads or chosen_threads()
        self.threads = threads or usable_cores()
        place = folder / GRAPH_FOLDER
        self._paths = {name: place / graph_file(name) for name in graphs}
        self._paths[ENCODER] = place / graph_file(ENCODER, precision)
        self.graphs = {name: open_graph(path, _options(threads)) for name, path in self._paths.items()}
        self._files = self._identify_files()
        outputs = self.graphs[ENCODER].outputs
        if outputs not in (_OUTPUTS[:1], _OUTPUTS):
            message = f"the outputs of the encoder are {quote(outputs)}; export the model again"
            raise DataError(message, source=str(folder))
        self._single: dict[str, Session] | None = None
        self._has_tried_single = False
        self._lock = Lock()

    def open_single(self) -> dict[str, Session] | None:
        """Return sessions of which each call takes one thread; None if they cannot be opened.

        onnxruntime sets the number of threads of a session, not of a call, and its sessions cannot share
        their weights. So this is a second copy of the model, opened when it is first needed.
        """
        with self._lock:
            if not self._has_tried_single:
                self._has_tried_single = True
                with suppress(DataError, OSError):  # too little memory for two, or the files are gone
                    single = {name: _open(path, _options(1)) for name, path in self._paths.items()}
                    if self._identify_files() == self._files:  # else it is another model
                        self._single = single
            return self._single

    def _identify_files(self) -> list[tuple[int, int, int]]:
        found = [path.stat() for path in self._paths.values()]
        return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


def load_predictor(
    folder: str | Path, precision: Precision = "float32", *, threads: int | None = None
) -> Predictor:
    """Return a predictor that runs the graphs in a model's folder; raises `DataError` if it does not work."""
    folder = Path(folder)
    if precision not in exported_precisions(folder):
        raise UsageError(f"{folder}: this model was not exported to {precision}: run fencepost export")
    saved, facts = read_saved_config(folder), _read_facts(folder)
    known, _ = read_vocabulary(folder)
    if facts.types not in (None, saved.types):
        raise DataError(f"the graphs are for other types than {CONFIG_FILE} has", source=str(folder))
    config = saved.parse_config()
    subwords = Subwords.load(folder) if facts.room is not None else None
    inputs = InputReader(config.encoder, known, subwords, facts.room)
    engine = OnnxEngine(folder, precision, facts.graphs, threads)
    predictor = Predictor(engine, config, saved.types, inputs, saved.parse_calibration(), str(folder))
    return predictor.try_out(folder)


class Session:
    """A graph, called with named arrays; those that it has no use for, an export left out of it."""

    def __init__(self, session: onnxruntime.InferenceSession, path: Path) -> None:
        self._session, self._path = session, path
        self.outputs = [output.name for output in session.get_outputs()]
        self._names = {wanted.name for wanted in session.get_inputs()}

    def __call__(self, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return the outputs; raises `DataError` if the graph cannot be run or computes NaN."""
        used = {name: array for name, array in inputs.items() if name in self._names}
        try:
            outputs = [np.asarray(output) for output in self._session.run(None, used)]
        except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
            message = f"the graph cannot be run: {describe_error(error)}; export the model again"
            raise DataError(message, source=str(self._path)) from None
        if any(output.dtype.kind == "f" and np.isnan(output).any() for output in outputs):
            message = "the graph computes NaN: its weights are damaged, or were never numbers"
            raise DataError(f"{message}; export the model again", source=str(self._path))
        return outputs


def open_graph(path: Path, options: onnxruntime.SessionOptions | None = None) -> Session:
    """Return the graph in a file; raises `DataError` if it cannot be run or has weights that are NaN."""
    session = _open(path, options or _options(chosen_threads()))
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
            enable_fallback=0,  # with it, an error is also printed to standard output
        )
    return Session(session, path)


@contextmanager
def _name_graph(path: Path) -> Iterator[None]:
    """Turn any error into a `DataError` about this file."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - onnxruntime has one class for each of its codes
        message = f"the graph cannot be loaded: {describe_error(error)}; export the model again"
        raise DataError(message, source=str(path)) from None


def _options(threads: int | None) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    # a model has several graphs, each with threads of its own; they must not wait busily while others work
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # within a graph they wait busily, but shortly: so they start again at once, and leave a busy machine to
    # others (`benchmarks.contention`; versions of onnxruntime that do not know this ignore it)
    options.add_session_config_entry("session.intra_op.spin_duration_us", _SPIN)
    return options
