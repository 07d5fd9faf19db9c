from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

import pytest

from fencepost.analysis.epochs import Epoch, get_points
from fencepost.analysis.report import MARK, Contents, Speed, read_contents, render
from fencepost.analysis.report.charts import (
    compute_logarithmic_ticks,
    compute_ticks,
    draw_f1_by_length,
    draw_learning_curve,
    draw_reliability_diagram,
    draw_shift_histogram,
)
from fencepost.analysis.report.contents import EXAMPLES
from fencepost.analysis.report.examples import SHOWN_WORDS, choose_examples, make_example
from fencepost.analysis.report.scores import ReportScores
from fencepost.data import read, statistics
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import DataError, UsageError
from fencepost.evaluation import GROUPS, KINDS, ErrorCase, classify_errors, compute_intervals, evaluate, match
from tests.analysis.pages import Page, rows

SECTIONS = [
    "summary",
    "model",
    "scores",
    "lengths",
    "training",
    "confidences",
    "errors",
    "confusion",
    "data",
    "speed",
    "settings",
]
SETTINGS = {
    "method": {"name": "boundary-smoothing", "epsilon": 0.1},
    "encoder": {"name": "minilm", "lstm": {"size": 200}, "window": None},
    "predict": {"select": "nested"},
}
EPOCHS = [
    Epoch(1, 9.0, 8.0, 0.5, 0.4, 0.45),
    Epoch(2, 4.0, 5.0, 0.7, 0.6, 0.65),
    Epoch(3, 2.0, 6.0, 0.6, 0.6, 0.6),
]


def contents(gold=None, predicted=None, **more):
    time = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    return Contents(
        "my-model", "1.2.3", time, SETTINGS, ["LOC", "PER"], gold=gold, predicted=predicted, **more
    )


def guessed(sentences):
    """Return predictions with errors of many kinds, with confidences."""
    predicted = []
    for number, sentence in enumerate(sentences):
        entities = []
        for place, entity in enumerate(sentence.entities):
            score = 0.3 + 0.69 * ((number * 7 + place * 3) % 10) / 10
            turn = (number + place) % 7
            if turn == 0:
                continue
            if turn == 1 and entity.end < len(sentence):
                entity = replace(entity, end=entity.end + 1)
            elif turn == 2:
                entity = replace(entity, type="person" if entity.type != "person" else "place")
            elif turn == 3 and len(entity) > 1:
                entity = replace(entity, start=entity.start + 1)
            entities.append(replace(entity, score=score))
        if number % 9 == 0:
            entities.append(Entity(len(sentence) - 1, len(sentence), "time", 0.41))
        predicted.append(sentence.with_entities(entities))
    return predicted


@pytest.fixture(scope="module")
def gold():
    return list(islice(read("sample:test"), 120))


@pytest.fixture(scope="module")
def full(gold):
    return render(
        contents(
            gold,
            guessed(gold),
            data="test.jsonl",
            epochs=EPOCHS,
            kept_epoch=2.0,
            calibration={"temperature": 0.8, "shift": 0.1, "dev_ece_before": 0.05, "dev_ece_after": 0.01},
            statistics={"training data": statistics(read("sample:train")).to_dict()},
            speed=Speed("int8", 123.4, 567.8),
        )
    )


# Content


def test_full_report_is_well_formed_with_all_sections(full):
    page = Page(full)
    assert [attributes["id"] for attributes in page.tags("section")] == SECTIONS
    assert "absent" not in [attributes.get("class") for attributes in page.tags("p")]
    assert len(page.ids) == len(set(page.ids))
    for link in page.tags("a"):
        assert link["href"][1:] in page.ids
    for chart in page.tags("svg"):
        named = str(chart.get("aria-labelledby", "")).split()
        assert chart.get("aria-hidden") == "true" or (len(named) == 2 and set(named) <= set(page.ids))
    assert full.startswith(f"{MARK} 1.2.3 -->\n<html")
    assert full.index('charset="utf-8"') < 1024
    for text in (
        "boundary-smoothing",
        "encoder.lstm.size",
        "123.4 sentences per second",
        "568 MB",
        "the weights of epoch 2",
    ):
        assert text in page.text
    assert '<time datetime="2026-01-02T03:04:00+00:00">2 January 2026, 03:04 UTC</time>' in full


