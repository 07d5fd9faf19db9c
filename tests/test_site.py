"""The documentation site: it builds without a network, its links and its references are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from fencepost.cli import app
from tools.site import OUTSIDE_PAGES

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    dead = {
        "http_proxy": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "NO_MKDOCS_2_WARNING": "1",
    }
    result = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **dead}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return out


def test_every_page_is_in_the_navigation():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = re.findall(r"[\w-]+\.md", str(config["nav"]))
    assert sorted(listed) == sorted([*OUTSIDE_PAGES, *(page.name for page in (ROOT / "docs").glob("*.md"))])


def test_pages_load_no_external_resources(site):
    for page in site.rglob("*.html"):
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"?(https?:[^\s\">]+)", html)
        assert loaded == [], page


def test_command_reference_has_every_command_and_option(site):
    html = (site / "commands.html").read_text(encoding="utf-8")

    def walk(command, path):
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, f"{path} {name}")
        if not hasattr(command, "commands"):
            yield path, command

    for path, command in walk(typer.main.get_command(app), "fencepost"):
        begin = html.index(f'<h2 id="{path.replace(" ", "-")}"')
        end = html.find("<h2 ", begin + 1)
        section = html[begin:end]
        for parameter in command.params:
            for option in parameter.opts if parameter.param_type_name == "option" else ():
                assert f"<code>{option}</code>" in section, (path, option)


def test_settings_page_has_the_generated_tables(site):
    html = (site / "settings.html").read_text(encoding="utf-8")
    assert "<!-- the settings -->" not in html
    for key in (
        "encoder.name",
        "training.epochs",
        "predict.select",
        "text.lines",
        "method.epsilon",
        "predict.steps",
    ):
        assert f"<code>{key}</code>" in html


def test_deployment_page_quotes_the_files(site):
    html = (site / "deploy.html").read_text(encoding="utf-8")
    for word in ("HEALTHCHECK", "DynamicUser", "readinessProbe"):
        assert word in html


def test_python_reference_has_every_exported_name(site):
    import fencepost

    html = (site / "api.html").read_text(encoding="utf-8")
    for name in fencepost.__all__:
        if not name.startswith("__"):
            assert f'id="fencepost.{name}"' in html, name
