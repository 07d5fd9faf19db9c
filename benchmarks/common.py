"""What the benchmarks share: progress to standard error, one JSON object last on standard output."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def corpora() -> Path | None:
    """The folder of the real corpora; None where they are absent."""
    folder = Path(os.environ.get("FENCEPOST_DATA") or ROOT.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def say(message: str) -> None:
    """Progress, for the person who waits."""
    print(message, file=sys.stderr, flush=True)


def machine() -> dict[str, Any]:
    """What a figure depends on besides the code."""
    return {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}


def report(result: dict[str, Any]) -> None:
    """The result, as the last line of standard output."""
    print(json.dumps(result, ensure_ascii=False), flush=True)