def test_report_loads_nothing_and_runs_no_code(full):
    page = Page(full)
    assert "://" not in full
    assert "url(" not in page.style
    assert "@import" not in page.style
    assert not {tag for tag, _ in page.elements} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "form",
        "base",
    }
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert not [name for _, attributes in page.elements for name in attributes if name in ("src", "srcset")]
    (policy,) = [one["content"] for one in page.tags("meta") if "http-equiv" in one]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script-src" not in policy


def test_numbers_equal_those_of_evaluate(full, gold):
    predicted = guessed(gold)
    result, bounds = evaluate(gold, predicted), compute_intervals(match(gold, predicted))
    table = {row[0]: row for row in rows(full) if len(row) == 8}
    for name, score in [("all", result.overall), *result.by_type.items()]:
        interval = bounds[None if name == "all" else name]
        for column, key in enumerate(("precision", "recall", "f1"), start=1):
            value, one = 100 * getattr(score, key), getattr(interval, key)
            assert table[name][column] == f"{value:.1f} ({100 * one.low:.1f} to {100 * one.high:.1f})"
        assert table[name][5:] == [f"{n:,}" for n in (score.support, score.predicted, score.true_positives)]
    for name, score in result.by_length_group([1, 2, 3, 4, 5, 6, 8, 11, 16]).items():
        if score.support or score.predicted:
            assert table[name][3].startswith(f"{100 * score.f1:.1f} (")
            assert table[name][5:] == [str(n) for n in (score.support, score.predicted, score.true_positives)]
    text = Page(full).text
    assert f"the unweighted mean over {len(result.by_type)} types: " in text
    assert f"{100 * result.macro_f1:.1f}" in text
    assert f"{result.calibration.ece:.3f}" in text
    for one in result.calibration.bins:
        accuracy = "–" if one.accuracy is None else f"{100 * one.accuracy:.1f}"
        confidence = "–" if one.confidence is None else f"{one.confidence:.3f}"
        assert [f"{one.lower:.1f} to {one.upper:.1f}", f"{one.count:,}", confidence, accuracy] in rows(full)


def test_errors_and_confusion_add_up(full, gold):
    errors = classify_errors(gold, guessed(gold))
    table = {row[0]: row for row in rows(full) if len(row) == 6}
    for kind, count in errors.count_kinds().items():
        assert table[kind][1] == str(count)
        assert table[kind][4] == f"{100 * errors.compute_f1_without(kind):.1f}"
    assert sum(int(table[group][1]) for group in GROUPS) == len(errors)
    types = len(errors.count_confusions()) and {
        entity.type for s in [*gold, *guessed(gold)] for entity in s.entities
    }
    heat = [row for row in rows(full) if len(row) == len(types) + 2]
    header, body = heat[0], heat[1:]
    assert header[1:] == [row[0] for row in body]
    assert header[-1] == "no entity"
    cells = [[int(cell or 0) for cell in row[1:]] for row in body]
    support = {name: score.support for name, score in evaluate(gold, guessed(gold)).by_type.items()}
    assert {row[0]: sum(numbers) for row, numbers in zip(body[:-1], cells, strict=False)} == support


def test_every_error_kind_is_explained(full):
    explained = {row[0]: row[5] for row in rows(full) if len(row) == 6}
    assert explained.keys() >= {*GROUPS, *KINDS}
    assert all(explained[name].endswith(".") for name in (*GROUPS, *KINDS))


def test_same_contents_give_the_same_report(full, gold):
    again = contents(gold, guessed(gold))
    assert render(again) == render(again)


