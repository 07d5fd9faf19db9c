"""Annotations that are probably wrong: models judge sentences that they have not seen."""
