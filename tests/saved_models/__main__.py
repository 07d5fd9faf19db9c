"""Write the models of this version."""

from pathlib import Path

import fencepost
from fencepost.methods.registry import METHODS
from tests.runtime import models

FOLDER = Path(__file__).parent


def main() -> None:
    for name in sorted(METHODS):
        folder = models.saved(models.random_model(name), FOLDER / fencepost.__version__ / name)
        predicted = fencepost.load(folder, engine="pytorch").predict(models.sentences())
        fencepost.write(predicted, folder / "expected.jsonl")


if __name__ == "__main__":
    main()