# Untrusted text


EVIL = '<script>document.title="hacked"</script>'
NASTY = [
    EVIL,
    '"><img src=x onerror=alert(1)>',
    "'; drop",
    "&lt;b&gt;",
    "{{ 7 * 7 }}",
    "</style><script>",
    "\u202egnp.exe",
    "\x00\x07\x1b[31m",
    "\ud800",
    "\u2028",
    "]]>",
    "-->",
]


def nasty():
    words = [*NASTY, "Ada"]
    sentence = Sentence(
        words, [Entity(0, 2, EVIL), Entity(3, 4, "\"quoted\" 'type'"), Entity(6, 13, "\u202eRLO")], id=EVIL
    )
    other = [
        Entity(0, 1, EVIL, 0.9),
        Entity(3, 4, EVIL, 0.8),
        Entity(6, 12, "\u202eRLO", 0.7),
        Entity(12, 13, "x" * 5000, 0.6),
    ]
    return [sentence], [sentence.with_entities(other)]


def test_words_and_types_are_escaped():
    gold, predicted = nasty()
    settings = {"method": {"name": EVIL}, EVIL: NASTY}
    html = render(
        replace(
            contents(
                gold, predicted, data=EVIL, speed=Speed(EVIL, 1.0), statistics={EVIL: {"by_type": {EVIL: 1}}}
            ),
            settings=settings,
            name=EVIL,
            version="1",
            types=[EVIL, *NASTY],
        )
    )
    page = Page(html)  # fails if tags do not match
    assert not page.tags("script")
    assert not page.tags("img")
    assert EVIL in page.text
    assert "<script" not in html
    assert "{{ 7 * 7 }}" in page.text
    for steering in "\u202e\x00\x07\x1b\u2028\ud800":
        assert steering not in html
    assert "\\u202e" in page.text
    assert "\\x1b[31m" in page.text
    html.encode("utf-8")
    assert "x" * 400 not in html
    assert not [value for _, attributes in page.elements for value in attributes.values() if value == EVIL]


def test_words_and_sentences_have_their_text_direction():
    arabic = Sentence(["ولد", "أحمد", "في", "القاهرة"], [Entity(1, 2, "PER")])
    latin = Sentence(["12", "Ada", "أحمد"], [Entity(1, 2, "PER")])
    html = render(contents([arabic, latin], [arabic.with_entities([]), latin.with_entities([])]))
    assert html.count('<div class="sentence" dir="rtl">') == 1
    assert html.count('<div class="sentence">') == 1
    for word in (*arabic.words, *latin.words):
        assert f"<bdi>{word}</bdi>" in html


# Little and much data


def test_report_without_data_says_what_is_missing():
    page = Page(render(contents(epochs=EPOCHS, kept_epoch=3.0)))
    assert [attributes["id"] for attributes in page.tags("section")] == SECTIONS
    for text in (
        "There are no test scores",
        "There are no scores",
        "There is no reliability diagram because no predictions were evaluated",
        "There is no error analysis",
        "There is no confusion matrix",
        "There are no statistics",
        "Speed and memory were not measured",
        "60.0 on the development data",
    ):
        assert text in page.text
    assert "There are no learning curves" in Page(render(contents())).text


def test_saved_scores_are_shown_without_sentences(gold):
    result = evaluate(gold, guessed(gold))
    html = render(contents(evaluation=result, data="the test data of the training"))
    page = Page(html)
    assert "There are no confidence intervals because these scores are from metrics.json" in page.text
    assert f"{100 * result.overall.f1:.1f}" in page.text
    assert " to " not in "".join(row[3] for row in rows(html) if len(row) == 8)


