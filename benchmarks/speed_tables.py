"""The tables of speed and memory, made from the newest line of each measurement in `results/speed.jsonl`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.common import RESULTS, percent, read_lines, summarise
from benchmarks.peers.page import format_table
from benchmarks.quality import METHODS, MINILM

Line = Mapping[str, Any]


def read_newest() -> dict[str, Line]:
    """Return the last line of each measurement, by its name."""
    return {line["name"]: line for line in read_lines(RESULTS / "speed.jsonl")}


def describe_source(*lines: Line) -> str:
    """Return a sentence with the commands, the commits and the dates of measurements."""
    commands = " and ".join(dict.fromkeys(f"`python -m {line['command']}`" for line in lines))
    commits = ", ".join(dict.fromkeys(f"`{line['commit'][:7]}`" for line in lines))
    return f"Measured by {commands}, commit {commits}, {max(line['date'] for line in lines)}."


def make_table(header: Sequence[str], rows: Sequence[Sequence[str]], *lines: Line) -> str:
    """Return a table, and below it where its figures come from."""
    return f"{format_table(header, rows)}\n\n{describe_source(*lines)}"


def make_engines_table() -> str:
    """Return sentences a second from raw text, and milliseconds of a single sentence, by engine."""
    line = read_newest()["throughput"]
    rates, latency = line["sentences_per_second"], line["latency_ms"]
    rows = [
        [
            *(f"`{engine}`", f"{rate:.0f}", f"{rate / rates['pytorch']:.2f}"),
            f"{latency[engine]['median']:.0f} ms (99th percentile: {latency[engine]['p99']:.0f})",
        ]
        for engine, rate in rates.items()
        if engine != "bare"
    ]
    header = ["engine", "sentences a second", "times as fast as PyTorch", "one sentence alone, median"]
    return make_table(header, rows, line)


def make_summary() -> str:
    """Return the sentences of the README about quality with all of GENIA, speed and size."""
    newest = read_newest()
    rates = newest["throughput"]["sentences_per_second"]
    text = (
        f"With all of GENIA, boundary smoothing has an F1 of {make_genia_score()}. On two cores with AVX-512 "
        f"VNNI, its `int8` graphs predict {rates['int8']:.0f} sentences a second from raw text, "
        f"{rates['int8'] / rates['pytorch']:.2f} times as fast as PyTorch. Without PyTorch, an installation "
        f"takes {newest['installation']['all_mb']:.0f} MB."
    )
    return textwrap.fill(text, 110)


def make_genia_score() -> str:
    """Return the F1 of the newest runs of boundary smoothing on GENIA."""
    lines = [
        line
        for line in read_lines(RESULTS / "quality.jsonl")
        if (line["corpus"], line["method"], line["encoder"]) == ("genia", "boundary-smoothing", MINILM)
        and (line["settings"], line["sentences"], line["dev_share"]) == (["training.epochs=12"], None, None)
    ]
    newest = {line["seed"]: line["f1"] for line in lines if line["commit"] == lines[-1]["commit"]}
    return percent(summarise(list(newest.values())))


def make_start_table() -> str:
    """Return the CPU time of commands, and the size of an installation."""
    newest = read_newest()
    startup, installation = newest["startup"], newest["installation"]
    titles = {
        "python": "an empty Python program",
        "help": "`fencepost --help`",
        "inspect": "`fencepost inspect sample:dev`",
        "predict": '`fencepost predict "..."` with the shipped model',
    }
    rows = [
        [title, f"{startup['cpu_seconds'][name]['this']:.2f} CPU seconds"] for name, title in titles.items()
    ]
    rows += [
        ["installation without PyTorch", f"{installation['all_mb']:.0f} MB"],
        ["of which the shipped model", f"{installation['model_mb']:.0f} MB"],
        ["of which pip and setuptools", f"{installation['pip_and_setuptools_mb']:.0f} MB"],
    ]
    return make_table(["", "time or size"], rows, startup, installation)


def make_tokenizer_table() -> str:
    """Return the microseconds of a word, beside spaCy."""
    line = read_newest()["tokenizer"]
    rows = [
        [
            *(corpus.upper(), f"{of_corpus['words']:,}"),
            *(f"{of_corpus[kind][tool]:.1f}" for kind in ("new", "known") for tool in ("fencepost", "spacy")),
        ]
        for corpus, of_corpus in line["corpora"].items()
    ]
    header = ["corpus", "words", "new words", "spaCy", "words seen before", "spaCy"]
    return make_table(header, rows, line)


def make_quantisation_table() -> str:
    """Return speed, error and F1 of three graphs of an encoder."""
    line = read_newest()["quantisation"]
    titles = {
        "float": "single precision",
        "dynamic": "8 bits, a range for each batch",
        "rows": "8 bits, a scale for each vector (`int8`)",
    }
    rows = []
    for kind, title in titles.items():
        result = line[kind]
        times = [
            f"{result[name][threads]['ratio']:.2f}"
            for threads in ("1 threads", "2 threads")
            for name in ("encoder_seconds", "words_to_entities_seconds")
        ]
        alone = result["alone"]
        different = f"{alone['entities_that_differ']} of {result['entities']}"
        rows.append([title, *times, f"{result['error']:.3f}", different, f"{result['f1']:.2f}"])
    header = [
        *("graph of the encoder", "encoder, 1 thread", "words to entities", "encoder, 2 threads"),
        *("words to entities", "error of word vectors", "entities that differ alone and in a batch", "F1"),
    ]
    return make_table(header, rows, line)


def make_parity_table() -> str:
    """Return how exported graphs differ from PyTorch, by model."""
    line = read_newest()["parity"]
    rows = [
        [
            f"`{model['method']}`",
            *(str(model[corpus]["onnx"]["sentences_that_differ"]) for corpus in ("genia", "gum")),
            *(f"{model['genia'][engine]['f1']:.2f}" for engine in ("pytorch", "onnx", "int8")),
        ]
        for model in line["models"].values()
    ]
    header = [
        *("method", "sentences that differ with `onnx`, GENIA", "GUM"),
        *("F1 on GENIA, `pytorch`", "`onnx`", "`int8`"),
    ]
    return make_table(header, rows, line)


def make_contention_table() -> str:
    """Return what a busy process costs prediction."""
    line = read_newest()["contention"]
    idle, busy = line["busy"]["0"], line["busy"]["1"]
    titles = {
        "pipe": "`ner.pipe`, raw text to entities",
        "alone": "sentences one by one",
        "bare": "the encoder alone, the same batches",
    }
    rows = []
    for task, title in titles.items():
        seconds = [result[task]["now"]["seconds"] for result in (idle, busy)]
        rows.append([title, f"{seconds[0]:.2f} s", f"{seconds[1]:.2f} s", f"{seconds[1] / seconds[0]:.2f}"])
    ratios = [f"{result['pipe_to_bare']['now']:.2f}" for result in (idle, busy)]
    rows.append(["`ner.pipe`, relative to the encoder alone", *ratios, ""])
    return make_table(["", "no other program", "one busy process", "times as long"], rows, line)


def make_waiting_table() -> str:
    """Return the speed of PyTorch with other ways of waiting, relative to the default."""
    line = read_newest()["waiting"]
    titles = {"GOMP_SPINCOUNT=300000": "default of GNU OpenMP (`GOMP_SPINCOUNT=300000`)"}
    names = [name for name in line["busy"]["0"]["train"] if name != "now"]
    rows = [
        [
            titles.get(name, f"`{name}`"),
            *(
                f"{line['busy'][busy][task][name]['speed']:.2f}"
                for busy in ("0", "1")
                for task in ("train", "predict")
            ),
        ]
        for name in names
    ]
    header = ["", "idle: training", "prediction", "beside a busy process: training", "prediction"]
    return make_table(header, rows, line)


def make_windows_table() -> str:
    """Return the cost of the same words as sentences of 100 words and as one sentence."""
    line = read_newest()["windows"]
    seconds = {task: line["busy"]["0"][task]["now"]["cpu_seconds"] for task in ("words_100", "words_5000")}
    ratio = seconds["words_5000"] / seconds["words_100"]
    rows = [
        ["50 sentences of 100 words", f"{seconds['words_100']:.2f}", "1"],
        ["one sentence of 5,000 words", f"{seconds['words_5000']:.2f}", f"{ratio:.2f}"],
    ]
    return make_table(["5,000 words, `int8`, one thread", "CPU seconds", "relative"], rows, line)


def make_settings_table() -> str:
    """Return the speed of training with other settings."""
    line = read_newest()["settings"]
    result = line["busy"]["0"]["train"]
    rows = [[name, f"{result[name]['cpu_speed']:.2f}"] for name in result if name != "now"]
    return make_table(["one step of training", "times as fast as the default"], rows, line)


def make_costs_table() -> str:
    """Return time and memory of each method, in training and in prediction."""
    newest = read_newest()
    costs = [newest[f"head_cost:{method}"] for method in METHODS]
    memory = [newest[f"memory:{method}"] for method in METHODS]

    def make_row(title: str, lines: Sequence[Line], format_value: Callable[[Line], str]) -> list[str]:
        return [title, *(format_value(line) for line in lines)]

    def gigabytes(job: str) -> Callable[[Line], str]:
        return lambda line: f"{line[job]['peak_mb'] / 1000:.1f} GB"

    rows = [
        make_row("training step, relative to the encoder", costs, lambda one: f"{one['train_ratio']:.2f}"),
        make_row("prediction, relative to the encoder", costs, lambda one: f"{one['predict_ratio']:.2f}"),
        make_row(
            "sentences a second in training", costs, lambda one: f"{one['train_sentences_per_second']:.0f}"
        ),
        make_row(
            "sentences a second in prediction",
            costs,
            lambda one: f"{one['predict_sentences_per_second']:.0f}",
        ),
        make_row("memory in training", memory, gigabytes("train")),
        make_row("with a sentence of 600 words", memory, gigabytes("train_600_words")),
        make_row("sentences of 200 words, 18 types", memory, gigabytes("train_200_words_18_types")),
        make_row("memory in prediction", memory, gigabytes("predict")),
        make_row("with a sentence of 5,000 words", memory, gigabytes("predict_5000_words")),
    ]
    header = ["", *(f"`{method}`" for method in METHODS)]
    commands = [
        {**line, "command": line["command"].replace(method, "METHOD")}
        for lines in (costs, memory)
        for line, method in zip(lines, METHODS, strict=True)
    ]
    return make_table(header, rows, *commands)


def make_methods_table() -> str:
    """Return the main differences between the methods: scores of one run each, time and memory."""
    newest = read_newest()
    members = next(one for one in read_lines(RESULTS / "consensus.jsonl") if one["corpus"] == "genia")[
        "members"
    ]
    parity = {model["method"]: model["genia"] for model in newest["parity"]["models"].values()}
    costs = {method: newest[f"head_cost:{method}"] for method in METHODS}
    memory = {method: newest[f"memory:{method}"] for method in METHODS}
    cells: dict[str, Callable[[str], str]] = {
        "F1 on the test data": lambda one: f"{100 * members[one]['f1']:.1f}",
        "precision, recall": lambda one: (
            f"{100 * members[one]['precision']:.1f}, {100 * members[one]['recall']:.1f}"
        ),
        "ECE, calibrated": lambda one: f"{members[one]['ece']:.3f}",
        "training, sentences a second": lambda one: f"{costs[one]['train_sentences_per_second']:.0f}",
        "prediction in PyTorch, sentences a second": lambda one: (
            f"{costs[one]['predict_sentences_per_second']:.0f}"
        ),
        "prediction, relative to the encoder alone": lambda one: f"{costs[one]['predict_ratio']:.2f}",
        "memory in training": lambda one: f"{memory[one]['train']['peak_mb'] / 1000:.1f} GB",
        "[change of F1 with `int8`](speed.md#8-bit-integers)": lambda one: (
            f"{parity[one]['int8']['f1'] - parity[one]['pytorch']['f1']:+.2f}"
        ),
    }
    rows = [[title, *(make_cell(method) for method in METHODS)] for title, make_cell in cells.items()]
    return format_table(["", *(f"`{method}`" for method in METHODS)], rows)


def make_sizing_table() -> str:
    """Return the figures that the size of a deployment depends on."""
    newest = read_newest()
    rates = newest["throughput"]["sentences_per_second"]
    load = newest["serve_load"]["speed"]
    half = load["half_load"]
    memory = [newest[f"memory:{method}"] for method in METHODS]

    def span(job: str) -> str:
        sizes = sorted(line[job]["peak_mb"] for line in memory)
        return f"{sizes[0]:,} to {sizes[-1]:,} MB"

    texts = load["texts_a_second"]
    rows = [
        [
            "disk",
            f"{newest['installation']['all_mb']:.0f} MB without PyTorch, with the shipped model",
            "[installation](speed.md#installation-and-start)",
        ],
        [
            "throughput",
            "sentences a second from raw text: "
            + ", ".join(f"{rates[engine]:.0f} with `{engine}`" for engine in ("int8", "onnx", "pytorch")),
            "[raw text to entities](speed.md#raw-text-to-entities)",
        ],
        [
            "throughput of the server, model `names`",
            "{} texts a second with 256 clients and one text a request, {} with 16 texts a request".format(
                *(round(texts[name]) for name in ("one text a request", "16 texts a request"))
            ),
            "[measured load](serving.md#measured-load)",
        ],
        [
            "latency, model `names`",
            "{} ms median, {} ms at the 99th percentile, at {} requests a second".format(
                *(round(half[name]) for name in ("p50_ms", "p99_ms", "requests_a_second"))
            ),
            "[measured load](serving.md#measured-load)",
        ],
        [
            "memory, PyTorch",
            f"{span('predict')} in prediction, {span('predict_5000_words')} with a sentence of 5,000 words",
            "[training, and words to entities](speed.md#training-and-words-to-entities)",
        ],
    ]
    return format_table(["resource", "measured", "source"], rows)


def make_serving_table() -> str:
    """Return throughput, latency and memory of the server."""
    newest = read_newest()
    load, hostile, memory = (newest[name] for name in ("serve_load", "serve_hostile", "serve_memory"))
    rates, relative = load["speed"]["texts_a_second"], load["speed"]["of_pipe"]
    half, at_once, long = load["speed"]["half_load"], load["all_at_once"], hostile["hostile"]
    rows = [["`pipe` in one process, without HTTP", f"{rates['pipe']:.0f} texts a second"]]
    titles = {
        "16 texts a request": "32 clients, 16 texts a request",
        "one text a request": "256 clients, one text a request",
    }
    for name, title in titles.items():
        rows.append([title, f"{rates[name]:.0f} texts a second, {relative[name]:.2f} of `pipe`"])
    rate = half["requests_a_second"]
    right = at_once["requests"] - at_once["wrong"]
    rows += [
        [
            f"latency at half of that load ({rate:.0f} requests a second, at random times)",
            f"{half['p50_ms']:.0f} ms median, {half['p99_ms']:.0f} ms at the 99th percentile",
        ],
        [
            f"{at_once['requests']:,} connections that all send a request at once, each with its own text",
            f"{right:,} right answers, after {at_once['answers_429_before']:,} refusals with 429",
        ],
        [
            f"{long['requests']} ordinary requests beside two of 100,000 characters, which run all the time",
            f"99th percentile {long['p99_ms_beside']:.0f} ms, {long['p99_ratio']:.2f} of that without them",
        ],
        [
            f"{memory['requests']:,} requests with ever new words",
            f"resident memory {memory['ratio']:.2f} times that after the first 1,000",
        ],
    ]
    return make_table(["", ""], rows, load, hostile, memory)


def make_line_breaks_table() -> str:
    """Return the shares of sentences that hard-wrapped text keeps."""
    line = read_newest()["line_breaks"]
    sizes = line["sentences"]
    widths = list(next(iter(sizes.values())))
    rows = [
        [f"{size.split()[0]} sentences", *(f"{of[width]['auto']:.2f}" for width in widths)]
        for size, of in sizes.items()
    ]
    return make_table(["paragraphs of", *(f"{width} columns" for width in widths)], rows, line)


NAMES = {"f1": "F1", "true_positives": "true positives"}
"""Titles of columns of reports."""


def make_steps_table(method: str, report: str) -> Callable[[], str]:
    """Return a function that makes the tables of a report of a method."""

    def make() -> str:
        line = read_newest()[f"steps:{method}"]
        tables = [
            format_table(
                [title, *(NAMES.get(column, column) for column in next(iter(rows.values())))],
                [[name, *(format_cell(*cell) for cell in row.items())] for name, row in rows.items()],
            )
            for title, rows in line["reports"][report].items()
        ]
        return "\n\n".join([*tables, describe_source(line)])

    return make


def format_cell(column: str, value: Any) -> str:
    """Return a score in per cent, and other numbers as they are."""
    if column.startswith(("precision", "recall", "f1")):
        return f"{100 * value:.1f}"
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}"


def make_sweep_table() -> str:
    """Return F1 by steps and spans of diffusion."""
    line = read_newest()["steps:diffusion"]
    rows = [
        [
            ", ".join(f"`{key}={value}`" for key, value in row["set"].items()),
            *(f"{100 * row[name]:.1f}" for name in ("precision", "recall", "f1")),
            f"{row['sentences_per_second']:.0f}",
        ]
        for sweep in line["sweeps"].values()
        for row in sweep
    ]
    return make_table(["setting", "precision", "recall", "F1", "sentences a second"], rows, line)


TABLES: dict[str, Callable[[], str]] = {
    "summary": make_summary,
    "engines": make_engines_table,
    "start": make_start_table,
    "tokenizer": make_tokenizer_table,
    "quantisation": make_quantisation_table,
    "parity": make_parity_table,
    "contention": make_contention_table,
    "waiting": make_waiting_table,
    "windows": make_windows_table,
    "training-settings": make_settings_table,
    "costs": make_costs_table,
    "methods": make_methods_table,
    "sizing": make_sizing_table,
    "serving": make_serving_table,
    "line-breaks": make_line_breaks_table,
    "offset-labels": make_steps_table("boundary-offset", "offsets"),
    "stages": make_steps_table("locate-and-label", "stages"),
    "diffusion-steps": make_sweep_table,
}
