"""Sentences and entities of hard-wrapped text, against those of the same text without line breaks.

    python -m benchmarks.line_breaks [MODEL] [--entities]

Documents of GUM's test part become paragraphs of 1, 5 and all sentences, wrapped at several widths. Reported
are, for each value of `text.lines`, the shares of the original sentences that are the same; and, with
`--entities`, of the original entities of the model that are found again.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import fencepost
from benchmarks.common import corpora, machine, report, say
from fencepost.data import read
from fencepost.data.text import make_splitter
from fencepost.data.text.lines import Lines

_MODES: tuple[Lines, ...] = ("auto", "join", "break")
_WIDTHS = (60, 72, 80, 100)


def paragraphs(path: str, size: int) -> Iterator[str]:
    """Yield the texts of paragraphs of this number of sentences, without line breaks; 0 is all."""
    for _, document in groupby(read(path), key=lambda sentence: sentence.doc):
        texts = [" ".join(sentence.text.split()) for sentence in document]
        for start in range(0, len(texts), size or len(texts)):
            yield " ".join(texts[start : start + (size or len(texts))])


def wrap(text: str, width: int) -> str:
    """Return the text with line breaks in place of some spaces."""
    wrapped = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    assert wrapped.replace("\n", " ") == text
    return wrapped


def share(predicted: list[set[Any]], original: list[set[Any]]) -> float:
    common = sum(len(one & other) for one, other in zip(predicted, original, strict=True))
    return round(common / sum(map(len, original)), 4)


def split(texts: list[str], mode: Lines) -> list[set[tuple[int, int]]]:
    splitter = make_splitter("en", lines=mode)
    return [{(words[0][0], words[-1][1]) for words in splitter.sentences(text)} for text in texts]


def find(texts: list[str], model: str | None, mode: Lines) -> list[set[tuple[int, int, str]]]:
    recogniser = fencepost.load(model, lines=mode)
    return [{(one.start, one.end, one.type) for one in spans} for spans in recogniser.pipe(texts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a model's folder; unless set, the one that ships")
    parser.add_argument("--entities", action="store_true", help="compare entities too, wrapped at 72")
    arguments = parser.parse_args()
    folder = corpora()
    if folder is None:
        sys.exit("the corpora are absent: set FENCEPOST_DATA")
    path = str(folder / "gum" / "test.jsonl")
    result: dict[str, Any] = {"sentences": {}, "entities": {}}
    for size in (1, 5, 0):
        texts = list(paragraphs(path, size))
        name = f"{size or 'all'} a paragraph"
        say(name)
        original = split(texts, "join")
        result["sentences"][name] = {
            width: {
                mode: share(split([wrap(one, width) for one in texts], mode), original) for mode in _MODES
            }
            for width in _WIDTHS
        }
        if arguments.entities:
            expected = find(texts, arguments.model, "join")
            wrapped = [wrap(one, 72) for one in texts]
            result["entities"][name] = {
                mode: share(find(wrapped, arguments.model, mode), expected) for mode in _MODES
            }
    report({**machine(), **result})


if __name__ == "__main__":
    main()
