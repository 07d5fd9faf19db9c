"""`adapt`: an encoder learns from raw text, can be interrupted, and is used by `train`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel

from fencepost.config import Config
from fencepost.errors import LanguageWarning, UsageError
from fencepost.runtime.loading import load
from fencepost.training import adaptation, train
from fencepost.training.adaptation import AdaptSettings, adapt
from tests.encoder import tiny
from tests.runtime.models import NESTED, save_bert

WORDS = [line.split() for line in tiny.TEXT] * 5


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(tmp_path_factory.mktemp("bert"), cls_token_id=0)


def settings(encoder: Path, **changes: object) -> AdaptSettings:
    values = {"encoder": str(encoder), "epochs": 3, "batch_size": 4, "learning_rate": 3e-3, "length": 24}
    return AdaptSettings(**{**values, **changes})


def test_adapted_encoder_has_a_lower_loss_and_trains_a_model(encoder: Path, tmp_path: Path) -> None:
    result = adapt(settings(encoder, epochs=12), WORDS, tmp_path / "out")
    assert result.loss_after < 0.8 * result.loss_before
    assert not (tmp_path / "out" / "checkpoints").exists()
    modes = {(tmp_path / "out" / name).stat().st_mode for name in ("model.safetensors", "config.json")}
    assert len(modes) == 1
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["loss_after"] == result.loss_after
    before, after = (load_file(folder / "model.safetensors") for folder in (encoder, tmp_path / "out"))
    for folder in (encoder, tmp_path / "out"):
        assert json.loads((folder / "config.json").read_text())["attention_probs_dropout_prob"] == 0.1
    name = "encoder.layer.0.attention.self.query.weight"
    assert not before[name].equal(after[name])
    config = Config.compose(
        changes=[f"encoder.name={tmp_path / 'out'}", "training.epochs=1", "training.encoder_learning_rate=0"]
    )
    model = train(config, NESTED, tmp_path / "model").model
    assert model.state_dict()[f"encoder.embedder.transformer.{name}"].equal(after[name])
    assert load(tmp_path / "model").types == ("LOC", "ORG", "PER")


def test_resumed_adaptation_equals_an_uninterrupted_one(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped within an epoch, after a checkpoint: the weights are the same to the last bit."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = adapt(settings(encoder), WORDS, whole)
    monkeypatch.setattr(adaptation, "_SAVE_EVERY", 0)
    take_step, steps = adaptation._Run._take_step, []

    def stop(run: adaptation._Run, indices: object) -> float:
        if len(steps) == 23:
            raise KeyboardInterrupt
        steps.append(run.step)
        return take_step(run, indices)  # type: ignore[arg-type]

    monkeypatch.setattr(adaptation._Run, "_take_step", stop)
    with pytest.raises(KeyboardInterrupt):
        adapt(settings(encoder), WORDS, parts)
    monkeypatch.setattr(adaptation._Run, "_take_step", take_step)
    with pytest.raises(UsageError, match="use --resume to continue"):
        adapt(settings(encoder), WORDS, parts)
    with pytest.raises(UsageError, match="epochs is 3 there and 4 here"):
        adapt(settings(encoder, epochs=4), WORDS, parts, resume=True)
    with pytest.raises(UsageError, match="has other texts"):
        adapt(settings(encoder), WORDS[:-1], parts, resume=True)
    resumed = adapt(settings(encoder), WORDS, parts, resume=True)
    assert (resumed.loss_before, resumed.loss_after) == (expected.loss_before, expected.loss_after)
    weights = [load_file(folder / "model.safetensors") for folder in (whole, parts)]
    assert all(weight.equal(weights[1][name]) for name, weight in weights[0].items())


def test_bfloat16_adapts_as_well_as_float32(encoder: Path, tmp_path: Path) -> None:
    losses, weights = [], []
    for precision in ("float32", "bfloat16"):
        losses.append(adapt(settings(encoder, precision=precision), WORDS, tmp_path / precision).loss_after)
        weights.append(load_file(tmp_path / precision / "model.safetensors"))
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert any(not weight.equal(weights[1][name]) for name, weight in weights[0].items())
    assert {weight.dtype for weight in weights[1].values()} == {torch.float32}


@pytest.mark.parametrize("kind", sorted(tiny.CONFIGS.keys() - {"t5"}))
def test_adapts_other_architectures(kind: str, tmp_path: Path) -> None:
    """The result has exactly the weights of the original."""
    torch.manual_seed(0)
    AutoModel.from_config(tiny.CONFIGS[kind]).save_pretrained(tmp_path / kind)
    tiny.save_tokenizer(tmp_path / kind, tiny.unigram())
    adapt(settings(tmp_path / kind, epochs=1), WORDS, tmp_path / "out")
    before, after = (load_file(tmp_path / folder / "model.safetensors") for folder in (kind, "out"))
    assert before.keys() == after.keys()
    names = [name for name, weight in before.items() if not weight.equal(after[name])]
    assert any("layer" in name for name in names)
    assert not any("decoder.layer" in name for name in names)


def test_long_sentences_are_split(encoder: Path, tmp_path: Path) -> None:
    result = adapt(settings(encoder, epochs=1), [["the", "a", "of"] * 2000], tmp_path / "out")
    assert result.sentences + result.held_out >= 250


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("scratch", WORDS, "nothing to adapt"),
        (None, [], "fewer than 10 sentences of 3 words or more"),
        (None, [["a"]] * 100, "fewer than 10 sentences of 3 words or more"),
        ("no/such/encoder", WORDS, "cannot be loaded"),
    ],
)
def test_refuses_unsuitable_encoders_and_texts(
    encoder: Path, tmp_path: Path, name: str | None, words: list[list[str]], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        adapt(settings(Path(name) if name else encoder), words, tmp_path / "out")


def test_text_in_another_language_is_reported(encoder: Path, tmp_path: Path) -> None:
    with pytest.warns(LanguageWarning, match="may not be made for the language"):
        adapt(settings(encoder, epochs=1), [["Привет", "мой", "дорогой", "друг"]] * 40, tmp_path / "out")
