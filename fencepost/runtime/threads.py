"""Number of threads that this process should use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_omp_threads() -> int | None:
    """Return the number of threads that the user has set by `OMP_NUM_THREADS`; None if it is not set."""
    number = os.environ.get("OMP_NUM_THREADS", "")
    return (int(number) or None) if number.isdecimal() else None
