"""Combination: several trained models, whose candidates are joined and decided together.

It is not trained itself: `fencepost combine` makes it from models of any methods, encoders and seeds. The
probability of a candidate is a logistic function of the members' probabilities, learnt on development data.
"""

from fencepost.methods.combination.decode import CombinationDecoder
from fencepost.methods.combination.report import AgreementReport
from fencepost.methods.combination.settings import CombinationSettings
from fencepost.methods.registry import Method

METHOD = Method(
    settings=CombinationSettings,
    decoder=CombinationDecoder,
    network=None,
    reports={"agreement": AgreementReport},
)
