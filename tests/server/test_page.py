"""The page of the server in a real browser: display, use, and security."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from fencepost.server import make_app
from tests.server.browser import MODEL, Answer, Page, StandIn, chromium, entity, make_answer, stand_in_server
from tests.server.conftest import Capitals, recogniser

TEXT = "The mayor of Lisbon met Ada Lovelace."
MAYOR = entity(TEXT, "The mayor of Lisbon", "person", 0.8)
LISBON = entity(TEXT, "Lisbon", "place", 0.91)
ADA = entity(TEXT, "Ada Lovelace", "person", 0.9749)
ORGANIZATION, PERSON, PLACE = "c0", "c1", "c2"  # colours, by the order of the model's types

EXAMPLE = "The mayor of Lisbon met Maria Teixeira"  # the start of the initial text of the page

Open = Callable[..., Page]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        driver.set_script_timeout(60)
        yield driver


@pytest.fixture(scope="session")
def one_server() -> Iterator[StandIn]:
    with stand_in_server() as server:
        yield server


@pytest.fixture
def server(one_server: StandIn) -> StandIn:
    one_server.reset()
    one_server.answer = lambda _: make_answer(MAYOR, LISBON, ADA)
    return one_server


@pytest.fixture
def open_page(browser: webdriver.Chrome, server: StandIn) -> Iterator[Open]:
    """Return a function that opens the page; messages in the console fail the test."""
    browser.get_log("browser")
    opened: list[Page] = []

    def open_(fragment: str = "") -> Page:
        browser.get("about:blank")  # otherwise a new fragment would not reload the page
        opened.append(Page(browser, server.url + fragment))
        return opened[-1]

    yield open_
    for page in opened[-1:]:
        page.plain()
        complaints = [message for message in page.complaints() if "Failed to load resource" not in message]
        assert not complaints


@pytest.fixture
def page(open_page: Open, server: StandIn) -> Page:
    """The page after it has analysed its example."""
    opened = open_page()
    opened.until(opened.chips)
    server.requests.clear()
    return opened


@pytest.fixture
def real_server() -> Iterator[str]:
    """Address of a real server with a model that predicts words in capitals."""
    app = make_app(recogniser(Capitals()), name="capitals", method="none")
    http = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=http.run, daemon=True)
    thread.start()
    while not http.started:
        assert thread.is_alive()
        thread.join(0.02)
    yield f"http://127.0.0.1:{http.servers[0].sockets[0].getsockname()[1]}/"
    http.should_exit = True
    thread.join()


def nodes(page: Page) -> int:
    return page.script("return document.querySelectorAll('*').length")


def overflow(page: Page) -> int:
    """Return by how many pixels the page is wider than the screen."""
    return page.script("return document.scrollingElement.scrollWidth - document.documentElement.clientWidth")


def rows(page: Page) -> list[list[str]]:
    return page.script(
        "return [...document.querySelectorAll('tbody tr')].filter((row) => row.checkVisibility())"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )


def tip(page: Page) -> list[str]:
    return page.texts("#tip")


def focused(page: Page) -> str:
    return page.script(
        "const at = document.activeElement; return at.id || at.value || at.textContent.trim().slice(0, 40)"
    )


# ----------------------------------------------------------------------------------------- asking and drawing


def test_entities_of_a_text_are_requested_and_drawn(page: Page, server: StandIn) -> None:
    page.find(TEXT)
    assert server.questions == [{"text": TEXT}]
    assert page.read_text() == TEXT
    assert page.chips() == ["person 0.80", "place 0.91", "person 0.97"]
    assert rows(page) == [
        ["The mayor of Lisbon", "person", "0.8000", "0–19"],
        ["Lisbon", "place", "0.9100", "13–19"],
        ["Ada Lovelace", "person", "0.9749", "24–36"],
    ]
    assert page.one("#status").text.startswith("3 entities found in ")
    assert page.one("#count").text == "3 shown"


def test_model_is_described(page: Page) -> None:
    assert page.one("#model").text.split("\n")[1::2] == ["stand-in", "boundary-smoothing", "int8", "en"]
    assert page.one("#version").text == "Fencepost 0.1.0"


def test_bars_of_inner_entities_are_nearer_to_the_text(page: Page) -> None:
    page.find(TEXT)
    assert page.bars("The mayor of ") == [PERSON]
    assert page.bars("Lisbon") == [PLACE, PERSON]
    assert page.bars(" met ") == []
    assert page.bars("Ada Lovelace") == [PERSON]


def test_labels_are_below_the_unbroken_sentence(page: Page) -> None:
    page.find(TEXT)
    assert page.script("return document.querySelector('.words').getClientRects()[0].height") < 30
    assert page.script(
        "const words = document.querySelector('.words').getClientRects()[0].bottom;"
        "return [...document.querySelectorAll('.chip')].every((chip) => "
        "  chip.getBoundingClientRect().top > words - 5 && !chip.closest('.words'))"
    )
    page.script("document.getSelection().selectAllChildren(document.querySelector('.block'))")
    assert page.script("return String(document.getSelection())") == TEXT


def test_crossing_bars_are_stacked(page: Page, server: StandIn) -> None:
    text = "one two three four"
    server.answer = lambda _: make_answer(
        entity(text, "one two", "person", 0.5),
        entity(text, "two three", "place", 0.6),
        entity(text, "three four", "organization", 0.7),
    )
    page.find(text)
    assert page.bars("one ") == [PERSON]
    assert page.bars("two") == [PERSON, PLACE]
    assert page.bars("three") == [PLACE, ORGANIZATION]
    assert page.bars(" four") == [ORGANIZATION]
    assert page.read_text() == text


def test_ten_nested_entities_have_a_bar_and_a_label_each(page: Page, server: StandIn) -> None:
    text = " ".join("abcdefghij")
    server.answer = lambda _: make_answer(*(entity(text, text[: 2 * n + 1], "place", 0.5) for n in range(10)))
    page.find(text)
    assert len(page.chips()) == 10
    assert page.bars("a") == [PLACE] * 10
    assert page.bars("j") == [PLACE]
    assert not overlaps(page)


def overlaps(page: Page) -> list[str]:
    """Return pairs of labels, bars and lines of text that overlap."""
    return page.script(
        "const boxes = [...document.querySelectorAll('.chip:not(.off)')].map((e) =>"
        "  [e.textContent, e.getBoundingClientRect(), e]);"
        "for (const e of document.querySelectorAll('.bar:not(.off)')) {"
        "  const {left, right, bottom} = e.getBoundingClientRect();"
        "  boxes.push(['bar', {left, right, bottom, top: bottom - 3}, e]) }"
        "for (const e of document.querySelectorAll('.words')) for (const r of e.getClientRects())"
        "  boxes.push(['text', {left: r.left, right: r.right, top: r.top + 3, bottom: r.bottom - 3}, e]);"
        "return boxes.flatMap(([name, a, e], at) => boxes.slice(at + 1).filter(([, b, f]) => e !== f &&"
        "  a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)"
        "  .map(([other]) => `${name} and ${other}`))"
    )


@pytest.mark.parametrize("width", [360, 700, 1280])
def test_labels_bars_and_text_never_overlap(page: Page, server: StandIn, width: int) -> None:
    words = [f"Name{n}" if n % 3 else "of" for n in range(120)]
    text = " ".join(words)
    starts = [sum(len(word) + 1 for word in words[:n]) for n in range(len(words))]
    ends = [start + len(word) for start, word in zip(starts, words, strict=True)]
    spans = [(n, min(119, n + n * 7 % 9)) for n in range(0, 120, 2)]
    server.answer = lambda _: make_answer(
        *({"start": starts[a], "end": ends[b], "type": f"type{a % 5}", "score": 0.5} for a, b in spans)
    )
    page.width(width)
    page.find(text)
    assert len(page.chips()) > 50
    assert not overlaps(page)
    page.width(width - 60)  # the bars move with the words
    page.frames(5)
    assert not overlaps(page)
    assert page.read_text() == text
    edge = page.one("#drawn").rect
    boxes = [bar.rect for bar in page.every(".bar, .chip")]
    assert max(box["x"] + box["width"] for box in boxes) < edge["x"] + edge["width"] + 6
    assert min(box["x"] for box in boxes) > edge["x"] - 1


def test_span_may_have_two_types(page: Page, server: StandIn) -> None:
    server.answer = lambda _: make_answer(LISBON, {**LISBON, "type": "organization", "score": 0.3})
    page.find(TEXT)
    assert page.chips() == ["place 0.91", "organization 0.30"]
    assert page.bars("Lisbon") == [ORGANIZATION, PLACE]


def test_entities_may_cross_line_breaks(page: Page, server: StandIn) -> None:
    text = "\n  The mayor\nof Lisbon\n\n" + "word after word. " * 400 + "The end\n"
    server.answer = lambda _: make_answer(
        entity(text, "The mayor\nof Lisbon", "person", 0.5), entity(text, "The end", "place", 0.6)
    )
    page.find(text)
    assert page.read_text() == text
    assert page.bars("The mayor") == page.bars("of Lisbon") == [PERSON]
    assert len(page.every(".block.continued")) > 1  # very long lines are laid out in parts
    assert rows(page)[0][0] == "The mayor of Lisbon"


def test_page_says_that_there_are_no_entities(page: Page, server: StandIn) -> None:
    server.answer = lambda _: make_answer()
    page.find(TEXT)
    assert page.one("#status").text.startswith("No entities found")
    assert page.one("#empty").text == "The model found no entities in this text."
    assert not page.every("#list")


def test_empty_text_sends_no_request(page: Page, server: StandIn) -> None:
    page.find("  \n ")
    assert page.one("#error").text.startswith("There is no text yet.")
    assert server.questions == []


def test_examples_send_requests_and_restore_the_users_text(page: Page, server: StandIn) -> None:
    server.answer = lambda _: make_answer()
    page.write("my own text")
    for name in ("News", "Biomedical", "Sport"):
        next(b for b in page.every("#examples button") if b.text == name).click()
        page.settle()
    texts = [question["text"] for question in server.questions]
    assert len(set(texts)) == 3
    assert all(len(text.split()) > 30 for text in texts)
    page.every("#examples button")[-1].click()
    page.settle()
    assert server.questions[-1] == {"text": "my own text"}
    assert page.one("#text").get_property("value") == "my own text"
    assert page.texts("#examples button") == ["News", "Biomedical", "Sport"]


def test_page_starts_with_an_example(open_page: Open, server: StandIn) -> None:
    page = open_page()
    page.until(page.chips)
    assert len(server.questions) == 1
    text = server.questions[0]["text"]
    assert text.startswith(EXAMPLE)
    assert page.one("#text").get_property("value") == page.read_text() == text


@pytest.mark.parametrize(
    "answer",
    [Answer({"detail": "no"}, 500), Answer({"detail": "slow"}, 429), make_answer({**ADA, "end": 9999})],
)
def test_failed_example_shows_no_error(open_page: Open, server: StandIn, answer: Answer) -> None:
    server.answer = lambda _: answer
    page = open_page()
    page.until(lambda: server.questions)
    page.settle()
    assert page.one("#text").get_property("value").startswith(EXAMPLE)
    assert not page.every("#error, #result")
    assert page.one("#status").text == ""


def test_example_waits_for_the_token(open_page: Open, server: StandIn) -> None:
    server.token = "s3cret"
    page = open_page()
    page.until(lambda: page.every("#access"))
    page.settle()
    assert page.one("#text").get_property("value").startswith(EXAMPLE)
    assert page.one("#status").text == "This server requires an access token."
    assert not page.every("#error")
    assert server.questions == []
    page.one("#token").send_keys("s3cret", Keys.ENTER)
    page.until(page.chips)
    assert page.read_text().startswith(EXAMPLE)


def test_text_can_be_cleared(page: Page) -> None:
    page.one("#clear").click()
    assert page.one("#text").get_property("value") == ""
    assert focused(page) == "text"


# -------------------------------------------------------------------------------------------------- filtering


def test_slider_filters_without_a_request(page: Page, server: StandIn) -> None:
    page.find(TEXT)
    before = nodes(page)
    page.slide(0.91)
    assert page.chips() == ["place 0.91", "person 0.97"]
    assert page.bars("Lisbon") == [PLACE]
    assert [row[0] for row in rows(page)] == ["Lisbon", "Ada Lovelace"]
    assert page.one("#count").text == "2 of 3 shown"
    assert page.one("#least-value").text == "0.91"
    page.slide(0.92)
    assert page.chips() == ["person 0.97"]
    page.slide(1)
    assert page.chips() == []
    assert page.one("#empty").text.startswith("All entities are hidden")
    page.slide(0)
    assert page.chips() == ["person 0.80", "place 0.91", "person 0.97"]
    assert page.bars("Lisbon") == [PLACE, PERSON]
    assert nodes(page) == before
    assert len(server.questions) == 1


def test_types_can_be_hidden_and_shown(page: Page, server: StandIn) -> None:
    page.find(TEXT)
    assert page.texts("#types label") == ["person\n2", "place\n1"]
    page.one("#types [value=person]").click()
    assert page.chips() == ["place 0.91"]
    assert page.bars("Lisbon") == [PLACE]
    page.slide(0.95)
    assert page.texts("#types label") == ["person\n1", "place\n0"]
    page.slide(0)
    page.find(f"{TEXT} ")
    assert page.chips() == ["place 0.91"]  # it stays off for the next text
    assert not page.one("#types [value=person]").is_selected()
    page.one("#all").click()
    assert len(page.chips()) == 3
    assert page.one("#types [value=person]").is_selected()
    page.one("#none").click()
    assert page.chips() == []


def test_filters_apply_to_the_next_response(page: Page) -> None:
    page.find(TEXT)
    page.slide(0.95)
    page.find(TEXT)
    assert page.chips() == ["person 0.97"]
    assert page.one("#count").text == "1 of 3 shown"


def test_flat_and_nested_send_a_new_request(page: Page, server: StandIn) -> None:
    server.answer = lambda body: (
        make_answer(MAYOR, ADA) if body.get("flat") else make_answer(MAYOR, LISBON, ADA)
    )
    page.find(TEXT)
    page.one("#shapes [value=flat]").click()
    page.settle()
    assert server.questions[-1] == {"text": TEXT, "flat": True}
    assert page.chips() == ["person 0.80", "person 0.97"]
    page.one("#shapes [value=nested]").click()
    page.settle()
    assert server.questions[-1] == {"text": TEXT, "flat": False}
    assert len(page.chips()) == 3


def test_switch_is_reset_if_its_request_fails(page: Page, server: StandIn) -> None:
    page.find(TEXT)
    server.answer = lambda _: Answer({"detail": "no"}, 500)
    page.one("#shapes [value=flat]").click()
    page.settle()
    assert page.one("#error").text
    assert page.one("#shapes [value=nested]").is_selected()
    assert len(page.chips()) == 3


@pytest.mark.parametrize(("select", "value"), [("flat", "flat"), ("nested", "nested"), ("soft-nms", "own")])
def test_overlaps_start_with_the_setting_of_the_model(
    open_page: Open, server: StandIn, select: str, value: str
) -> None:
    server.model["select"] = select
    page = open_page()
    page.until(page.chips)
    page.find(TEXT)
    assert server.questions[1:] == [{"text": TEXT}]
    assert page.one("#shapes input:checked").get_property("value") == value
    assert page.texts("#shapes label") == ["Nested", "Flat", *(["soft-nms"] if value == "own" else [])]


# ------------------------------------------------------------------------------------------------ two models


@pytest.fixture
def two(server: StandIn) -> StandIn:
    """A server of two models, of which the second finds only one entity."""
    first = {name: value for name, value in MODEL.items() if name not in ("version", "limits")}
    second = {**first, "name": "second", "engine": "onnx", "select": "flat", "types": ["place"]}
    server.model["models"] = [first, second]
    server.answer = lambda body: (
        make_answer(LISBON) if body["model"] == "second" else make_answer(MAYOR, LISBON, ADA)
    )
    return server


def test_page_compares_two_models(open_page: Open, two: StandIn) -> None:
    page = open_page()
    page.until(page.chips)
    assert two.questions[0]["model"] == "stand-in"
    assert page.one("#version").text == "Fencepost 0.1.0"
    page.find(TEXT)
    two.requests.clear()
    Select(page.one("#second")).select_by_visible_text("second")
    page.until(lambda: len(page.chips()) == 4)
    questions = sorted(two.questions, key=lambda question: question["model"])
    assert questions == [{"text": TEXT, "model": "second"}, {"text": TEXT, "model": "stand-in"}]
    assert page.texts("h3") == ["stand-in: 3 entities", "second: 1 entity"]
    assert [row[0] for row in rows(page)] == [
        *("stand-in: 3 entities", "The mayor of Lisbon", "Lisbon", "Ada Lovelace"),
        *("second: 1 entity", "Lisbon"),
    ]
    page.slide(0.85)
    assert page.chips() == ["place 0.91", "person 0.97", "place 0.91"]
    assert page.one("#count").text == "3 of 4 shown"
    link = copy_link(page)
    assert link.endswith("model=stand-in&model=second")
    page = open_page(f"#{link.partition('#')[2]}")
    page.until(page.chips)
    assert page.texts("h3") == ["stand-in: 3 entities", "second: 1 entity"]
    Select(page.one("#first")).select_by_visible_text("second")  # then there is only one model
    page.until(lambda: page.texts("h3") == ["second: 1 entity"])
    assert page.one("#model").text.split("\n")[1::2][:3] == ["second", "boundary-smoothing", "onnx"]
    assert page.one("#shapes input:checked").get_property("value") == "flat"


def test_failed_comparison_draws_neither_model(open_page: Open, two: StandIn) -> None:
    page = open_page()
    page.until(page.chips)
    Select(page.one("#second")).select_by_visible_text("second")
    page.until(lambda: len(page.texts("h3")) == 2)
    two.answer = lambda body: Answer({"detail": "no"}, 500) if body["model"] == "second" else make_answer(ADA)
    page.find(TEXT)
    assert "status 500" in page.one("#error").text
    assert not page.every("#result")


def test_one_model_offers_no_comparison(page: Page) -> None:
    assert not page.every("#models, h3, .heading-row")


# ------------------------------------------------------------------------------------------------ the tooltip


def point(page: Page, covered: str, *, name: str = "pointermove", device: str = "mouse") -> None:
    page.script(
        "const [name, x, y, pointerType] = arguments;"
        "document.elementFromPoint(x, y).dispatchEvent("
        "  new PointerEvent(name, {bubbles: true, clientX: x, clientY: y, pointerType}))",
        *(name, *page.point_at(covered), device),
    )


def test_pointing_at_an_entity_shows_its_details(page: Page, browser: webdriver.Chrome) -> None:
    page.find(TEXT)
    left, top = page.point_at("Lisbon")
    pointer = ActionBuilder(browser)
    pointer.pointer_action.move_to_location(round(left), round(top))
    pointer.perform()
    assert "\n".join(tip(page)).split("\n") == [
        *("place, confidence 0.9100", "characters 13–19", "Lisbon"),
        *("person, confidence 0.8000", "characters 0–19", "The mayor of Lisbon"),
    ]
    assert page.texts(".chip.lit") == ["place 0.91"]
    assert len(page.every(".bar.lit")) == 1
    ActionChains(browser).move_to_element(page.every(".chip")[0]).perform()
    page.until(lambda: tip(page) == ["person, confidence 0.8000\ncharacters 0–19\nThe mayor of Lisbon"])
    ActionChains(browser).move_to_element(page.one("h1")).perform()
    page.until(lambda: not tip(page))
    assert not page.every(".lit")


def test_tooltip_has_only_visible_entities_and_closes_with_escape(
    page: Page, browser: webdriver.Chrome
) -> None:
    page.find(TEXT)
    page.slide(0.9)
    point(page, "Lisbon")
    assert tip(page) == ["place, confidence 0.9100\ncharacters 13–19\nLisbon"]
    ActionChains(browser).send_keys(Keys.ESCAPE).perform()
    assert not tip(page)


def test_tooltip_opened_by_touch_stays_until_the_next_touch(page: Page) -> None:
    page.find(TEXT)
    point(page, "The mayor", name="pointerdown", device="touch")
    page.script(
        "document.getElementById('drawn').dispatchEvent("
        "  new PointerEvent('pointerleave', {pointerType: 'touch'}))"
    )
    page.script_async("setTimeout(done, 200)")
    assert tip(page) == ["person, confidence 0.8000\ncharacters 0–19\nThe mayor of Lisbon"]
    page.script(
        "document.querySelector('h1').dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))"
    )
    assert not tip(page)
    point(page, "The mayor", name="pointerdown", device="touch")
    assert tip(page)
    page.width(500)  # like a rotated phone, where the tooltip would be misplaced
    page.until(lambda: not tip(page))


# ---------------------------------------------------------------------------------------------------- copying


def test_copies_visible_entities_and_options(page: Page, browser: webdriver.Chrome, server: StandIn) -> None:
    browser.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    page.find(TEXT)
    page.slide(0.85)
    page.one("#copy").click()
    page.until(lambda: page.one("#copied").text == "Copied 2 entities as JSON.")
    copied = page.script_async("navigator.clipboard.readText().then((text) => done(JSON.parse(text)))")
    assert copied == {"text": TEXT, "options": {"min_confidence": 0.85}, "entities": [LISBON, ADA]}


def test_copies_without_a_clipboard_api(page: Page) -> None:
    page.find(TEXT)
    page.one("#types [value=person]").click()
    page.one("#shapes [value=flat]").click()
    page.settle()
    page.script(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.execCommand = (command) => {"
        "  window.copied = command === 'copy' && JSON.parse(document.activeElement.value); return true }"
    )
    page.one("#copy").click()
    page.until(lambda: page.one("#copied").text == "Copied 1 entity as JSON.")
    assert page.script("return window.copied") == {
        "text": TEXT,
        "options": {"min_confidence": 0, "types": ["place"], "flat": True},
        "entities": [LISBON],
    }
    assert focused(page) == "copy"


def copy_link(page: Page) -> str:
    page.script(
        "window.copied = null;navigator.clipboard.writeText = async (text) => { window.copied = text }"
    )
    page.one("#copy-link").click()
    page.until(lambda: page.texts("#copied"))
    return page.script("return window.copied")


def test_link_restores_text_and_filters(open_page: Open, server: StandIn) -> None:
    text = f"{TEXT}\n<b>100 %</b> & #1 + 😀 = 'ü'"
    page = open_page()
    page.until(page.chips)
    page.find(text)
    page.slide(0.9)
    page.one("#types [value=person]").click()
    page.one("#shapes [value=flat]").click()
    page.settle()
    link = copy_link(page)
    assert page.one("#copied").text == "Copied the link, which contains the text."
    assert page.browser.current_url == server.url
    address, fragment = link.split("#")
    assert address == server.url
    server.requests.clear()
    page = open_page(f"#{fragment}")
    page.until(page.chips)
    page.settle()
    assert server.questions == [{"text": text, "flat": True}]
    assert page.read_text() == page.one("#text").get_property("value") == text
    assert page.one("#least-value").text == "0.90"
    assert page.one("#shapes input:checked").get_property("value") == "flat"
    assert not page.one("#types [value=person]").is_selected()
    assert page.chips() == ["place 0.91"]
    assert copy_link(page) == link
    assert {request.path for request in server.requests} == {"/v1/model", "/v1/entities"}


def test_another_link_can_be_opened_in_the_same_page(page: Page, server: StandIn) -> None:
    server.answer = lambda _: make_answer()
    page.script("location.hash = '#text=Ada+was+here&min=nonsense&overlaps=nonsense'")
    page.until(lambda: server.questions)
    page.settle()
    assert server.questions == [{"text": "Ada was here"}]
    assert page.one("#least-value").text == "0.00"
    page.script("location.hash = '#text'")  # like the link that skips to the text
    page.frames(3)
    assert len(server.questions) == 1


def test_failed_link_shows_an_error(open_page: Open, server: StandIn) -> None:
    server.answer = lambda _: Answer({"detail": "no"}, 500)
    page = open_page("#text=Ada")
    page.until(lambda: page.every("#error"))
    assert page.one("#text").get_property("value") == "Ada"


def test_long_text_has_no_link(page: Page) -> None:
    page.find("Ada Lovelace " * 400)
    assert copy_link(page) is None
    assert page.one("#copied").text == "This text is too long for a link: at most 4,000 characters."


# ----------------------------------------------------------------------------------------- waiting and errors


def test_second_request_cancels_the_first(page: Page, server: StandIn) -> None:
    release = threading.Event()
    page.script(  # answers arrive even if cancelling is too late
        "const real = window.fetch; window.signals = []; window.answered = 0;"
        "window.fetch = async (path, {signal, ...others}) => {"
        "  signals.push(signal); const answer = await real(path, others); answered++; return answer }"
    )

    def answer(body: Any) -> Answer:
        if body["text"] == TEXT:
            assert release.wait(20)
            return make_answer(MAYOR)
        return make_answer(entity(body["text"], "second", "place", 0.5))

    server.answer = answer
    page.write(TEXT)
    page.one("#find").click()
    page.until(lambda: server.questions)
    assert page.one("#find").text == "Finding…"
    assert page.one("#status").text == "Finding entities…"
    assert page.one("#result").get_attribute("aria-busy") == "true"
    page.find("the second text")
    assert page.script("return signals.map((signal) => signal.aborted)") == [True, False]
    assert page.read_text() == "the second text"
    release.set()
    page.until(lambda: page.script("return window.answered") == 2)
    page.script_async("setTimeout(done, 50)")
    assert page.read_text() == "the second text"
    assert page.one("#result").get_attribute("aria-busy") == "false"
    assert not page.every("#error")


def test_request_can_be_stopped(page: Page, server: StandIn) -> None:
    release = threading.Event()
    server.answer = lambda _: make_answer(MAYOR) if release.wait(20) else make_answer()
    page.write(TEXT)
    page.one("#find").click()
    page.until(lambda: server.questions)
    page.one("#stop").click()
    assert page.one("#status").text == "Stopped."
    release.set()
    page.script_async("setTimeout(done, 100)")
    assert page.read_text().startswith(EXAMPLE)
    assert not page.every("#stop")


def test_empty_text_resets_the_switch(page: Page, server: StandIn) -> None:
    page.find(TEXT)
    release = threading.Event()
    server.answer = lambda _: make_answer(MAYOR) if release.wait(20) else make_answer()
    page.write("another text")
    page.one("#find").click()
    page.until(lambda: len(server.questions) == 2)
    page.script("document.querySelector('#shapes input[value=flat]').click()")
    page.until(lambda: len(server.questions) == 3)
    page.write("")
    page.one("#find").click()
    release.set()
    assert page.script("return document.querySelector('#shapes input:checked').value") == "nested"
    page.script("document.querySelector('#shapes input[value=flat]').click()")
    page.until(lambda: len(server.questions) == 4)
    assert server.questions[-1]["text"] == TEXT


def test_stopped_server_shows_an_error(browser: webdriver.Chrome) -> None:
    with stand_in_server() as server:
        page = Page(browser, server.url)
        page.until(lambda: page.every("#model"))
        page.find(TEXT)
    page.find("another text")
    assert page.one("#error").text.startswith("The server cannot be reached.")
    assert not page.every("#result")  # the result of another text is removed


REFUSALS = {
    "too large": (
        Answer({"detail": "too long"}, 413),
        "too large for this server. It accepts at most 1,048,576 bytes and 25,000 words. Split",
    ),
    "fields": (
        Answer({"detail": [{"loc": ["body", "text"], "msg": "Input should be shorter", "type": "x"}]}, 422),
        "text: Input should be shorter",
    ),
    "busy": (Answer({"detail": "slow"}, 429, {"Retry-After": "7"}), "Try again in 7 seconds."),
    "busy for a second": (Answer({"detail": "slow"}, 429, {"Retry-After": "1"}), "Try again in 1 second."),
    "busy for some time": (Answer({"detail": "slow"}, 429), "Try again later."),
    "failed": (
        Answer({"detail": "the model failed"}, 500),
        "status 500. Message of the server: the model failed",
    ),
    "not now": (Answer({"detail": "no answer in time"}, 503), "at the moment. Try again later."),
    "no JSON": (Answer(b"<h1>proxy</h1>"), "not JSON"),
    "no JSON, refused": (Answer(b"<h1>proxy</h1>", 502), "status 502."),
    "another answer": (Answer({"entities": []}), "not in the format of this page"),
    "wrong offsets": (make_answer({**ADA, "end": 99}), "not in the format of this page"),
}


def test_refusals_are_explained(page: Page, server: StandIn) -> None:
    for name, (answer, words) in REFUSALS.items():
        server.answer = lambda _, answer=answer: answer
        page.find(TEXT)
        assert words in page.one("#error").text, name
        assert not page.every("#result"), name
    assert page.one("#error").get_attribute("role") == "alert"
    server.answer = lambda _: make_answer(ADA)
    page.find(TEXT)
    assert not page.every("#error")
    assert page.chips() == ["person 0.97"]


def test_text_above_the_limit_is_not_sent(open_page: Open, server: StandIn) -> None:
    server.model["limits"] = {"texts": 1, "body": 100}
    page = open_page()
    page.until(lambda: page.every("#model"))
    page.find("é" * 60)  # two bytes each
    message = page.one("#error").text
    assert "at most 100 bytes, and this text has 131." in message
    assert server.questions == []


def test_token_is_requested_and_kept_only_in_memory(open_page: Open, server: StandIn) -> None:
    server.token = "s3cret"
    page = open_page()
    page.until(lambda: page.every("#access"))
    page.find(TEXT)
    assert page.one("#error").text.startswith("This server requires an access token")
    assert focused(page) == "token"
    page.one("#token").send_keys("wrong", Keys.ENTER)
    page.until(lambda: page.one("#error").text == "The server does not accept this token.")
    page.one("#token").send_keys("not a tokén", Keys.ENTER)
    page.until(lambda: page.one("#error").text.startswith("A token has no spaces"))
    page.one("#token").clear()
    page.one("#token").send_keys("s3cret", Keys.ENTER)
    page.until(page.chips)
    assert server.requests[-1].token == "Bearer s3cret"
    assert not page.every("#access")
    assert not page.every("#error")
    page.until(lambda: page.every("#model"))
    assert page.script("return localStorage.length + sessionStorage.length + document.cookie.length") == 0
    assert "s3cret" not in page.browser.page_source
    assert page.browser.current_url == server.url


def test_entering_the_token_sends_the_current_text(open_page: Open, server: StandIn) -> None:
    server.token = "s3cret"
    page = open_page()
    page.until(lambda: page.every("#access"))
    page.one("#token").send_keys("wrong", Keys.ENTER)
    page.until(lambda: page.one("#error").text == "The server does not accept this token.")
    assert focused(page) == "token"
    page.find("an older text")
    page.write(TEXT)
    page.one("#token").send_keys("s3cret", Keys.ENTER)
    page.until(page.chips)
    assert page.read_text() == TEXT


# ----------------------------------------------------------------------------------------------- hostile text


def test_markup_in_text_types_and_messages_is_escaped(open_page: Open, server: StandIn) -> None:
    bad = "<img src=x onerror='window.harmed=1'></script><script>window.harmed=1</script>"
    text = f"{bad} & {bad}"
    server.model |= {"name": bad, "method": bad, "select": bad, "version": bad, "types": [bad]}
    server.answer = lambda _: make_answer(entity(text, bad, bad, 0.5), entity(text, text, bad, 0.4))
    page = open_page()
    page.until(lambda: page.every("#model"))
    page.find(text)
    assert page.read_text() == text
    assert rows(page)[1][:2] == [bad, bad]
    assert page.one("#types .name").text == bad
    page.script("document.querySelector('.chip').focus()")
    assert bad in tip(page)[0]
    server.answer = lambda _: Answer({"detail": bad}, 500)
    page.find(text)
    assert bad in page.one("#error").text
    assert page.script("return window.harmed ?? document.querySelectorAll('img, body script').length") == 0


def test_offsets_count_code_points(page: Page, server: StandIn) -> None:
    text = "👩‍👩‍👧 𝔄𝔡𝔞 e\u0301cole 𝔏isbon, שלום עולם 🎉"
    covered = ["𝔄𝔡𝔞", "e\u0301cole", "𝔏isbon", "שלום עולם", "🎉"]
    server.answer = lambda _: make_answer(*(entity(text, part, "place", 0.5) for part in covered))
    page.find(text)
    assert page.read_text() == text
    assert [page.bars(part) for part in covered] == [[PLACE]] * 5
    assert [row[-1] for row in rows(page)] == [
        f"{text.index(part)}–{text.index(part) + len(part)}" for part in covered
    ]


def test_right_to_left_text_starts_on_the_right(page: Page, server: StandIn) -> None:
    text = "ירושלים היא עיר\nLisbon is a city"
    server.answer = lambda _: make_answer(
        entity(text, "ירושלים", "place", 0.5), entity(text, "Lisbon", "place", 0.6)
    )
    page.find(text)
    places = page.script(
        "return [...document.querySelectorAll('.bar, .chip')].map((element) => {"
        "  const own = element.getBoundingClientRect(), all = element.parentElement.getBoundingClientRect();"
        "  return [own.left - all.left, all.right - own.right] })"
    )
    hebrew, latin = places[:2], places[2:]
    assert all(right < 6 < left for left, right in hebrew)
    assert all(left < 6 < right for left, right in latin)
    assert page.chips() == ["place 0.50", "place 0.60"]


def test_lone_surrogate_is_replaced(page: Page, server: StandIn) -> None:
    server.answer = lambda body: make_answer(entity(body["text"], "Ada", "person", 0.5))
    page.script("document.getElementById('text').value = '\\ud83d Ada'")
    page.one("#find").click()
    page.settle()
    assert server.questions == [{"text": "\ufffd Ada"}]
    assert page.bars("Ada") == [PERSON]


# ---------------------------------------------------------------------------------- screens and accessibility


def test_narrow_screen_has_no_overflow(open_page: Open, server: StandIn) -> None:
    text = f"{TEXT} {'Donaudampfschiff' * 40} {TEXT}"
    whole = entity(text, text, "a-type-with-a-very-long-name-of-its-own", 0.5)
    server.answer = lambda _: make_answer(MAYOR, LISBON, ADA, whole)
    server.model["name"] = "m" * 80
    server.token = "t"
    page = open_page()
    page.width(360)
    page.until(lambda: page.every("#access"))
    assert overflow(page) == 0
    page.find(text)
    assert page.one("#error").text
    assert overflow(page) == 0
    page.one("#token").send_keys("t", Keys.ENTER)
    page.until(page.chips)
    assert overflow(page) == 0
    edges = page.script(
        "return [...document.querySelectorAll('.piece, .chip, tr')].flatMap((e) => [...e.getClientRects()])"
        ".map((edge) => edge.right)"
    )
    assert max(edges) <= 360  # nothing is clipped either
    page.script("document.querySelector('.chip').focus()")
    assert tip(page)
    assert overflow(page) == 0


def test_result_is_above_the_filters_on_a_narrow_screen(page: Page) -> None:
    page.find(TEXT)
    tops = {name: page.one(name).rect["y"] for name in ("#drawn", "#list", ".filters")}
    assert tops[".filters"] <= tops["#drawn"]
    page.width(360)
    tops = {name: page.one(name).rect["y"] for name in ("#drawn", "#list", ".filters")}
    assert tops["#drawn"] < tops["#list"] < tops[".filters"]


def test_label_is_below_the_start_of_its_entity(page: Page, server: StandIn) -> None:
    text = "some words and Ada, " * 30
    ends = (entity(text, "Ada", "organization", 0.5, occurrence=n) for n in range(30))
    server.answer = lambda _: make_answer(*ends)
    page.width(360)
    page.find(text)
    apart = page.script(
        "const bars = [...document.querySelectorAll('.bar')].map((bar) => bar.getBoundingClientRect());"
        "return [...document.querySelectorAll('.chip')].map((chip) => {"
        "  const {left, right, top} = chip.getBoundingClientRect();"
        "  return bars.some((bar) => Math.abs(bar.bottom - top) < 1 && left <= bar.left + 1 &&"
        "    bar.left < right) })"
    )
    assert apart == [True] * 30
    assert not overlaps(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_labels_have_enough_contrast(page: Page, server: StandIn, scheme: str) -> None:
    words = "zero one two three four five six seven eight nine"
    server.answer = lambda _: make_answer(
        *(entity(words, word, f"type {word}", 0.5) for word in words.split())
    )
    page.colours(scheme)
    page.find(words)
    pairs = page.script(
        "return [...document.querySelectorAll('.chip, #status, #drawn, .primary, th')].map((e) => {"
        "  const under = (at) => getComputedStyle(at).backgroundColor;"
        "  let at = e; while (under(at) === 'rgba(0, 0, 0, 0)') at = at.parentElement;"
        "  return [getComputedStyle(e).color, under(at)] })"
    )
    assert len({ink for ink, _ in pairs}) >= 12
    assert min(contrast(*pair) for pair in pairs) >= 4.5


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as a browser writes them, by the formula of WCAG 2."""

    def luminance(colour: str) -> float:
        channels = [float(number) for number in re.findall(r"[\d.]+", colour)[:3]]
        scaled = channels if colour.startswith("color(srgb") else [channel / 255 for channel in channels]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in scaled]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dark + 0.05)


