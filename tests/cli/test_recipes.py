"""`recipes` and `train --recipe`, as a user runs them."""

from __future__ import annotations

import json
from itertools import islice

import pytest
import yaml

from fencepost.config import Config
from fencepost.data import read, write
from fencepost.experiments.recipes import recipe, recipes

SMALL = {
    "boundary-smoothing/conll2003": ["method.size=8"],
    "boundary-offset/ace2004": ["method.size=8", "method.region_size=4"],
    "locate-and-label/genia": ["method.size=8", "encoder.features.characters=4", "method.lengths=[1,2,3]"],
    "diffusion/genia": ["method.size=16", "method.feed_forward=16", "method.pointer_size=8"],
}
"""One recipe of each method, with sizes for a test."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The first sentences of the sample."""
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    write(islice(read("sample:train"), 24), path)
    return path


def test_lists_recipes_with_paper_corpus_encoder_and_score(run):
    head, *rows = run("recipes").stdout.splitlines()
    assert head.split() == ["recipe", "paper", "corpus", "encoder", "F1"]
    assert len(rows) == len(recipes())
    for row, one in zip(rows, recipes(), strict=True):
        assert row.startswith(f"{one.name} ")
        assert row.endswith(f"{one.f1:.2f}")
        assert all(f"  {part}" in row for part in (one.paper, one.corpus, one.encoder))


def test_prints_a_recipe_as_a_valid_config(run, tmp_path):
    content = yaml.safe_load(run("recipes", "locate-and-label/genia").stdout)
    assert content["f1"] == 80.54
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(content["config"]))
    assert Config.compose(file) == Config.compose(base=recipe("locate-and-label/genia").config)


def test_prints_list_and_recipe_as_json(run, tmp_path):
    listed = json.loads(run("recipes", "--json").stdout)["recipes"]
    assert [one["name"] for one in listed] == [one.name for one in recipes()]
    file = tmp_path / "recipe.json"
    printed = run("recipes", "diffusion/genia", "--json", file)
    assert printed.stdout == recipe("diffusion/genia").text
    content = json.loads(file.read_text())
    assert content.pop("fencepost")
    assert content == next(one for one in listed if one["name"] == "diffusion/genia")


def test_unknown_recipe_suggests_the_nearest(run):
    for arguments in (["recipes", "diffusion/genea"], ["train", "--recipe", "diffusion/genea"]):
        message = run(*arguments, code=2).stderr
        assert "there is no recipe 'diffusion/genea'; did you mean diffusion/genia? there are " in message


def test_show_config_applies_changes_to_a_recipe(run, tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("training: {epochs: 7, batch_size: 7}\n")
    arguments = ["--recipe", "locate-and-label/ace2005", "--config", file, "--set", "training.batch_size=3"]
    text = run("train", *arguments, "--encoder", "scratch", "--epochs", "2", "--show-config").stdout
    expected = Config.compose(base=recipe("locate-and-label/ace2005").config).model_dump(mode="json")
    expected["training"] |= {"epochs": 2, "batch_size": 3}
    expected["encoder"]["name"] = "scratch"
    assert yaml.safe_load(text) == expected


def test_refuses_a_method_that_contradicts_the_recipe(run):
    arguments = ["train", "--recipe", "diffusion/genia", "--show-config", "--method"]
    message = run(*arguments, "boundary-offset", code=2).stderr
    assert "method.name: boundary-offset contradicts the recipe, which is for diffusion;" in message
    assert run(*arguments, "diffusion").stdout == run(*arguments[:-1]).stdout


@pytest.mark.parametrize("name", SMALL)
def test_trains_with_a_recipe_of_each_method(run, data, tmp_path, name):
    sizes = ["encoder.lstm.size=16", *SMALL[name]]
    changes = [part for change in sizes for part in ("--set", change)]
    out = tmp_path / "model"
    files = ["--train", data, "--dev", data, "--out", out]
    run("train", "--recipe", name, "--encoder", "scratch", "--epochs", 1, *changes, *files)
    saved = json.loads((out / "config.json").read_text())["config"]
    assert saved["method"]["name"] == name.split("/")[0]
    own = recipe(name).config
    for part in ("training", "predict"):
        values = {key: value for key, value in own.get(part, {}).items() if key != "epochs"}
        assert saved[part].items() >= values.items()
    (epoch,) = json.loads((out / "metrics.json").read_text())["epochs"]
    assert epoch["dev_loss"] > 0


def test_resumed_recipe_keeps_its_settings(run, data, tmp_path):
    out = tmp_path / "model"
    name = "boundary-smoothing/conll2003"
    sizes = [part for change in ("encoder.lstm.size=16", "method.size=8") for part in ("--set", change)]
    arguments = ["train", "--recipe", name, "--encoder", "scratch", "--epochs", 1, *sizes]
    arguments += ["--train", data, "--out", out]
    run(*arguments)
    for part in ("model.safetensors", "config.json", "metrics.json"):  # like after a kill
        (out / part).unlink()
    run("train", "--recipe", name, "--train", data, "--out", out, "--resume")
    saved = json.loads((out / "config.json").read_text())["config"]
    assert (saved["encoder"]["name"], saved["method"]["size"], saved["training"]["epochs"]) == (
        "scratch",
        8,
        1,
    )
