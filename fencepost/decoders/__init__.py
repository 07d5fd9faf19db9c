"""What methods do without PyTorch: from the numbers of their networks to entities, in NumPy."""

from fencepost.decoders.boundary_offset import BoundaryOffsetDecoder
from fencepost.decoders.boundary_smoothing import BoundarySmoothingDecoder
from fencepost.decoders.decoder import (
    Decoder,
    GraphMismatch,
    Graphs,
    PredictSettings,
    TrainedSettings,
    WordArrays,
    run_graph,
)
from fencepost.decoders.diffusion import DiffusionDecoder
from fencepost.decoders.locate_and_label import LocateAndLabelDecoder
from fencepost.decoders.registry import Registry

DECODERS = Registry[Decoder](
    "decoder",
    Decoder,
    {
        "boundary-smoothing": BoundarySmoothingDecoder,
        "boundary-offset": BoundaryOffsetDecoder,
        "locate-and-label": LocateAndLabelDecoder,
        "diffusion": DiffusionDecoder,
    },
)

__all__ = [
    "DECODERS",
    "Decoder",
    "GraphMismatch",
    "Graphs",
    "PredictSettings",
    "Registry",
    "TrainedSettings",
    "WordArrays",
    "run_graph",
]
