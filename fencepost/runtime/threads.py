"""How many threads this process should have."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chosen_threads() -> int | None:
    """Return the number of threads that the user has chosen by `OMP_NUM_THREADS`; None if there is none."""
    number = os.environ.get("OMP_NUM_THREADS", "")
    return (int(number) or None) if number.isdecimal() else None