def test_page_can_be_used_with_the_keyboard_only(
    page: Page, browser: webdriver.Chrome, server: StandIn
) -> None:
    def press(*keys: str) -> str:
        ActionChains(browser).send_keys(*keys).perform()
        return focused(page)

    assert press(Keys.TAB) == "Skip to the text"
    assert press(Keys.ENTER, Keys.TAB) in {"text", "find"}
    page.script("document.getElementById('text').select()")
    press(TEXT)
    ActionChains(browser).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    page.until(lambda: page.read_text() == TEXT)
    assert server.questions == [{"text": TEXT}]
    stops = []
    while not stops or stops[-1] != "copy-link":
        stops.append(press(Keys.TAB))
        assert len(stops) < 20
        assert page.script(
            "const at = document.activeElement, shown = at.type === 'radio' ? at.nextElementSibling : at;"
            "return getComputedStyle(shown).outlineStyle"
        ) in {"solid", "auto"}
    assert stops == [
        "find", "clear", "News", "Biomedical", "Sport", "person 0.80", "The mayor of Lisbon",
        "least", "nested", "all", "none", "person", "place", "copy", "copy-link",
    ]  # fmt: skip
    page.script("document.querySelector('.chip').focus()")
    assert tip(page)[0].startswith("person, confidence 0.8000\ncharacters 0–19")
    assert page.one("#tip").rect["y"] > page.one(".chip").rect["y"]  # it does not cover the entity
    assert press(Keys.ARROW_RIGHT) == "place 0.91"
    assert press(Keys.END) == "person 0.97"
    assert press(Keys.ARROW_RIGHT) == "person 0.97"
    assert press(Keys.ARROW_LEFT) == "place 0.91"
    assert press(Keys.TAB) == "The mayor of Lisbon"
    assert press(Keys.ARROW_DOWN) == "Lisbon"
    assert press(Keys.ENTER) == "place 0.91"
    page.script("document.getElementById('least').focus()")
    press(*[Keys.ARROW_UP] * 3)
    page.until(lambda: page.one("#least-value").text == "0.03")


