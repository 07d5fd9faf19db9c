"""Locate and label: Shen et al., "Locate and Label: A Two-stage Identifier for Nested NER", ACL 2021.

As in object detection: all spans of some lengths are seeds; a filter removes those that are far from any
entity; a regressor moves the boundaries of the rest (sections 2.2, 2.3); a classifier labels the moved spans
(section 2.4); and Soft-NMS lowers the scores of spans that overlap better ones too much (section 2.6). So the
method can also predict entities of other lengths than those of the seeds.
"""

from fencepost.methods.locate_and_label.decode import LocateAndLabelDecoder
from fencepost.methods.locate_and_label.report import LocateAndLabelReport
from fencepost.methods.locate_and_label.settings import LocateAndLabelPredict, LocateAndLabelSettings
from fencepost.methods.registry import Method

METHOD = Method(
    settings=LocateAndLabelSettings,
    predict=LocateAndLabelPredict,
    decoder=LocateAndLabelDecoder,
    network="fencepost.methods.locate_and_label.network:LocateAndLabel",
    defaults={
        "encoder": {"lstm": {"size": 256}},
        "training": {"batch_size": 8},
    },
    reports={"stages": LocateAndLabelReport},
)
