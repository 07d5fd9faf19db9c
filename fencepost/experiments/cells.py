"""The cells of a sweep: settings that change, the share of the training data, the noise in it."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import yaml

from fencepost.config import Config
from fencepost.errors import UsageError
from fencepost.settings import parse_yaml

UNCHANGED = "as it is"
LONGEST = 200  # bytes in the name of a folder; file systems take 255
_UNSAFE = re.compile(r"[^\w .,=+@%()\[\]{}-]")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of the grid, trained once for each seed; `share` and `noise` are None unless they are swept."""

    changes: tuple[str, ...] = ()
    share: float | None = None
    noise: float | None = None

    @property
    def label(self) -> str:
        """A description for the user."""
        share = [] if self.share is None else [f"share={self.share:g}"]
        noise = [] if self.noise is None else [f"boundary-noise={self.noise:g}"]
        return " ".join([*self.changes, *share, *noise]) or UNCHANGED

    @property
    def name(self) -> str:
        """The label as the name of a folder, without characters that a file system may refuse.

        A name that differs from the label ends with a hash of it.
        """
        label = self.label
        safe = _UNSAFE.sub("-", label).strip(" .")
        if safe == label and len(safe.encode()) <= LONGEST:
            return safe
        digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{safe.encode()[: LONGEST - 10].decode(errors='ignore').strip(' .')} {digest}"

    @property
    def settings(self) -> dict[str, str]:
        """The changed values by key."""
        return {key: value for key, _, value in (change.partition("=") for change in self.changes)}


def cells_of(
    axes: Sequence[str],
    shares: Sequence[float] = (),
    noises: Sequence[float] = (),
    *,
    option: str = "--grid",
) -> list[Cell]:
    """Return all combinations of the values of the axes (`method.epsilon=0,0.1`), shares and noises.

    `option` is the option of the axes, for error messages.
    """
    values: dict[str, list[str]] = {}
    for axis in axes:
        key, changes = _axis(axis, option)
        if key in values:
            raise UsageError(f"{option} {axis}: {key} is there already; give all its values at once")
        values[key] = changes
    for share in shares:
        if not 0 < share <= 1:
            raise UsageError(f"--share: a share is above 0 and at most 1, not {share:g}")
    for noise in noises:
        if not 0 <= noise <= 1:
            raise UsageError(f"--boundary-noise: a probability is between 0 and 1, not {noise:g}")
    every = product(
        product(*values.values()), dict.fromkeys(shares) or [None], dict.fromkeys(noises) or [None]
    )
    return [Cell(changes, share, noise) for changes, share, noise in every]


def _axis(text: str, option: str) -> tuple[str, list[str]]:
    """Return the key of `KEY=V,V`, and the changes `KEY=V`."""
    key, _, listed = text.partition("=")
    values = list(dict.fromkeys(value.strip() for value in split(listed, ",")))
    if not all(key.split(".")) or not all(values):
        raise UsageError(f"{option} {text}: write it as KEY=VALUE,VALUE, for example method.epsilon=0,0.1")
    if key == "training.seed":
        raise UsageError(
            f"{option} {text}: give the number of seeds with --seeds, the first with --set {key}=1"
        )
    for value in values:
        try:
            parse_yaml(value)
        except yaml.YAMLError:
            raise UsageError(f"{option} {text}: the value {value} is not valid YAML") from None
    return key, [f"{key}={value}" for value in values]


def split(text: str, separator: str) -> list[str]:
    """Split the text at each separator that is neither quoted nor inside brackets."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and (depth or pieces[-1].strip()[-1:] in ("", "=")):
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == separator and depth <= 0:
            pieces.append("")
            continue
        pieces[-1] += letter
    return pieces


def check_distinct(settings: Mapping[Cell, Config]) -> None:
    """Raise `UsageError` if two cells are the same training, as with `method.epsilon=0.1,0.10`."""
    first: dict[tuple[object, ...], Cell] = {}
    for cell, config in settings.items():
        other = first.setdefault((cell.share, cell.noise, config.to_yaml()), cell)
        if other != cell:
            raise UsageError(f"the cells {other.label} and {cell.label} are the same; leave out one of them")
    name, count = Counter(cell.name for cell in settings).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{count} cells would be called {name}; leave out all but one of them")
