"""The page docs/comparison.md, made from the results."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common import ROOT, list_commits, percent, summarise
from benchmarks.peers.tools import TOOLS, select_standard

PAGE = ROOT / "docs" / "comparison.md"
WORKERS = Path(__file__).parent / "workers"
OURS = "fencepost"
TITLES = {
    "wnut17": "WNUT17: flat names in tweets and forum posts",
    "gum-named": "GUM: flat names in texts of 15 genres",
    "genia": "GENIA: nested entities",
}
NOTES = {
    "wnut17": "",
    "gum-named": "Of nested names, only the outermost ones are used.",
    "genia": "Tools that cannot represent nested entities were trained on the outermost ones; all entities "
    "are scored. The development sentences are held out from the training data.",
}

Line = Mapping[str, Any]

INTRODUCTION = """\
<!-- Made by `python -m benchmarks.peers --page`; do not edit. -->
# Comparison with other tools

Is Fencepost better than what you use? Each tool below trained the same encoder (MiniLM, 22 million weights)
on the same sentences, for the same number of epochs, with the same batch size, an encoder learning rate of
1e-4 and one thread of the same processor, and predicted the same test sentences from their words. The best
epoch was chosen on the same development sentences (SpanMarker: the last epoch, because its evaluation needs
a download; it pads all sentences to one length, here 128 sub-words, which fewer than 1 % exceed). Everything
else is the default of the tool, except that tools which enumerate spans get all lengths that 99 % of the
training entities have. `fencepost evaluate` scores all of them: start, end and type must be right.

