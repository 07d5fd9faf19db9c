"""PyTorch: a model's modules as an engine, and its weights in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fencepost.data.entity import Sentence
from fencepost.data.output import raise_write_errors, remove_leftovers, temporary_folder
from fencepost.encoder.arrays import AXES
from fencepost.encoder.encoder import Encoder
from fencepost.errors import DataError, FencepostError, UsageError, describe_error, shorten
from fencepost.methods.model import Model
from fencepost.methods.network import Graph
from fencepost.runtime.engine import ENCODER, DeviceName, Predictor, refuse_broken
from fencepost.runtime.folder import (
    CONFIG_FILE,
    FACTS_FILE,
    SUMS_FILE,
    WEIGHTS_FILE,
    compute_sums,
    format_config,
    format_sums,
    read_saved_config,
)

_PIECES = 2048
"""Pieces of a batch with its padding on a CPU, unless one sentence alone has more.

It bounds the memory; much smaller batches leave threads idle.
"""

_EXAMPLES = (Sentence(("An", "example", "of", "a", "sentence", ".")), Sentence(("Another", "one")))
"""What graphs are traced with: their sizes mean nothing, but that there are several sentences does."""


class TorchEngine:
    """Runs a model's modules, on the device that they are on."""

    name = "pytorch"
    threads = 1  # PyTorch shares each operation among threads of its own

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graphs = {name: ModuleGraph(graph) for name, graph in model_graphs(model).items()}

    def open_single(self) -> None:
        """Return nothing: its graphs do not differ by the number of threads."""

    @property
    def pieces(self) -> int | None:
        return _PIECES if self.model.device.type == "cpu" else None


