"""Write the tables of the documentation that are made from `benchmarks/results/`.

    python -m benchmarks.tables [--check]

A table stands in a page between `<!-- table: NAME -->` and `<!-- end of table -->`, and is replaced there.
With `--check`, nothing is written, and the exit code is 1 if a table is not that of the results. Prints one
JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from benchmarks.common import RESULTS, ROOT, list_commits, percent, read_lines, report, summarise
from benchmarks.peers.page import TITLES, format_mean, format_table, summarise_tool
from benchmarks.peers.tools import TOOLS, select_standard
from benchmarks.quality import MINILM
from benchmarks.speed_tables import TABLES as SPEED_TABLES

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?<=^<!-- table: )([\w-]+)( -->\n)(.*?)(?=^<!-- end of table -->$)", re.DOTALL | re.MULTILINE
)
CORPUS_TITLES = {
    "genia": "GENIA",
    "gum": "GUM",
    "gum-named": "GUM, names",
    "wnut17": "WNUT17",
    "weibo": "Weibo",
    "resume": "Resume",
}

TEACHERS = {"bge": "`bge-small-en-v1.5`", "combination": "the four methods, combined"}

Line = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    outdated = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        current = BLOCK.sub(lambda block: f"{block[1]}{block[2]}{TABLES[block[1]]()}\n", text)
        if current != text:
            outdated.append(str(page.relative_to(ROOT)))
            if not arguments.check:
                page.write_text(current, encoding="utf-8")
    report({"benchmark": "tables", "outdated" if arguments.check else "written": outdated})
    if arguments.check and outdated:
        sys.exit(1)


def read_results(name: str) -> list[dict[str, Any]]:
    return read_lines(RESULTS / f"{name}.jsonl")


def group(lines: Iterable[Line], get_key: Callable[[Line], Hashable]) -> dict[Any, list[Line]]:
    """Return the lines by their key, in the order of the first of each; of one seed, the last line counts."""
    groups: dict[Any, dict[int, Line]] = {}
    for line in lines:
        groups.setdefault(get_key(line), {})[line["seed"]] = line
    return {key: list(by_seed.values()) for key, by_seed in groups.items()}


def summarise_scores(lines: Sequence[Line]) -> dict[str, Any]:
    """Return mean and standard deviation of the scores, and of the CPU minutes."""
    rows = [
        {
            **{name: line[name] for name in ("precision", "recall", "f1", "ece")},
            "f1_3+": line["by_length"]["3+"]["f1"],
            "minutes": line["cpu_seconds"] / 60,
        }
        for line in lines
    ]
    result: dict[str, Any] = summarise(rows)
    return result


def make_quality_table() -> str:
    """Return the scores of `benchmarks.quality`: those of the newest commit of each run."""
    runs: dict[Any, list[Line]] = {}
    for line in read_results("quality"):
        key = line["corpus"], line["method"], line["encoder"], tuple(line["settings"])
        if line["sentences"] is None and line["dev_share"] is None:
            runs.setdefault(key, []).append(line)
    rows = []
    for (corpus, method, encoder, settings), of_run in runs.items():
        newest = [line for line in of_run if line["commit"] == of_run[-1]["commit"]]
        lines = next(iter(group(newest, lambda _: 0).values()))
        scores = summarise_scores(lines)
        rows.append(
            [
                CORPUS_TITLES[corpus],
                f"`{method}`",
                encoder,
                ", ".join(setting.removeprefix("training.epochs=") for setting in settings),
                str(len(lines)),
                *(percent(scores[name]) for name in ("precision", "recall", "f1", "f1_3+")),
                f"{scores['ece']['mean']:.3f}",
                f"{scores['minutes']['mean']:.0f}",
                list_commits(lines),
            ]
        )
    header = [
        *("corpus", "method", "encoder", "epochs", "seeds", "precision", "recall", "F1"),
        *("F1 of 3 or more words", "ECE", "CPU minutes", "commit"),
    ]
    return format_table(header, rows)


def make_adapt_table() -> str:
    """Return F1 with and without adaptation, by the number of annotated sentences."""
    groups = group(read_results("adapt"), lambda line: (line["sentences"], line["encoder"]))
    rows = []
    for (sentences, encoder), lines in groups.items():
        scores = summarise_scores(lines)
        count = "all (1,765)" if sentences is None else f"{sentences:,}"
        title = "MiniLM" if encoder == "minilm" else "MiniLM, adapted"
        f1, longer = percent(scores["f1"]), percent(scores["f1_3+"])
        rows.append([count, title, str(len(lines)), f1, longer, list_commits(lines)])
    header = ["annotated sentences", "encoder", "seeds", "F1", "F1 of 3 or more words", "commit"]
    return format_table(header, rows)


def make_distil_table() -> str:
    """Return F1 of the baseline, of the teachers and of their students."""
    lines = read_results("distil")
    groups = {
        "MiniLM, annotations alone": [
            line for line in lines if line["student"] is None and line["encoder"] == MINILM
        ]
    }
    for line in lines:
        if line["student"] is not None:
            teacher, _, layers = line["student"].rpartition("-")
            scores = {**line["teacher"], **{name: line[name] for name in ("seed", "commit", "date")}}
            groups.setdefault(f"teacher: {TEACHERS[teacher]}", []).append(scores)
            groups.setdefault(f"student of {TEACHERS[teacher]}: MiniLM, {layers} layers", []).append(line)
    rows = []
    for title, of_title in groups.items():
        by_seed = list({line["seed"]: line for line in of_title}.values())
        scores = summarise([{name: line[name] for name in ("f1", "ece")} for line in by_seed])
        longer = summarise([line["by_length"]["3+"]["f1"] for line in by_seed])
        times = [line["prediction_time"] for line in by_seed if "prediction_time" in line]
        time = f"{summarise(times)['mean']:.2f}" if times else "1.00" if title.startswith("MiniLM") else ""
        rows.append(
            [
                *(title, str(len(by_seed)), percent(scores["f1"]), percent(longer)),
                *(f"{scores['ece']['mean']:.3f}", time, list_commits(by_seed)),
            ]
        )
    header = ["model", "seeds", "F1", "F1 of 3 or more words", "ECE", "time of prediction", "commit"]
    return format_table(header, rows)


def make_more_table() -> str:
    """Return what each step towards a better model needs, costs and brings."""
    runs = [line for line in read_results("consensus") if line["corpus"] == "genia"]
    best = summarise([max(one["f1"] for one in line["members"].values()) for line in runs])
    combination = summarise([line["combinations"]["fitted"]["f1"] for line in runs])
    encoders = group(read_results("adapt"), lambda line: (line["sentences"], line["encoder"] == MINILM))
    plain, own = (summarise([line["f1"] for line in encoders[200, is_plain]]) for is_plain in (True, False))
    students = group(read_results("distil"), lambda line: (line["student"], line.get("encoder")))
    alone, student, small = (
        summarise([line["f1"] for line in students[key]])
        for key in ((None, MINILM), ("bge-6", None), ("bge-3", None))
    )
    rows = [
        [
            *("[combine several models](#combine-models)", "several models to train", "`fencepost combine`"),
            "the sum of their training times and of the prediction times",
            f"{percent(best)} with the best member, {percent(combination)} with all four",
        ],
        [
            *("[adapt the encoder](#adapt-the-encoder)", "raw text of your domain", "`fencepost adapt`"),
            "one more training, without annotations; prediction as fast as before",
            f"{percent(plain)} to {percent(own)} with 200 annotated sentences",
        ],
        [
            *("[distil a model](#distil-a-model)", "raw text of your domain, and a better model"),
            "`fencepost distil`",
            "the training of the teacher, and one on more sentences; prediction as fast as before, or faster",
            f"{percent(alone)} to {percent(student)}, with half of the layers {percent(small)}",
        ],
    ]
    return format_table(["step", "needs", "command", "what it costs", "F1"], rows)


COMBINATIONS = {
    "fitted": "combination",
    "equal weights": "combination without development data, equal weights",
}


def make_consensus_table() -> str:
    """Return the scores of one model of each method, and of their combinations, on GENIA."""
    lines = next(iter(group(read_results("consensus"), lambda line: line["corpus"]).values()))
    models = {
        **{f"`{name}`": [line["members"][name] for line in lines] for name in lines[0]["members"]},
        **{
            title: [line["combinations"][name] for line in lines]
            for name, title in COMBINATIONS.items()
            if name in lines[0]["combinations"]
        },
    }
    rows = []
    for title, of_model in models.items():
        scores = summarise(
            [{key: one[key] for key in ("precision", "recall", "f1", "ece")} for one in of_model]
        )
        numbers = [percent(scores[name]) for name in ("precision", "recall", "f1")]
        ece = f"{scores['ece']['mean']:.3f}"
        rows.append([title, str(len(lines)), *numbers, ece, list_commits(lines)])
    return format_table(["model", "seeds", "precision", "recall", "F1", "ECE", "commit"], rows)


def make_suggest_table() -> str:
    """Return F1 by number of annotated sentences, selected or random, and what was annotated."""
    groups = group(
        read_results("suggest"), lambda line: (line["corpus"], line["sentences"], line["strategy"])
    )
    rows = []
    for corpus, sentences, strategy in sorted(groups):
        lines = groups[corpus, sentences, strategy]
        mean = summarise([{name: line[name] for name in ("f1", "words", "entities")} for line in lines])
        rows.append(
            [
                *(CORPUS_TITLES[corpus], f"{sentences:,}", "random" if strategy == "start" else strategy),
                *(str(len(lines)), percent(mean["f1"])),
                *(f"{mean[name]['mean']:,.0f}" for name in ("words", "entities")),
                list_commits(lines),
            ]
        )
    header = ["corpus", "sentences", "selection", "seeds", "F1", "words", "entities", "commit"]
    return format_table(header, rows)


def make_audit_table() -> str:
    """Return how many errors are found by the audit and by simpler rankings."""
    measures = ("precision_at_100", "precision_at_500", "recall", "average_precision")
    titles = {
        "audit": "`fencepost audit`",
        "audit, by confidence": "the same suggestions, by confidence",
        "one model, by confidence": "one model trained on the same sentences, by confidence",
        "random order": "the suggestions of the audit, in random order",
    }
    rows = []
    for corpus, lines in group(read_results("audit"), lambda line: line["corpus"]).items():
        for ranking, title in titles.items():
            of_ranking = [line["rankings"][ranking] for line in lines]
            mean = summarise([{name: one[name] for name in ("suggestions", *measures)} for one in of_ranking])
            rows.append(
                [
                    *(CORPUS_TITLES[corpus], title, str(len(lines)), f"{mean['suggestions']['mean']:,.0f}"),
                    *(f"{mean[name]['mean']:.2f}" for name in measures),
                    list_commits(lines),
                ]
            )
    header = [
        *("corpus", "ranking", "seeds", "suggestions", "precision, first 100", "precision, first 500"),
        *("errors found among all", "average precision", "commit"),
    ]
    return format_table(header, rows)


def make_defaults_table() -> str:
    """Return all comparisons of settings on held-out training data."""
    groups = group(read_results("defaults"), lambda line: (line["corpus"], line["name"]))
    rows = []
    for (corpus, name), lines in sorted(groups.items()):
        scores = summarise_scores(lines)
        usual = summarise([line["f1_default_threshold"] for line in lines])
        without = [line["f1_without_documents"] for line in lines if "f1_without_documents" in line]
        rows.append(
            [
                *(corpus, name, str(len(lines))),
                *(percent(score) for score in (scores["f1"], usual)),
                percent(summarise(without)) if without else "",
                percent(scores["f1_3+"]),
                f"{scores['ece']['mean']:.3f}",
                f"{scores['minutes']['mean']:.1f}",
                list_commits(lines),
            ]
        )
    header = [
        *("corpus", "settings", "seeds", "F1", "F1, default threshold", "the same, each sentence alone"),
        *("F1 of 3 or more words", "ECE", "CPU minutes", "commit"),
    ]
    return format_table(header, rows)


def make_peers_table() -> str:
    """Return F1, training time and speed of each tool, for the README."""
    lines = select_standard(read_results("peers"))
    corpora = [corpus for corpus in TITLES if any(line["corpus"] == corpus for line in lines)]
    rows = []
    for name, tool in TOOLS.items():
        means = {
            corpus: summarise_tool([line for line in lines if line["corpus"] == corpus], name)
            for corpus in corpora
            if any(line["corpus"] == corpus and line["tool"] == name for line in lines)
        }
        if not means:
            continue
        first = next(iter(means.values()))
        scores = [percent(means[corpus]["f1"]) if corpus in means else "" for corpus in corpora]
        longer = percent(first["f1_3+"])
        calibration = "none" if first["ece"] is None else f"{first['ece']['mean']:.2f}"
        cost = [format_mean(first["minutes"]), format_mean(first["rate"])]
        seeds = str(min(row["seeds"] for row in means.values()))
        rows.append([tool.title, seeds, *scores, longer, calibration, *cost, "yes" if tool.nested else "no"])
    titles = [f"F1, {CORPUS_TITLES[corpus]}" for corpus in corpora]
    header = [
        *("tool", "seeds", *titles, f"{CORPUS_TITLES[corpora[0]]}: 3 or more words", "ECE"),
        *("CPU minutes to train", "sentences a second", "nested"),
    ]
    return format_table(header, rows)


def make_shipped_table() -> str:
    """Return the main scores of the model `names`, and those of the model that it replaced."""
    line = json.loads((RESULTS / "shipped.json").read_text(encoding="utf-8"))["names"]
    everyday, against = line["everyday"], line["against"]
    former = "the former model of all mentions, reduced to names by"
    rates = against["sentences_per_second"]
    rows = [
        ["60 everyday texts: names found with the right boundaries", f"{100 * everyday['found']:.1f} %"],
        ["the same, with the right type", f"{100 * everyday['found_with_type']:.1f} %"],
        ["marked, but no name", f"{100 * everyday['share_no_name']:.1f} %"],
        ["test data of GUM, names: F1", f"{100 * line['all']['f1']:.1f}"],
        ["the same in lower case", f"{100 * line['changed']['in lower case']['f1']:.1f}"],
        [f"F1 of {former} how words are written", f"{100 * against['guessed_tags']['f1']:.1f}"],
        [f"F1 of {former} gold tags of parts of speech", f"{100 * against['gold_tags']['f1']:.1f}"],
        ["ECE on the test data of GUM", f"{line['ece']:.3f}"],
        [
            "speed relative to the former model, on a smaller encoder",
            f"{rates['model'] / rates['other']:.2f}",
        ],
    ]
    return format_table(["model `names`", f"commit {list_commits([line])}"], rows)


def make_trials_table() -> str:
    """Return the trials from which the model `names` was chosen."""
    rows = [
        [
            line["encoder"],
            "GUM and WNUT17" if line["trained_on_wnut17"] else "GUM",
            str(line["epochs"]),
            *(f"{100 * line[part]['f1']:.1f}" for part in ("gum", "gum in lower case", "wnut17")),
            list_commits([line]),
        ]
        for line in read_results("shipped_trials")
    ]
    header = ["encoder", "training data", "epochs", "GUM", "GUM in lower case", "WNUT17", "commit"]
    return format_table(header, rows)


def make_thresholds_table() -> str:
    """Return the comparison of rules for the threshold."""
    outcome = json.loads((RESULTS / "thresholds.json").read_text(encoding="utf-8"))
    rows = [
        [
            row["corpus"],
            row["size"].replace("genres", "half of the genres"),
            str(row["seeds"]),
            *(
                f"{100 * row['f1'][rule]:.1f} ± {100 * row['deviation'][rule]:.1f}"
                for rule in ("best", "half", "default")
            ),
        ]
        for row in outcome["results"]
    ]
    header = [
        "corpus",
        "development sentences",
        "models",
        "highest F1",
        "half of the highest F1",
        "always 0.4",
    ]
    return (
        format_table(header, rows)
        + f"\n\nMeasured by `python -m benchmarks.thresholds FOLDER`, {list_commits([outcome])}."
    )


TABLES: dict[str, Callable[[], str]] = {
    "quality": make_quality_table,
    "more": make_more_table,
    "adapt": make_adapt_table,
    "consensus": make_consensus_table,
    "distil": make_distil_table,
    "defaults": make_defaults_table,
    "thresholds": make_thresholds_table,
    "peers": make_peers_table,
    "shipped": make_shipped_table,
    "shipped-trials": make_trials_table,
    "suggest": make_suggest_table,
    "audit": make_audit_table,
    **SPEED_TABLES,
}

if __name__ == "__main__":
    main()