The measurements are repeated and extended by `python -m benchmarks.peers`, which installs each tool in an
environment of its own; its results are in `benchmarks/results/peers.jsonl`. F1 is the mean and standard
deviation over the seeds. ECE is the expected calibration error of the confidences of predicted entities.
Training includes the evaluation after each epoch. Times are CPU times of a machine with two cores, on which
two to four programs ran at a time, not always the same: differences of a fifth say nothing; those of another
day, on another machine, are left out. The F1 of one tool with one seed differs between two machines, too, by
more than a point. The learning rate was not tuned for any tool. With one seed, a difference of one or two
points of F1 says little, and longer entities are few (141 in the test data of WNUT17).
"""

GLINER = """\
**GLiNER** is not in the tables: its weights cannot be downloaded where these figures were measured. Its
authors publish, for a model of 0.3 billion weights that was not trained on the corpora, a mean F1 of 60.9 on
CrossNER and MIT ([paper](https://arxiv.org/abs/2311.08526)). It needs no training data, and no tool in the
tables can do that; those learn your own types from your own annotations.
"""


def make_page(lines: Sequence[Line]) -> str:
    """Return the page: a table for each corpus that has results with the default settings."""
    lines = select_standard(lines)
    parts = [INTRODUCTION]
    for corpus, title in TITLES.items():
        of_corpus = [line for line in lines if line["corpus"] == corpus]
        if of_corpus:
            parts.append(describe_corpus(title, NOTES[corpus], of_corpus))
    parts += [
        "## Not measured here\n",
        *name_missing(lines),
        GLINER,
        "## Installation and effort\n",
        describe_effort(lines),
    ]
    return "\n".join(parts)


def name_missing(lines: Sequence[Line]) -> list[str]:
    """Return a sentence about the tools that have no results; nothing if all have some."""
    titles = [tool.title for name, tool in TOOLS.items() if all(line["tool"] != name for line in lines)]
    text = f"**{', '.join(titles)}**: the script can run them, but there are no results yet.\n"
    return [text] if titles else []


def describe_corpus(title: str, note: str, lines: Sequence[Line]) -> str:
    counts = lines[0]["counts"]
    means = {tool: summarise_tool(lines, tool) for tool in TOOLS if any(one["tool"] == tool for one in lines)}
    data = (
        f"{counts['train']:,} training, {counts['dev']} development and {counts['test']:,} test sentences, "
        f"{lines[0]['epochs']} epochs, batches of {lines[0]['batch_size']}. {note}"
    ).strip()
    header = [
        *("tool", "seeds", "precision", "recall", "F1", "F1 of 3 or more words", "ECE"),
        *("CPU minutes of training", "predicted sentences a second", "peak memory, MB", "commit"),
    ]
    rows = [
        [
            TOOLS[tool].title,
            str(row["seeds"]),
            *(percent(row[name]) for name in ("precision", "recall", "f1", "f1_3+")),
            "none" if row["ece"] is None else f"{row['ece']['mean']:.3f}",
            format_mean(row["minutes"], 1),
            format_mean(row["rate"]),
            f"{row['peak_mb']['mean']:,.0f}",
            list_commits(line for line in lines if line["tool"] == tool),
        ]
        for tool, row in means.items()
    ]
    texts = [
        f"## {title}\n",
        data,
        "",
        format_table(header, rows),
        "",
        name_losses(means),
        compare_seqeval(lines),
    ]
    return "\n".join(text for text in texts if text is not None)


def compare_seqeval(lines: Sequence[Line]) -> str | None:
    """Return how far seqeval's F1 is from ours; None for nested data, which it cannot score."""
    differences = [abs(line["f1"] - line["seqeval_f1"]) for line in lines if line["seqeval_f1"] is not None]
    if not differences:
        return None
    largest = 100 * max(differences)
    return (
        f"seqeval's F1 differs from ours by at most {largest:.2f} points in these runs; of entities that "
        "overlap, it scores the longest.\n"
    )


def summarise_tool(lines: Sequence[Line], tool: str) -> dict[str, Any]:
    """Return the number of seeds, and mean and standard deviation of each figure."""
    own = [line for line in lines if line["tool"] == tool]
    rows = [
        {
            **{name: line[name] for name in ("precision", "recall", "f1", "ece", "peak_mb")},
            "f1_3+": line["by_length"]["3+"]["f1"],
            **measure_speed(line, max(str(line.get("date", "")) for line in lines)),
        }
        for line in own
    ]
    return {"seeds": len(own), **summarise(rows)}


def measure_speed(line: Line, date: str) -> dict[str, float | None]:
    """Return the minutes of training and the predicted sentences a second; None if of another day.

    Another day may have been on another machine, whose times cannot be compared.
    """
    if line.get("date", "") != date:
        return {"minutes": None, "rate": None}
    return {
        "minutes": line["training"]["cpu_seconds"] / 60,
        "rate": line["counts"]["test"] / line["prediction"]["cpu_seconds"],
    }


def format_mean(summary: Mapping[str, Any] | None, digits: int = 0) -> str:
    """Return the mean of a summary, or nothing where there is none."""
    return "" if summary is None else f"{summary['mean']:.{digits}f}"


FIGURES = {
    "precision": ("precision", True),
    "recall": ("recall", True),
    "f1": ("F1", True),
    "f1_3+": ("F1 of 3 or more words", True),
    "ece": ("ECE", False),
    "minutes": ("time of training", False),
    "rate": ("speed of prediction", True),
    "peak_mb": ("memory", False),
}
"""What a figure is called, and whether more of it is better."""


def name_losses(means: Mapping[str, Mapping[str, Any]]) -> str:
    """Return where a tool has a better figure than Fencepost, tool by tool."""
    if means.keys() <= {OURS} or OURS not in means:
        return ""
    sentences = []
    for tool, row in means.items():
        better = [
            name
            for key, (name, more) in FIGURES.items()
            if tool != OURS and row[key] is not None and means[OURS][key] is not None
            if (row[key]["mean"] > means[OURS][key]["mean"]) == more
            and row[key]["mean"] != means[OURS][key]["mean"]
        ]
        if better:
            sentences.append(f"{TOOLS[tool].title}: {', '.join(better)}")
    if not sentences:
        return "No tool has a better figure than Fencepost in this table.\n"
    return f"Better than Fencepost in this table: {'; '.join(sentences)}.\n"


def describe_effort(lines: Sequence[Line]) -> str:
    """Return a table of the size of the installations and of the length of the programs."""
    header = ["tool", "installed for training, MB", "lines of the program", "nested entities", "confidences"]
    rows = []
    for name, tool in TOOLS.items():
        sizes = [line["installed_mb"] for line in lines if line["tool"] == name]
        if sizes:
            rows.append(
                [
                    tool.title,
                    f"{mean(sizes):,.0f}",
                    str(count_lines(WORKERS / f"{tool.worker}.py")),
                    "yes" if tool.nested else "no",
                    "yes" if tool.confidences else "no",
                ]
            )
    text = (
        "The program is the one in `benchmarks/peers/workers/` that trains the tool on lists of words and\n"
        "predicts, without comments; to train from a file, Fencepost needs one command. An installation of\n"
        "Fencepost that only predicts has no PyTorch: see [speed and memory](speed.md)."
    )
    return f"{text}\n\n{format_table(header, rows)}\n"


def count_lines(path: Path) -> int:
    """Return the number of lines of code, without comments and docstrings, one for each statement."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
