"""What texts cost that are made to be expensive, against prose of the same length.

    python -m benchmarks.hostile_text [MODEL] [--characters 10000]

Seconds are those of the processor. A ratio is that to prose of as many characters; `words_ratio` is how many
more words the text has, and `per_word` what is left of the ratio when these are taken into account.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import fencepost
from benchmarks.common import machine, report, say
from fencepost.data import read

_PATTERNS = {"a-": "a-", "(": "(", "'": "'", "a": "a ", "paragraphs": "a\n\n", "one run": "x"}


def cost(recogniser: fencepost.Recogniser, text: str, runs: int) -> float:
    """Return the seconds of the fastest run."""
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        recogniser(text)
        seconds.append(time.process_time() - start)
    return min(seconds)


def count_words(recogniser: fencepost.Recogniser, text: str) -> int:
    return sum(prepared.size for prepared in recogniser.prepare(text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a model's folder; unless set, the one that ships")
    parser.add_argument("--characters", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    recogniser = fencepost.load(arguments.model)
    prose = " ".join(sentence.text for part in ("train", "dev") for sentence in read(f"sample:{part}"))
    length = arguments.characters
    texts = {name: (pattern * length)[:length] for name, pattern in _PATTERNS.items()}
    recogniser(prose[:1000])
    prose = (prose * (length // len(prose) + 1))[:length]
    base, words = cost(recogniser, prose, arguments.runs), count_words(recogniser, prose)
    result: dict[str, Any] = {}
    for name, text in texts.items():
        say(name)
        seconds, ratio = cost(recogniser, text, arguments.runs), count_words(recogniser, text) / words
        result[name] = {
            "seconds": round(seconds, 3),
            "ratio": round(seconds / base, 2),
            "words_ratio": round(ratio, 2),
            "per_word": round(seconds / base / ratio, 2),
        }
    report({**machine(), "characters": length, "prose_seconds": round(base, 3), "texts": result})


if __name__ == "__main__":
    main()
