"""Boundary offsets: Tang et al., "A Boundary Offset Prediction Network for Named Entity Recognition", 2023.

For every type, every span of a sentence predicts its offset from the nearest entity: "0" is an entity (a
centre), "-1S" starts one word before an entity, "2E" ends two words after one, and most spans are out of
range (section 2). Types are inputs: learnt prompts that the encoder reads together with the sentence. So
spans that are not entities point at entities, which they vote for even if the model misses the centre.
"""

from fencepost.methods.boundary_offset.decode import OffsetDecoder
from fencepost.methods.boundary_offset.report import OffsetReport
from fencepost.methods.boundary_offset.settings import BoundaryOffsetPredict, BoundaryOffsetSettings
from fencepost.methods.registry import Method

METHOD = Method(
    settings=BoundaryOffsetSettings,
    predict=BoundaryOffsetPredict,
    decoder=OffsetDecoder,
    network="fencepost.methods.boundary_offset.network:BoundaryOffset",
    reports={"offsets": OffsetReport},
    defaults={
        "encoder": {"lstm": {"size": 256}},
        "training": {"batch_size": 8},
    },
)
