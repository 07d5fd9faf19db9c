"""Engine that runs a model's modules with PyTorch; saving and loading of its weights."""

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
from fencepost.encoder.arrays import AXES, BLOCK_AXES
from fencepost.encoder.encoder import Encoder
from fencepost.errors import DataError, FencepostError, UsageError, describe_error, shorten
from fencepost.methods.model import Model
from fencepost.methods.network import Graph
from fencepost.methods.registry import METHODS
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

_SUBWORDS_PER_BATCH = 2048
"""Maximum number of sub-words of a batch with padding on a CPU, unless a single sentence has more.

It limits the memory; much smaller batches leave threads idle.
"""

_EXAMPLES = (
    Sentence(("An", "example", "of", "a", "sentence", "."), doc="1"),
    Sentence(("Another", "one"), doc="1"),
    Sentence(("One", "of", "another", "document"), doc="2"),
)
"""Sentences that graphs are traced with: their lengths do not matter, but each axis must be longer than 1."""


class TorchEngine:
    """Engine that runs a model's modules on their device."""

    name = "pytorch"
    threads = 1  # PyTorch shares each operation among its own threads

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graphs = {name: ModuleGraph(graph) for name, graph in make_graphs(model).items()}

    def open_single(self) -> None:
        """Return None: PyTorch has no graphs for a single thread."""

    @property
    def subwords_per_batch(self) -> int | None:
        return _SUBWORDS_PER_BATCH if self.model.device.type == "cpu" else None


