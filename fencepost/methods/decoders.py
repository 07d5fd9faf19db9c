"""The decoders of methods, by name."""

from fencepost.methods.boundary_offset.decode import BoundaryOffsetDecoder
from fencepost.methods.boundary_smoothing.decode import BoundarySmoothingDecoder
from fencepost.methods.decoder import Decoder
from fencepost.methods.diffusion.decode import DiffusionDecoder
from fencepost.methods.locate_and_label.decode import LocateAndLabelDecoder
from fencepost.methods.registry import Registry

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
