"""The sample corpus; `tools/sample_corpus/generate.py` generates it and has the annotation guideline."""

from __future__ import annotations

from pathlib import Path

from fencepost.errors import UsageError

PARTS = ("train", "dev", "test")


def get_path(part: str) -> Path:
    """Return the path of a part; raises `UsageError` for an unknown one."""
    if part not in PARTS:
        raise UsageError(f"the sample corpus has no part {part!r}; it has {', '.join(PARTS)}")
    return Path(__file__).parent / f"{part}.jsonl"