def test_tab_still_reaches_the_entities_after_filtering(page: Page, browser: webdriver.Chrome) -> None:
    page.find(TEXT)
    page.slide(0.95)
    page.script("document.querySelector('#examples button:nth-of-type(3)').focus()")
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert focused(page) == "person 0.97"
    ActionChains(browser).send_keys(Keys.TAB).perform()
    assert focused(page) == "Ada Lovelace"


def test_changes_are_announced_once_after_they_stop(page: Page) -> None:
    page.find(TEXT)
    status = page.one("#status")
    assert status.get_attribute("aria-live") == "polite"
    page.script(
        "window.said = []; const status = document.getElementById('status');"
        "new MutationObserver(() => said.push(status.textContent)).observe(status, {childList: true})"
    )
    for least in (0.5, 0.85, 0.92):
        page.slide(least)
    page.until(lambda: status.text == "1 of 3 shown.")
    assert page.script("return window.said") == ["1 of 3 shown."]


def test_controls_and_sections_have_accessible_names(page: Page) -> None:
    page.find(TEXT)
    nameless = page.script(
        "return [...document.querySelectorAll('input, textarea, button, select')]"
        ".filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel)).map((e) => e.outerHTML)"
    )
    assert nameless == []
    assert page.one("html").get_attribute("lang") == "en"
    assert [len(page.every(tag)) for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
    assert page.texts("h2") == ["Your text", "In the text", "As a list", "Filter"]
    labels = page.script("return [...document.querySelectorAll('.chip')].map((chip) => chip.ariaLabel)")
    assert labels == ["person 0.80: The mayor of Lisbon", "place 0.91: Lisbon", "person 0.97: Ada Lovelace"]
    named = page.script(
        "return [...document.querySelectorAll('section')].every((s) => "
        "document.getElementById(s.getAttribute('aria-labelledby'))?.textContent)"
    )
    assert named


# ------------------------------------------------------------------------------------ large texts and network


def test_slider_step_changes_only_a_few_elements_of_a_large_text(page: Page, server: StandIn) -> None:
    words = [f"word{number}" for number in range(10_000)]
    text = " ".join(words)
    starts, at = [], 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    entities = [
        {"start": starts[n * 3], "end": starts[n * 3 + 1 + n % 5] - 1, "type": f"t{n % 7}", "score": n / 3000}
        for n in range(3000)
    ]
    server.answer = lambda _: make_answer(*entities)
    page.find(text)
    assert page.read_text() == text
    before = nodes(page)
    assert before < 15 * len(entities)
    page.slide(0.5)
    page.script(
        "window.touched = new Set(); new MutationObserver((records) => records.forEach((r) => "
        "touched.add(r.target))).observe(document.body, {subtree: true, attributes: true, childList: true})"
    )
    page.slide(0.51)
    touched = page.script("return window.touched.size")
    assert 60 <= touched < 400  # 30 entities: labels, rows, pieces of text, counts
    assert nodes(page) == before
    assert page.one("#count").text == "1470 of 3000 shown"


def test_page_connects_only_to_its_own_server(page: Page, server: StandIn) -> None:
    page.find(TEXT)
    page.slide(0.5)
    page.one("#shapes [value=flat]").click()
    page.settle()
    loaded = page.script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert {name.removeprefix(server.url) for name in loaded} == {
        "page/style.css",
        "page/app.js",
        "v1/model",
        "v1/entities",
    }
    assert page.complaints() == []


def test_page_works_with_the_real_server(browser: webdriver.Chrome, real_server: str) -> None:
    browser.get_log("browser")
    page = Page(browser, real_server)
    page.until(lambda: page.one("#status").text.startswith("No entities found"))
    page.find("Hello ADA 👋 from LISBON.")
    assert page.chips() == ["PER 0.30", "LOC 0.60"]
    assert [row[-1] for row in rows(page)] == ["6–9", "17–23"]
    page.one("#shapes [value=flat]").click()
    page.settle()
    assert page.chips() == ["PER 0.30", "LOC 0.60"]
    page.find("the POISON")
    assert "status 500" in page.one("#error").text
    assert all("status of 500" in message for message in page.complaints())
