"""Annotations that are probably wrong, found by models that were not trained on them."""