@pytest.mark.parametrize(
    ("gold", "text"),
    [
        ([], "because there are no sentences"),
        ([Sentence([])], "nothing was predicted"),
        ([Sentence(["Ada"])], "There are no errors"),
        ([Sentence(["Ada"], [Entity(0, 1, "PER")])], "A gold entity that no prediction matches."),
    ],
)
def test_reports_little_data_without_nan(gold, text):
    page = Page(render(contents(gold, [sentence.with_entities([]) for sentence in gold])))
    assert text in page.text
    assert "nan" not in page.text.lower().split()


def test_predictions_without_confidences_and_without_errors(gold):
    page = Page(render(contents(gold, gold)))
    assert "the predictions have no confidences" in page.text
    assert "There are no errors" in page.text
    assert "100.0" in page.text


def test_examples_are_limited_by_the_option(gold):
    page = render(contents(gold, guessed(gold), examples=0))
    assert 'class="sentence"' not in page
    assert "none were requested" in Page(page).text
    assert not [word for word in gold[0].words if len(word) > 8 and word in page]
    assert render(contents(gold, guessed(gold), examples=1)).count('class="sentence"') <= len(KINDS)
    assert EXAMPLES == 3


def test_very_long_sentence_is_shortened_around_boundaries():
    words = [f"word{number}" for number in range(5000)]
    entities = [Entity(start, start + 2, "A") for start in range(4000)] + [Entity(100, 4900, "B")]
    gold = Sentence(words, entities)
    predicted = gold.with_entities(
        [*(replace(entity, score=0.5) for entity in entities[:-1]), Entity(90, 4950, "B", 0.9)]
    )
    html = render(contents([gold], [predicted]))
    Page(html)
    assert len(html) < 100_000
    assert html.count('<span class="w') <= SHOWN_WORDS + 5  # and the markers of omitted words
    for boundary in (90, 100, 4899, 4949):
        assert f"<bdi>word{boundary}</bdi>" in html
    assert "word2500" not in html


def test_rare_types_share_a_row_of_the_confusion_matrix():
    for count in (2, 60, 500):
        gold = [Sentence(["a", "b"], [Entity(0, 1, f"type{number}")]) for number in range(count)]
        predicted = [s.with_entities([replace(s.entities[0], type="type0", score=0.5)]) for s in gold]
        html = render(contents(gold, predicted))
        page = Page(html)
        assert len(html) < 400_000
        assert ("rarer types share a row" in page.text) == (count > 25)
        assert ("The table lists the 100 most frequent types" in page.text) == (count > 100)
        assert f"mean over {count} types" in page.text
        heat = rows(html[html.index('class="heat"') :])
        header, body = heat[0], heat[1 : len(heat[0])]
        assert len(header) == 2 + min(count, 25)
        assert sum(int(cell or 0) for row in body for cell in row[1:]) == count


def test_large_corpus_gives_a_file_below_500_kb(gold):
    many = gold * 60
    html = render(
        contents(many, guessed(many), epochs=[Epoch(n, 1.0 / n, 1.0, 0.5, 0.5, 0.5) for n in range(1, 500)])
    )
    assert len(html) < 500_000


# Examples


def test_examples_are_the_most_confident_and_distinct():
    sentences = [Sentence(["Ada", str(number), "x"]) for number in range(6)]
    errors = [ErrorCase("spurious", number, Entity(1, 2, "PER", 0.1 * number), None) for number in range(6)]
    errors += [ErrorCase("spurious", number, Entity(0, 1, "PER", 0.9), None) for number in range(3)]
    chosen = choose_examples(errors, sentences, 4)
    assert chosen[0].predicted.score == 0.9  # one Ada
    assert [one.predicted.score for one in chosen[1:]] == pytest.approx([0.5, 0.4, 0.3])
    assert len({one.sentence for one in chosen}) == 4
    missed = [ErrorCase("missed", number, None, Entity(1, 2, "PER")) for number in range(6)]
    assert choose_examples(missed, sentences, 2) == choose_examples(missed, sentences, 2)
    assert choose_examples([], sentences, 2) == []