class ModuleGraph:
    """A module that is called with named arrays and returns arrays."""

    def __init__(self, graph: Graph) -> None:
        self.module, self.names = graph.module, list(graph.inputs)

    @torch.inference_mode()
    def __call__(self, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        one = next(chain(self.module.parameters(), self.module.buffers()), None)  # without any, on the CPU
        device = None if one is None else one.device
        tensors = [torch.from_numpy(inputs[name]).to(device) for name in self.names if name in inputs]
        outputs = self.module(*tensors)
        return [output.cpu().numpy() for output in ([outputs] if isinstance(outputs, Tensor) else outputs)]


class EncoderGraph(nn.Module):
    """The encoder, as a graph: named arrays as arguments in a fixed order."""

    def __init__(self, encoder: Encoder, names: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        words = self.encoder(dict(zip(self.names, arrays, strict=True)))
        return (words.vectors,) if words.prompts is None else (words.vectors, words.prompts)


@torch.no_grad()
def model_graphs(model: Model) -> dict[str, Graph]:
    """Return all graphs of a model, with examples of their inputs."""
    training = [module for module in model.modules() if module.training]
    model.eval()  # so that no dropout draws random numbers
    fitting = [model.encoder.inputs.split(example)[0].sentence for example in _EXAMPLES]
    batch = {name: tensor.to(model.device) for name, tensor in model.encoder.collate(fitting).items()}
    words = model.encoder(batch)
    axes: dict[str, Sequence[str | None]] = {name: AXES[name] for name in batch}
    axes["word_vectors"] = ("sentences", "words", None)
    if words.prompts is not None:
        axes["prompts"] = ("sentences", None, None)
    encoder = Graph(EncoderGraph(model.encoder, tuple(batch)), batch, axes)
    graphs = {ENCODER: encoder, **model.network.graphs(words)}
    for module in training:
        module.training = True
    return graphs


def make_predictor(model: Model, source: str = "the model") -> Predictor:
    """Return a predictor that runs a model as it is; later changes of its weights count."""
    return Predictor(
        TorchEngine(model), model.config, model.types, model.encoder.inputs, model.calibration, source
    )


def load_predictor(folder: Path, device: DeviceName = "auto") -> Predictor:
    """Return a predictor that runs the model in a folder with PyTorch."""
    model = _read_model(folder).to(choose_device(device))
    with refuse_broken(folder):
        predictor = make_predictor(model, str(folder))
    return predictor.try_out(folder)


def choose_device(name: str) -> torch.device:
    """Return the device of this name; `auto` is the accelerator that is present, or else the CPU.

    Raises `UsageError` if there is no such device on this machine.
    """
    present = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    here = ["cpu"] if present is None else ["cpu", present.type]
    if name == "auto":
        return torch.device(here[-1])
    if name not in here:
        raise UsageError(f"the device {name} is not available; this machine has {' and '.join(here)}")
    return torch.device(name)


def save_model(model: Model, folder: str | Path) -> None:
    """Save the model in a folder: the config after all that it needs, and the checksums last.

    Raises `WriteError` if a file cannot be written, as when the disk is full.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, ".saving-*")  # of a version that called its temporary folders so
    with raise_write_errors(folder), temporary_folder(folder) as temporary:
        model.encoder.save(temporary)
        weights = {key: value.contiguous() for key, value in model.state_dict().items()}
        with raise_write_errors(folder / WEIGHTS_FILE, SafetensorError):
            save_file(weights, temporary / WEIGHTS_FILE)
        text = format_config(model.config, model.types, model.calibration)
        (temporary / CONFIG_FILE).write_text(text, encoding="utf-8")
        # safetensors lets nobody but the owner read; the user's own rule for new files counts
        shutil.copymode(temporary / CONFIG_FILE, temporary / WEIGHTS_FILE)
        names = [path.name for path in temporary.iterdir() if path.name != CONFIG_FILE]
        sums = compute_sums(temporary, [*names, CONFIG_FILE])
        (temporary / SUMS_FILE).write_text(format_sums(sums), encoding="utf-8")
        (folder / FACTS_FILE).unlink(missing_ok=True)  # graphs of other weights are no use
        (folder / SUMS_FILE).unlink(missing_ok=True)  # a save that is cut short leaves no wrong sums
        for name in (*names, CONFIG_FILE, SUMS_FILE):
            (temporary / name).replace(folder / name)


def load_model(folder: str | Path) -> Model:
    """Return the model that was saved in a folder, in evaluation mode on the CPU.

    Raises `DataError` for a file that is damaged or does not fit the others.
    """
    engine: Any = load_predictor(Path(folder), "cpu").engine
    model: Model = engine.model
    return model


def _read_model(folder: Path) -> Model:
    """Return the model in a folder, which may still not work: see `Predictor.try_out`."""
    saved = read_saved_config(folder)
    config = saved.parse_config()
    build_encoder = Encoder.read(config.encoder, folder, config.method.prompts(saved.types))
    model = _build_with_weights(lambda: Model(config, saved.types, build_encoder()), folder / WEIGHTS_FILE)
    model.calibration = saved.parse_calibration()
    return model.eval()


def load_weights(model: Model, folder: Path) -> None:
    """Replace a model's weights by those in a folder."""
    model.load_state_dict(load_file(folder / WEIGHTS_FILE))


def _build_with_weights(build: Callable[[], Model], path: Path) -> Model:
    """Return what `build` makes, with the weights from a file.

    The network is first built without memory for its weights, and its shapes are compared with those in the
    header of the file: so a config with sizes that no memory holds is refused at no cost.
    """
    try:
        network = _build_without_memory(build)
        if network is not None:
            network.load_state_dict(_read_shapes(path))
        model = build()
        weights = load_file(path)
        model.load_state_dict(weights)
    except FencepostError:
        raise
    except (OSError, SafetensorError) as error:
        message = f"the model's weights cannot be read: {describe_error(error)}"
        raise DataError(message, source=str(path)) from None
    except Exception as error:  # noqa: BLE001 - each network checks its sizes in its own way
        lines = str(error).splitlines()  # if there are several, the first says only that
        reasons = "; ".join(shorten(line.strip()) for line in lines[1:4]) or describe_error(error)
        raise DataError(f"the weights do not fit the model's config: {reasons}", source=str(path)) from None
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.isfinite().all():
            message = f"the weights of this model contain NaN or infinity (in {shorten(name)})"
            raise DataError(f"{message}; train it again", source=str(path))
    return model


def _build_without_memory(build: Callable[[], Model]) -> Model | None:
    """Return what `build` makes, on the meta device, or None if a part of it cannot be built there."""
    try:
        with torch.device("meta"):
            return build()
    except FencepostError:
        raise
    except Exception:  # noqa: BLE001 - a method of another package may need numbers; then they are made
        return None


def _read_shapes(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file as tensors without memory: only its header is read."""
    with safe_open(path, "pt") as weights:
        names: list[str] = weights.keys()
        return {name: torch.empty(weights.get_slice(name).get_shape(), device="meta") for name in names}
