"""Boundary smoothing: Zhu and Li, "Boundary Smoothing for Named Entity Recognition", ACL 2022.

A biaffine layer scores every span of a sentence for every type (section 3.1, `network.py`). The training
targets give a part `epsilon` of an entity's probability to the spans around it (section 3.2, `loss.py`),
which keeps the model from being overconfident about boundaries. `epsilon = 0` is the plain biaffine baseline.
"""

from fencepost.methods.boundary_smoothing.decode import SpanDecoder
from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.registry import Method

METHOD = Method(
    settings=BoundarySmoothingSettings,
    decoder=SpanDecoder,
    network="fencepost.methods.boundary_smoothing.network:BoundarySmoothing",
    defaults={"encoder": {"freeze_embeddings": True}},
)
