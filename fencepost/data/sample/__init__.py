"""The sample corpus; its generator is `tools/sample_corpus/generate.py`, with the annotation guideline."""

from __future__ import annotations

from pathlib import Path

from fencepost.errors import UsageError

SPLITS = ("train", "dev", "test")


def path(split: str) -> Path:
    """Return the file of a split."""
    if split not in SPLITS:
        raise UsageError(f"the sample corpus has no split {split!r}; it has {', '.join(SPLITS)}")
    return Path(__file__).parent / f"{split}.jsonl"
