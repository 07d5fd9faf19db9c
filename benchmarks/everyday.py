"""How many names a model finds in 60 everyday texts, and how many of its entities are not names.

    python -m benchmarks.everyday [MODEL] [--language de]

`everyday.jsonl` has the names that a careful reader expects (`names`), and those that are not wrong either
(`optional`: names inside names, other boundaries). It was written before the model was trained, and is not
used to choose anything. `--language` takes the German, Russian or Chinese sentences of
`other_languages.jsonl` instead. Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import machine, report, say

if TYPE_CHECKING:
    from fencepost import Recogniser

TEXTS = Path(__file__).with_suffix(".jsonl")
OTHER_LANGUAGES = TEXTS.with_name("other_languages.jsonl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--language", choices=("de", "ru", "zh"))
    arguments = parser.parse_args()
    import fencepost

    rows = read_texts(OTHER_LANGUAGES if arguments.language else TEXTS)
    texts = [row for row in rows if row.get("language") == arguments.language]
    result = score_everyday(fencepost.load(arguments.model), texts)
    for line in result.pop("lines"):
        say(line)
    report({"benchmark": "everyday", **machine(), **result})


def read_texts(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def score_everyday(ner: Recogniser, texts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the shares of expected names and of wrong output, and a line about each text with an error."""
    counts = dict.fromkeys(("names", "right_boundaries", "right", "output", "wrong_boundaries", "no_name"), 0)
    lines = []
    for row in texts:
        expected = {(name["start"], name["end"]): name["type"] for name in row["names"]}
        known = {*expected, *((name["start"], name["end"]) for name in row["optional"])}
        output = {(entity.start, entity.end): entity.type for entity in ner(row["text"])}
        missing = [span for span in expected if span not in output]
        other = [span for span in output if span not in known]
        no_name = [one for one in other if not any(one[0] < end and start < one[1] for start, end in known)]
        counts["names"] += len(expected)
        counts["right_boundaries"] += len(expected) - len(missing)
        counts["right"] += sum(output.get(span) == type_ for span, type_ in expected.items())
        counts["output"] += len(output)
        counts["wrong_boundaries"] += len(other) - len(no_name)
        counts["no_name"] += len(no_name)
        if missing or other:
            text = row["text"]
            lines.append(
                f"{text}\n  missing: {[text[slice(*span)] for span in missing]}, "
                f"other: {[text[slice(*span)] for span in other]}"
            )
    return {
        **counts,
        "found": counts["right_boundaries"] / counts["names"],
        "found_with_type": counts["right"] / counts["names"],
        "share_no_name": counts["no_name"] / max(1, counts["output"]),
        "share_wrong_boundaries": counts["wrong_boundaries"] / max(1, counts["output"]),
        "lines": lines,
    }


if __name__ == "__main__":
    main()