def test_inner_entities_are_next_to_the_words():
    gold = Sentence(
        ["the", "University", "of", "Toronto"],
        [Entity(0, 4, "ORG"), Entity(3, 4, "LOC"), Entity(1, 4, "ORG")],
    )
    predicted = gold.with_entities([Entity(1, 4, "ORG", 0.75)])
    (first, second) = classify_errors([gold], [predicted]).all
    example = make_example(first, gold, predicted)
    assert first.gold == Entity(0, 4, "ORG")
    assert [len(cell.above) for cell in example.cells] == [3, 3, 3, 3]
    assert [[segment and segment.label for segment in cell.above] for cell in example.cells][3] == [
        "",
        "",
        "LOC",
    ]
    assert example.cells[0].above[0].role == "gold"
    assert example.cells[0].above[0].opens
    assert example.cells[3].above[0].closes
    assert [[segment.label for segment in cell.below] for cell in example.cells] == [
        [],
        ["ORG 0.75"],
        [""],
        [""],
    ]
    assert example.cells[1].below[0].role == "other"
    assert second.gold == Entity(3, 4, "LOC")


# Charts


def test_ticks_are_round_and_include_the_values():
    assert compute_ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert compute_ticks(0.12, 0.34)[0] <= 0.12
    assert compute_ticks(5, 5) == [5, 6, 7, 8, 9, 10]
    assert compute_ticks(0, 0)[-1] >= 1
    assert compute_logarithmic_ticks(3, 90) == [2, 5, 10, 20, 50, 100]
    assert compute_logarithmic_ticks(1e-4, 90)[0] <= 1e-4
    assert compute_logarithmic_ticks(1e-4, 90)[-1] >= 90


def test_learning_curves_show_the_measured_values():
    f1 = draw_learning_curve({"F1": get_points(EPOCHS, "dev_f1", 100)}, 2.0, ".1f")
    assert [dot.tip for dot in f1.series[0].dots] == ["epoch 1: 45.0", "epoch 2: 65.0", "epoch 3: 60.0"]
    assert f1.rules[0].place == f1.series[0].dots[1].x
    page = render(contents(epochs=EPOCHS, kept_epoch=2.0))
    assert "after each of 3 epochs; the best is 65.0." in page
    assert all(f"<bdi>{name}</bdi>" in page for name in ("training data", "development data"))
    steep = render(contents(epochs=[Epoch(1, 3.0), Epoch(2, 0.1)]))
    assert "loss (logarithmic)" in steep
    assert "F1 by epoch" not in steep
    assert "There are no learning curves" in render(contents(epochs=[Epoch(1)]))
    assert draw_learning_curve({"F1": []}, None, ".1f") is None


def test_length_without_gold_entities_has_no_point():
    """A length that is only predicted has a row in the table and no point in the chart."""
    words = ["a"] * 8
    gold = [Sentence(words, [Entity(0, 1, "A")])]
    predicted = [Sentence(words, [Entity(0, 1, "A", 0.5), Entity(2, 5, "A", 0.5)])]
    lengths = ReportScores.of(contents(gold, predicted)).score_lengths()
    assert [(row.name, row.score.support) for row in lengths] == [("1", 1), ("3", 0)]
    chart = draw_f1_by_length(lengths)
    assert [tick.label for tick in chart.x_axis.ticks] == ["1", "3"]
    assert [(dot.x, dot.y) for dot in chart.series[0].dots] == [(0.5, 1.0)]


