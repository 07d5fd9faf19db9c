"""Install the built wheel into a new environment, outside of the checkout, and use it as a stranger would.

    python tools/smoke_test.py DIST

`DIST` has the wheels of Fencepost and of its further models, and the source distribution of Fencepost, as
`make package` builds them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

MOST_BYTES = 40_000_000
TEXT = "Ada Lovelace was born in London."
PROGRAM = f"""
import sys
import fencepost
assert sys.prefix in fencepost.__file__, fencepost.__file__
document = fencepost.load()({TEXT!r})
assert ("Ada Lovelace", "person") in [(entity.text, entity.label) for entity in document], document
assert "torch" not in sys.modules
"""
MENTIONS = """
import fencepost
document = fencepost.load("mentions")("She was born in London.")
assert ("She", "person") in [(entity.text, entity.label) for entity in document], document
"""


def main() -> None:
    """Fail with an error if the wheel is too large or does not work."""
    dist = Path(sys.argv[1]).resolve()
    [wheel], [source] = dist.glob("fencepost-*.whl"), dist.glob("*.tar.gz")
    [models] = dist.glob("fencepost_models-*.whl")
    for file in (wheel, source, models):
        if file.stat().st_size > MOST_BYTES:
            sys.exit(f"{file.name} has {file.stat().st_size:,} bytes; at most {MOST_BYTES:,} are allowed")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    missing = {"pyproject.toml", "README.md", "LICENSE", "fencepost/py.typed", "tests/conftest.py"} - names
    if missing:
        sys.exit(f"{source.name} does not have {', '.join(sorted(missing))}")
    constraints = Path(__file__).resolve().parent.parent / "constraints.txt"
    with tempfile.TemporaryDirectory() as folder:
        run(folder, sys.executable, "-m", "venv", "environment")
        binaries = Path(folder) / "environment" / "bin"
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
        run(folder, str(binaries / "python"), *install, "--constraint", str(constraints), str(wheel))
        run(folder, str(binaries / "python"), "-c", PROGRAM)
        fencepost = str(binaries / "fencepost")
        run(folder, fencepost, "--version")
        line = run(folder, fencepost, "predict", TEXT, "--output", "-")
        record = json.loads(line)
        if record["text"] != TEXT or not record["entities"]:
            sys.exit(f"fencepost predict printed {line}")
        run(folder, str(binaries / "python"), *install, "--no-deps", str(models))
        run(folder, str(binaries / "python"), "-c", MENTIONS)
        run(folder, fencepost, "convert", "sample:test", "test.jsonl")
        run(folder, fencepost, "evaluate", "--gold", "sample:test", "--predicted", "test.jsonl")
    print(f"{wheel.name} ({wheel.stat().st_size:,} bytes) installs and works")


def run(folder: str, *command: str) -> str:
    """Run a command in a folder without the checkout on its path; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    print("+", Path(command[0]).name, *(part for part in command[1:] if "\n" not in part), flush=True)
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
