"""How much space an installation without PyTorch takes, in megabytes.

    python -m benchmarks.installation

Makes a virtual environment in a temporary folder, installs this checkout with the versions of
`constraints.txt`, and compiles all modules. Prints one JSON object as its last line: all of the environment,
and of that the shipped model, pip and setuptools, and the largest packages.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import ROOT, machine, report, say


def size_of(folder: Path) -> float:
    """Return the megabytes (of 2**20 bytes) that the files below a folder use on the disk."""
    blocks = sum(path.lstat().st_blocks for path in folder.rglob("*"))
    return round(blocks * 512 / 2**20, 1)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        python = Path(name) / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", name], check=True)
        say("installing")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, str(ROOT), "-c", str(ROOT / "constraints.txt")], check=True)
        subprocess.run([str(python), "-m", "compileall", "-q", name], check=False)
        packages = next((Path(name) / "lib").glob("python*")) / "site-packages"
        sizes = {folder.name: size_of(folder) for folder in packages.iterdir() if folder.is_dir()}
        largest = sorted(sizes, key=lambda one: -sizes[one])[:8]
        model = size_of(packages / "fencepost" / "models")
        tools = sum(sizes.get(one, 0) for one in ("pip", "setuptools"))
        result = {
            "all_mb": size_of(Path(name)),
            "model_mb": model,
            "pip_and_setuptools_mb": round(tools, 1),
            "largest_mb": {one: sizes[one] for one in largest},
        }
    report({"benchmark": "installation", **machine(), **result})


if __name__ == "__main__":
    main()
