"""Read the header of a WebAnno TSV file: its version, its layers, and which of them has the entities.

A header has the line `#FORMAT=WebAnno TSV 3.3` and a line for each layer, such as `#T_SP=custom.Span|value`:
SP for spans, CH for coreference chains, RL for relations, then the features, each of which is a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from fencepost.data.source import Line, Source
from fencepost.errors import DataError, quote, shorten

NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
FIRST_COLUMN = 3  # after the position, the offsets and the word
OTHER_FEATURE = "feature of the entities' layer other than the one that is read"
NO_ENTITIES = "no layer with entities (a layer without annotations is not exported)"
_BUILT_IN = "de.tudarmstadt.ukp.dkpro.core.api."  # package of parts of speech, lemmas and others
_FORMAT = re.compile(r"#FORMAT=WebAnno TSV (\S+)\s*")
_LAYER = re.compile(r"#T_(SP|CH|RL)=([^|]+)(?:\|(.*))?")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer; `kind` is SP, CH or RL, `column` the index of its first feature among the fields of a line."""

    kind: str
    name: str
    features: tuple[str, ...]
    column: int

    @property
    def values(self) -> list[str]:
        """Features with a value; roles and the types of their targets have none."""
        return [one for one in self.features if one and not one.startswith("ROLE_") and "." not in one]

    def is_called(self, key: str, feature: str) -> bool:
        """Return whether `key` names the layer, or this feature of it, with or without the package."""
        short = self.name.rpartition(".")[2]
        return key in (self.name, short, f"{self.name}.{feature}", f"{short}.{feature}")


@dataclass(frozen=True, slots=True)
class Header:
    """The header: version, layers, and the layer and column of the entities."""

    version: str
    layers: tuple[Layer, ...]
    width: int  # number of fields of a line
    entities: Layer | None = None  # the layer of the entities
    column: int = 0  # index of their types among the fields of a line


def read_header(lines: Iterator[Line], source: Source, key: str | None) -> tuple[Header, Iterator[Line]]:
    """Return the header and the lines after it; `key` names the layer or feature with the entities."""
    first = next(lines, Line(1, ""))
    version = _FORMAT.fullmatch(first.text)
    if version is None or version[1] not in ("3.1", "3.2", "3.3"):
        reason = "the first line must be #FORMAT=WebAnno TSV 3.1, 3.2 or 3.3"
        raise DataError(f"{reason}, not {quote(first.text)}", source=source.name, line=1)
    layers: list[Layer] = []
    column = FIRST_COLUMN
    for line in lines:
        match = _LAYER.fullmatch(line.text.rstrip())
        if match is None:
            if line.text.startswith("#T_") or line.problem:
                reason = line.problem or f"not the declaration of a layer: {quote(line.text)}"
                raise DataError(reason, source=source.name, line=line.number)
            lines = chain([line], lines)
            break
        features = [one for one in (match[3] or "").split("|") if one]
        layers.append(Layer(match[1], match[2], tuple(features or [""]), column))
        column += len(layers[-1].features)
    choice = _choose(layers, key, source)
    if choice is None:
        source.note(NO_ENTITIES, example=_list_layers(layers))
        return Header(version[1], tuple(layers), column), lines
    layer, feature = choice
    for other in layer.values:
        if other != feature:
            source.note(OTHER_FEATURE, example=f"{layer.name}.{other}")
    place = layer.column + layer.features.index(feature)
    return Header(version[1], tuple(layers), column, layer, place), lines


def _choose(layers: list[Layer], key: str | None, source: Source) -> tuple[Layer, str] | None:
    """Return the layer and the feature with the types of the entities; None if no layer can have any."""
    spans = [layer for layer in layers if layer.kind == "SP"]
    if key is not None:
        matches = [(layer, one) for layer in spans for one in layer.values if layer.is_called(key, one)]
    else:
        named = [layer for layer in spans if "NamedEntity" in layer.name]
        custom = [layer for layer in spans if not layer.name.startswith(_BUILT_IN)]
        matches = [(layer, one) for layer in named or custom for one in layer.values]
        if not (named or custom):
            return None
    if len(matches) > 1 and len({id(layer) for layer, _ in matches}) == 1:
        matches = [(layer, one) for layer, one in matches if one == "value"]
    if len(matches) == 1:
        return matches[0]
    reason = "the header does not show which layer has the entities"
    if key is not None:
        reason = f"{quote(key)} is not the name of one span layer and feature"
    raise DataError(
        f"{reason}; name it with --spans-key as LAYER or LAYER.FEATURE; there are: {_list_layers(spans)}",
        source=source.name,
        line=1,
    )


def _list_layers(layers: Iterable[Layer]) -> str:
    texts = (f"{layer.name} ({', '.join(layer.values) or 'no features'})" for layer in layers)
    return shorten("; ".join(texts), 600) or "none"