class ModuleGraph:
    """A module that is called with named arrays and returns arrays."""

    def __init__(self, graph: Graph) -> None:
        self.module, self.names = graph.module, list(graph.inputs)

    @torch.inference_mode()
    def __call__(self, **inputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        tensor = next(chain(self.module.parameters(), self.module.buffers()), None)
        device = None if tensor is None else tensor.device
        tensors = [torch.from_numpy(inputs[name]).to(device) for name in self.names if name in inputs]
        outputs = self.module(*tensors)
        return [output.cpu().numpy() for output in ([outputs] if isinstance(outputs, Tensor) else outputs)]


class EncoderGraph(nn.Module):
    """The encoder as a module with positional arguments, as an exported graph needs it."""

    def __init__(self, encoder: Encoder, names: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder = encoder
        self.names = names

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        words = self.encoder(dict(zip(self.names, arrays, strict=True)))
        return (words.vectors,) if words.prompts is None else (words.vectors, words.prompts)


@torch.no_grad()
def make_graphs(model: Model) -> dict[str, Graph]:
    """Return all graphs of a model, with examples of their inputs."""
    training = [module for module in model.modules() if module.training]
    model.eval()  # without dropout, which would use random numbers
    arrays = model.encoder.collate(model.split(_EXAMPLES))
    batch = {name: tensor.to(model.device) for name, tensor in arrays.items()}
    words = model.encoder(batch)
    names = {**AXES, **(BLOCK_AXES if "piece_places" in batch else {})}
    axes: dict[str, Sequence[str | None]] = {name: names[name] for name in batch}
    axes["word_vectors"] = ("sentences", "words", None)
    if words.prompts is not None:
        axes["prompts"] = ("sentences", None, None)
    encoder = Graph(EncoderGraph(model.encoder, tuple(batch)), batch, axes)
    graphs = {ENCODER: encoder, **model.network.graphs(words)}
    for module in training:
        module.training = True
    return graphs


def make_predictor(model: Model, source: str = "the model") -> Predictor:
    """Return a predictor that runs a model; later changes of its weights have an effect."""
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
    """Return the device of this name; `auto` is the accelerator of this machine, or else the CPU.

    Raises `UsageError` if this machine has no such device.
    """
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    devices = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
    if name == "auto":
        return torch.device(devices[-1])
    if name not in devices:
        raise UsageError(f"the device {name} is not available; this machine has {' and '.join(devices)}")
    return torch.device(name)


def save_model(model: Model, folder: str | Path) -> None:
    """Save the model in a folder; the config and the checksums are written last.

    Raises `WriteError` if a file cannot be written, for example because the disk is full.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, ".saving-*")  # temporary folders of earlier versions
    with raise_write_errors(folder), temporary_folder(folder) as temporary:
        model.encoder.save(temporary)
        weights = {key: value.contiguous() for key, value in model.state_dict().items()}
        with raise_write_errors(folder / WEIGHTS_FILE, SafetensorError):
            save_file(weights, temporary / WEIGHTS_FILE)
        text = format_config(model.config, model.types, model.calibration)
        (temporary / CONFIG_FILE).write_text(text, encoding="utf-8")
        # safetensors makes files that only the owner can read; use the user's default permissions instead
        shutil.copymode(temporary / CONFIG_FILE, temporary / WEIGHTS_FILE)
        names = [path.name for path in temporary.iterdir() if path.name != CONFIG_FILE]
        sums = compute_sums(temporary, [*names, CONFIG_FILE])
        (temporary / SUMS_FILE).write_text(format_sums(sums), encoding="utf-8")
        (folder / FACTS_FILE).unlink(missing_ok=True)  # graphs of other weights must not be used
        (folder / SUMS_FILE).unlink(missing_ok=True)  # an interrupted save must not leave wrong checksums
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
    """Return the model in a folder; `Predictor.try_out` checks whether it works."""
    saved = read_saved_config(folder)
    config = saved.parse_config()
    if METHODS[config.method.name].network is None:
        raise DataError(f"this is a {config.method.name}, but its members are missing", source=str(folder))
    if not (folder / WEIGHTS_FILE).is_file() and (folder / FACTS_FILE).is_file():
        raise UsageError(
            f"{folder}: this model has graphs for prediction, but no weights ({WEIGHTS_FILE}), which PyTorch "
            "needs; run it with the engine onnx or int8, or use a copy with weights"
        )
    build_encoder = Encoder.read(config.encoder, folder, config.method.prompts(saved.types))
    model = _build_with_weights(lambda: Model(config, saved.types, build_encoder()), folder / WEIGHTS_FILE)
    model.calibration = saved.parse_calibration()
    return model.eval()


def load_weights(model: Model, folder: Path) -> None:
    """Replace a model's weights with those in a folder."""
    model.load_state_dict(load_file(folder / WEIGHTS_FILE))


def _build_with_weights(build: Callable[[], Model], path: Path) -> Model:
    """Return the model that `build` returns, with the weights from a file.

    The model is first built without memory for its weights, and their shapes are compared with those in the
    header of the file. So a config with sizes that exceed the memory is refused before any is allocated.
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
    except Exception as error:  # noqa: BLE001 - networks may raise anything for wrong sizes
        lines = str(error).splitlines()  # the first of several lines is only a heading
        reasons = "; ".join(shorten(line.strip()) for line in lines[1:4]) or describe_error(error)
        raise DataError(f"the weights do not fit the model's config: {reasons}", source=str(path)) from None
    for name, weight in weights.items():
        if weight.is_floating_point() and not weight.isfinite().all():
            message = f"the weights of this model contain NaN or infinity (in {shorten(name)})"
            raise DataError(f"{message}; train it again", source=str(path))
    return model


def _build_without_memory(build: Callable[[], Model]) -> Model | None:
    """Return the model that `build` returns, on the meta device; None if it cannot be built there."""
    try:
        with torch.device("meta"):
            return build()
    except FencepostError:
        raise
    except Exception:  # noqa: BLE001 - a method of another package may need actual numbers
        return None


def _read_shapes(path: Path) -> dict[str, Tensor]:
    """Return the weights in a file as tensors without memory; only the header of the file is read."""
    with safe_open(path, "pt") as weights:
        names: list[str] = weights.keys()
        return {name: torch.empty(weights.get_slice(name).get_shape(), device="meta") for name in names}
