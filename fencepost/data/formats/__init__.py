"""Corpus formats, one module each."""
