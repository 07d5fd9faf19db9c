"""The page of an audit: its content, its safety, and its behaviour in a browser."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from fencepost.analysis.audit.fixing import apply_suggestions, read_accepted
from fencepost.analysis.audit.page import MARK, AuditPage, render
from fencepost.analysis.audit.predictions import AuditPredictions
from fencepost.analysis.audit.suggestions import Suggestion
from fencepost.analysis.consistency import find_inconsistencies
from fencepost.data.entity import Entity, Sentence
from tests.analysis.pages import Page
from tests.server.browser import chromium

HOSTILE = "</script><script>alert(1)</script>"
SENTENCES = [
    Sentence(["Ada", "of", "Rome", HOSTILE], [Entity(0, 1, "person")], id="<i>1</i>"),
    Sentence(["Rome", "and", "Ada"], [Entity(0, 1, "person"), Entity(2, 3, "person")]),
    Sentence(["to", "Rome"], [Entity(1, 2, "place")]),
]
PREDICTED = [
    SENTENCES[0].with_entities([Entity(0, 3, "person", 0.9)]),
    SENTENCES[1].with_entities([Entity(0, 1, "place", 0.8)]),
    SENTENCES[2],
]
SUGGESTIONS = [
    Suggestion("boundary", 0, SENTENCES[0].entities[0], PREDICTED[0].entities[0], 0.9, 0.0),
    Suggestion("type", 1, SENTENCES[1].entities[0], PREDICTED[1].entities[0], 0.6, 0.0),
    Suggestion("spurious", 1, SENTENCES[1].entities[1], None, 0.1, 0.0),
]


def page(**changes) -> str:
    predictions = AuditPredictions(SENTENCES, [{}] * 3, [{}] * 3, PREDICTED)
    contents = {"predictions": predictions, "suggestions": SUGGESTIONS, **changes}
    return render(AuditPage("corpus.jsonl", SENTENCES, find_inconsistencies(SENTENCES), **contents))


def test_page_has_suggestions_and_inconsistencies_escaped():
    html = page()
    assert html.startswith(MARK)
    read = Page(html)
    assert [one["data-kind"] for one in read.tags("article")] == ["boundary", "type", "spurious"]
    assert "change person “ Ada ” to person “ Ada of Rome ”" in read.text
    assert "remove person “ Ada ”" in read.text
    assert "1 place ; 1 person" in read.text or "1 person ; 1 place" in read.text
    assert len(read.tags("script")) == 2
    assert "alert(1)</script>" not in html
    assert "<i>1" not in html
    [data] = re.findall(r'id="data">(.*?)</script>', html)
    assert json.loads(data)[0]["words"][-1] == HOSTILE


def test_page_shows_the_first_suggestions_or_none():
    html = page(top=2)
    assert len(Page(html).tags("article")) == 2
    assert "first 2 of 3" in Page(html).text
    assert "no models were trained" in Page(page(predictions=None, suggestions=())).text
    none = Page(page(suggestions=()))
    assert "There are no suggestions: the models predict all annotations" in none.text
    assert none.tags("script") == []


@pytest.fixture
def browser(tmp_path):
    with chromium(tmp_path / "profile") as driver:
        downloads = {"behavior": "allow", "downloadPath": str(tmp_path)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", downloads)
        yield driver


def test_keys_filters_and_download_work_in_a_browser(browser, tmp_path: Path):
    (tmp_path / "audit.html").write_text(page(), encoding="utf-8")
    browser.get((tmp_path / "audit.html").as_uri())

    def counts() -> str:
        return browser.find_element(By.ID, "counts").text

    def read_kinds() -> list[str]:
        cards = browser.find_elements(By.TAG_NAME, "article")
        return [card.get_attribute("data-kind") for card in cards if card.is_displayed()]

    def press(keys: str) -> None:
        for key in keys:
            browser.find_element(By.TAG_NAME, "body").send_keys(key)

    assert counts() == "3 shown; 0 accepted, 0 rejected, 3 undecided"
    press("ara")  # each moves on
    assert counts() == "3 shown; 2 accepted, 1 rejected, 0 undecided"
    press("u")
    assert counts() == "3 shown; 1 accepted, 1 rejected, 1 undecided"
    browser.refresh()
    assert counts() == "3 shown; 1 accepted, 1 rejected, 1 undecided"
    Select(browser.find_element(By.ID, "by-type")).select_by_visible_text("place")
    assert read_kinds() == ["type"]
    Select(browser.find_element(By.ID, "by-type")).select_by_visible_text("all")
    Select(browser.find_element(By.ID, "by-kind")).select_by_visible_text("spurious")
    assert read_kinds() == ["spurious"]
    press("jd")
    target = tmp_path / "accepted.jsonl"
    for _ in range(200):
        if target.exists():
            break
        time.sleep(0.05)
    fixed = list(apply_suggestions(SENTENCES, read_accepted(target), str(target)))
    assert [entity.key for entity in fixed[0].entities] == [(0, 3, "person")]
    assert fixed[1:] == SENTENCES[1:]
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
