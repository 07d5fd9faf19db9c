"""Annotations that are probably wrong: models judge sentences that they have not seen."""

from fencepost.analysis.audit.fixing import apply_suggestions, read_accepted
from fencepost.analysis.audit.folds import Audit, split_folds
from fencepost.analysis.audit.page import AuditPage, render
from fencepost.analysis.audit.ranking import rank
from fencepost.analysis.audit.suggestions import KINDS, Judged, Suggestion, sentences_to_review

__all__ = [
    "KINDS",
    "Audit",
    "AuditPage",
    "Judged",
    "Suggestion",
    "apply_suggestions",
    "rank",
    "read_accepted",
    "render",
    "sentences_to_review",
    "split_folds",
]
