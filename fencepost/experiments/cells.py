"""Cells of a sweep: changed settings, the share of the training data and its boundary noise."""

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
MAX_NAME_BYTES = 200  # maximum length of a folder name; file systems allow 255
_UNSAFE = re.compile(r"[^\w .,=+@%()\[\]{}-]")


@dataclass(frozen=True, slots=True)
class GridCell:
    """Cell of the grid, trained once per seed; `share` and `noise` are None unless they are swept."""

    changes: tuple[str, ...] = ()
    share: float | None = None
    noise: float | None = None

    @property
    def label(self) -> str:
        """Description for the user."""
        share = [] if self.share is None else [f"share={self.share:g}"]
        noise = [] if self.noise is None else [f"boundary-noise={self.noise:g}"]
        return " ".join([*self.changes, *share, *noise]) or UNCHANGED

    @property
    def name(self) -> str:
        """Folder name: the label without characters that a file system may refuse.

        If it differs from the label, it ends with a hash of the label.
        """
        label = self.label
        safe = _UNSAFE.sub("-", label).strip(" .")
        if safe == label and len(safe.encode()) <= MAX_NAME_BYTES:
            return safe
        digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{safe.encode()[: MAX_NAME_BYTES - 10].decode(errors='ignore').strip(' .')} {digest}"

    @property
    def settings(self) -> dict[str, str]:
        """Changed values by key."""
        return {key: value for key, _, value in (change.partition("=") for change in self.changes)}


def make_cells(
    axes: Sequence[str], shares: Sequence[float] = (), noises: Sequence[float] = (), *, option: str = "--grid"
) -> list[GridCell]:
    """Return a cell for each combination of the axes (`method.epsilon=0,0.1`), shares and noises.

    `option` is the name of the option for the axes in error messages.
    """
    values: dict[str, list[str]] = {}
    for axis in axes:
        key, changes = _parse_axis(axis, option)
        if key in values:
            raise UsageError(f"{option} {axis}: {key} is given twice; give all its values at once")
        values[key] = changes
    for share in shares:
        if not 0 < share <= 1:
            raise UsageError(f"--share: give shares above 0 and at most 1, not {share:g}")
    for noise in noises:
        if not 0 <= noise <= 1:
            raise UsageError(f"--boundary-noise: give probabilities between 0 and 1, not {noise:g}")
    combinations = product(
        product(*values.values()), dict.fromkeys(shares) or [None], dict.fromkeys(noises) or [None]
    )
    return [GridCell(changes, share, noise) for changes, share, noise in combinations]


def _parse_axis(text: str, option: str) -> tuple[str, list[str]]:
    """Return the key of `KEY=V,V` and the changes `KEY=V`."""
    key, _, values_text = text.partition("=")
    values = list(dict.fromkeys(value.strip() for value in split_unquoted(values_text, ",")))
    if not all(key.split(".")) or not all(values):
        raise UsageError(f"{option} {text}: write it as KEY=VALUE,VALUE, for example method.epsilon=0,0.1")
    if key == "training.seed":
        raise UsageError(
            f"{option} {text}: give the number of seeds with --seeds, and the first with --set {key}=1"
        )
    for value in values:
        try:
            parse_yaml(value)
        except yaml.YAMLError:
            raise UsageError(f"{option} {text}: the value {value} is not valid YAML") from None
    return key, [f"{key}={value}" for value in values]


def split_unquoted(text: str, separator: str) -> list[str]:
    """Split the text at each separator outside quotes and brackets."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and (depth or parts[-1].strip()[-1:] in ("", "=")):
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == separator and depth <= 0:
            parts.append("")
            continue
        parts[-1] += letter
    return parts


def check_distinct(settings: Mapping[GridCell, Config]) -> None:
    """Raise `UsageError` if two cells are the same, as with `method.epsilon=0.1,0.10`."""
    first: dict[tuple[object, ...], GridCell] = {}
    for cell, config in settings.items():
        other = first.setdefault((cell.share, cell.noise, config.to_yaml()), cell)
        if other != cell:
            raise UsageError(f"the cells {other.label} and {cell.label} are the same; leave out one of them")
    name, count = Counter(cell.name for cell in settings).most_common(1)[0]
    if count > 1:
        raise UsageError(f"{count} cells would have the folder {name}; leave out all but one of them")