def test_legends_explain_every_style(gold, full):
    bins = evaluate(gold, guessed(gold)).calibration.bins
    assert [style for style, _ in draw_reliability_diagram(bins).legend] == ["s1", "s2", "diagonal"]
    lengths = ReportScores.of(contents(gold, guessed(gold))).score_lengths()
    assert [style for style, _ in draw_f1_by_length(lengths).legend] == ["s1", "interval"]
    bare = [row._replace(bounds=None) for row in lengths]
    assert [style for style, _ in draw_f1_by_length(bare).legend] == ["s1"]
    curve = draw_learning_curve({"F1": [(1, 0.5), (2, 0.6)]}, 2.0, ".1f")
    assert [label for _, label in curve.legend] == ["F1", "epoch whose weights were kept"]
    legends = full.count('<ul class="legend">')
    assert legends == full.count("<figure>") + 1  # and that of the examples
    for style in ("s1", "s2", "interval", "diagonal", "rule"):
        assert f'<span class="swatch {style}"></span>' in full


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 12, 999, 123_456])
def test_counts_have_integer_ticks(count):
    chart = draw_shift_histogram({"start": {1: count}, "end": {}})
    assert all(tick.place == int(tick.place) for tick in chart.y_axis.ticks)
    assert chart.y_axis.high >= max(1, count)


def test_large_shifts_are_counted_in_the_last_bars():
    chart = draw_shift_histogram({"start": {-9: 2, -1: 3}, "end": {1: 1, 40: 4}})
    tips = {bar.tip for bar in chart.bars if not bar.tip.endswith(": 0")}
    assert tips == {"start ≤−5: 2", "start −1: 3", "end +1: 1", "end ≥+5: 4"}


# The folder


def test_refuses_an_empty_folder(tmp_path):
    with pytest.raises(UsageError, match=r"not a model folder .*nor the folder of a training run"):
        read_contents(tmp_path)


def test_incomplete_run_has_its_records(tmp_path):
    (tmp_path / "run.yaml").write_text("method:\n  name: diffusion\n")
    lines = [
        {"step": 10, "epoch": 0.5, "loss": 4.0},
        {"step": 30, "epoch": 1.0, "loss": 1.0},
        {"step": 30, "epoch": 1.0, "dev_f1": 0.5, "dev_loss": float("nan")},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 4')
    report = read_contents(tmp_path)
    assert report.settings == {"method": {"name": "diffusion"}}
    assert report.epochs == [Epoch(1.0, 2.0, dev_f1=0.5)]
    Page(render(report))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metrics.json", "{", "this file is not valid JSON"),
        ("metrics.json", "[]", "this file does not contain a JSON object"),
        ("metrics.json", '{"test": {"f1": 1}}', "the test scores are not those of a training run"),
    ],
)
def test_names_damaged_files(tmp_path, name, content, message):
    (tmp_path / "config.json").write_text('{"types": ["A"], "config": {"method": {"name": "x"}}}')
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message) as error:
        read_contents(tmp_path)
    assert name in str(error.value)


def test_ignores_values_of_a_wrong_type(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"types": {"A": 1}, "config": {"method": "x", "encoder": {"name": 5}}}'
    )
    (tmp_path / "metrics.json").write_text(
        '{"epochs": [3, {"epoch": "one"}, {"epoch": 1}], "kept_epoch": true, "calibration": 4}'
    )
    report = read_contents(tmp_path)
    assert (report.types, report.kept_epoch, report.calibration) == ([], None, None)
    Page(render(report))


# A real browser


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def browse(tmp_path, html, *options):
    path = tmp_path / "report.html"
    path.write_text(html, encoding="utf-8")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--enable-logging=stderr",
    ]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    return subprocess.run(
        [CHROMIUM, *flags, profile, *options, path.as_uri()], capture_output=True, check=True, timeout=120
    )


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_browser_shows_the_report_and_runs_no_code(tmp_path, full):
    gold, predicted = nasty()
    result = browse(tmp_path, render(contents(gold, predicted, data=EVIL)), "--dump-dom")
    dom = result.stdout.decode()
    assert "<title>my-model: fencepost report</title>" in dom  # no word of the corpus has changed it
    assert "hacked" in dom
    assert b"Content Security Policy" not in result.stderr  # the policy had to refuse nothing
    picture = tmp_path / "report.png"
    browse(tmp_path, full, f"--screenshot={picture}", "--window-size=1200,2000")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 50_000
