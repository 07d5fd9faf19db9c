"""Suppression of messages of other libraries."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def silence_logging(level: int) -> Iterator[None]:
    """Suppress warnings, and log messages up to this level."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Suppress what libraries in C++ write to the standard error of the process."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with Path(os.devnull).open("w") as devnull:
            os.dup2(devnull.fileno(), 2)
            yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
