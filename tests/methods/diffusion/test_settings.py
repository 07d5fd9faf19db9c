"""Settings of diffusion: accepted and refused values, those without effect, and the effect of others."""

from __future__ import annotations

import pytest
import torch

from fencepost.config import Config
from fencepost.encoder.settings import EncoderSettings
from fencepost.errors import UsageError
from fencepost.methods.diffusion.network import Diffusion
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings
from tests.methods.diffusion.cases import (
    BATCH,
    LENGTHS,
    TYPES,
    WIDTH,
    gold_of,
    method_of,
    sampled,
    settings_of,
    words_of,
)


def composed(*changes: str) -> Config:
    return Config.compose(changes=["method.name=diffusion", *changes])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            ["method.size=12", "method.heads=8"],
            "method: size should be a multiple of heads, but 12 is not one of 8",
        ),
        (["method.size=7", "method.heads=1"], "method.size: should be a multiple of 2, not 7"),
        (["method.size=0"], "method.size: should be greater than or equal to 2, not 0"),
        (["method.heads=0"], "method.heads: should be greater than or equal to 1, not 0"),
        (["method.spans=0"], "method.spans: should be greater than or equal to 1, not 0"),
        (["method.draws=0"], "method.draws: should be greater than or equal to 1, not 0"),
        (["method.times=1"], "method.times: should be greater than or equal to 2, not 1"),
        (["method.scale=0"], "method.scale: should be greater than 0, not 0"),
        (["method.scale=-1"], "method.scale: should be greater than 0, not -1"),
        (["method.layers=-1"], "method.layers: should be greater than or equal to 0, not -1"),
        (["method.dropout=1"], "method.dropout: should be less than 1, not 1"),
        (["method.distance=-1"], "method.distance: should be greater than or equal to 0, not -1"),
        (["method.none_weight=-1"], "method.none_weight: should be greater than or equal to 0, not -1"),
        (["method.schedule=sigmoid"], "method.schedule: should be 'cosine' or 'linear', not 'sigmoid'"),
        (["method.coordinates=middle"], "method.coordinates: should be 'left-width' or 'left-right'"),
        (["method.expansion=none"], "method.expansion: should be 'repeat' or 'random', not 'none'"),
        (["method.targets=all"], "method.targets: should be 'repeat' or 'pad', not 'all'"),
        (["method.pooling=max"], "method.pooling: should be 'mean' or 'first+last', not 'max'"),
        (["method.span=3"], "method.span: there is no such key; did you mean method.spans?"),
        (["predict.steps=0"], "predict.steps: should be greater than or equal to 1, not 0"),
        (["predict.spans=0"], "predict.spans: should be greater than or equal to 1, not 0"),
        (["predict.eta=1.5"], "predict.eta: should be less than or equal to 1, not 1.5"),
        (["predict.seed=-1"], "predict.seed: should be greater than or equal to 0, not -1"),
    ],
)
def test_refuses_invalid_settings(changes: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        composed(*changes)
    assert str(refusal.value).startswith(message)
    assert "{" not in str(refusal.value)


@pytest.mark.parametrize("threshold", ["1.1", "-1", "3"])
def test_refuses_a_threshold_outside_0_and_1(threshold: str) -> None:
    message = rf"^predict\.threshold: should be a number from 0 to 1, .*, not {threshold}"
    with pytest.raises(UsageError, match=message):
        composed(f"predict.threshold={threshold}")


def test_accepts_valid_settings() -> None:
    config = composed("method.size=24", "method.heads=3", "predict.threshold=0.25", "predict.steps=7")
    assert isinstance(config.method, DiffusionSettings)
    assert isinstance(config.predict, DiffusionPredict)
    assert (config.method.size, config.method.heads) == (24, 3)
    assert (config.predict.threshold, config.predict.steps) == (0.25, 7)
    assert composed("predict.threshold=null").predict == composed().predict
    assert composed().predict.threshold is None


def idle(**settings) -> list[str]:
    """Return the messages about settings that are not the default."""
    return list(DiffusionSettings(**settings).idle(EncoderSettings()))


def flipped(name: str) -> dict:
    """Return a value other than the default; one head divides any size."""
    default = getattr(DiffusionSettings(), name)
    if isinstance(default, bool):
        return {name: not default}
    return {name: 1 if default > 1 else 2}


def test_no_messages_about_settings_with_an_effect() -> None:
    assert idle() == []
    assert idle(layers=0) == []
    assert idle(self_attention=False, cross_attention=False) == []
    for name in ("self_attention", "cross_attention", "proposal_codes", "positions", "feed_forward"):
        assert idle(**flipped(name)) == []
    for off in ("self_attention", "cross_attention"):
        assert idle(**{off: False}, **flipped("heads"), proposal_codes=True) == []


def test_reports_settings_without_effect_in_0_layers() -> None:
    for name in ("self_attention", "cross_attention", "feed_forward", "heads"):
        assert idle(layers=0, **flipped(name)) == [f"method.{name} has no effect: method.layers is 0"]
    assert len(idle(layers=0, **flipped("heads"), **flipped("feed_forward"), cross_attention=False)) == 3


def test_reports_settings_without_effect_without_attention() -> None:
    """The message names the setting and the reason."""
    for changes in (flipped("heads"), {"proposal_codes": True}):
        [note] = idle(self_attention=False, cross_attention=False, **changes)
        name, why = note.split(" has no effect: ")
        assert name == f"method.{next(iter(changes))}"
        assert "attention" in why
        assert "method.there" not in why


OFF = {"self_attention": False, "cross_attention": False}

IDLE: dict[str, tuple[dict, dict]] = {
    "heads-without-attention": (OFF, {"heads": 4}),
    "proposal-codes-without-attention": (OFF, {"proposal_codes": True}),
    "proposal-codes-without-layers": ({"layers": 0}, {"proposal_codes": True}),
    "heads-without-layers": ({"layers": 0}, {"heads": 4}),
    "attention-without-layers": ({"layers": 0}, {"self_attention": False}),
    "feed-forward-without-layers": ({"layers": 0}, {"feed_forward": 9}),
}


@pytest.mark.parametrize(("base", "change"), IDLE.values(), ids=IDLE.keys())
@torch.no_grad()
def test_exactly_the_reported_settings_have_no_effect(base: dict, change: dict) -> None:
    """Other settings change the scores; weights are equal where both networks have them."""
    [name] = change
    notes = [
        note for note in idle(**base, **flipped(name)) if note.startswith(f"method.{name} has no effect")
    ]
    one, other = method_of(**base), method_of(**base, **change)
    weights = other.state_dict() | one.state_dict()
    other.load_state_dict({name: weights[name] for name in other.state_dict()})
    words = words_of(LENGTHS)
    assert torch.equal(sampled(one, words).types, sampled(other, words).types) == bool(notes)


SWITCHES: dict[str, dict] = {
    "schedule": {"schedule": "linear"},
    "scale": {"scale": 2.0},
    "coordinates": {"coordinates": "left-right"},
    "times": {"times": 500},
    "pooling": {"pooling": "first+last"},
    "positions": {"positions": True},
    "proposal_codes": {"proposal_codes": True},
    "self_attention": {"self_attention": False},
    "cross_attention": {"cross_attention": False},
    "layers": {"layers": 1},
    "heads": {"heads": 4},
}


@pytest.mark.parametrize("change", SWITCHES.values(), ids=SWITCHES.keys())
@torch.no_grad()
def test_each_network_setting_changes_the_scores(change: dict) -> None:
    """Weights are equal where both networks have them."""
    one, other = method_of(), method_of(**change)
    weights = other.state_dict() | one.state_dict()
    other.load_state_dict({name: weights[name] for name in other.state_dict()})
    scores = [sampled(method, words_of(LENGTHS)) for method in (one, other)]
    assert not torch.isclose(scores[0].types, scores[1].types).all()
    assert not torch.isclose(scores[0].boundaries, scores[1].boundaries).all()


@pytest.mark.parametrize(
    "change",
    [
        {"spans": 9},
        {"draws": 2},
        {"expansion": "random"},
        {"targets": "pad"},
        {"distance": 9.0},
        {"none_weight": 2.0},
        {"boundary_weight": 2.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_training_setting_changes_only_the_loss(change: dict) -> None:
    words, gold = words_of(LENGTHS), gold_of(BATCH)
    methods = [method_of(), method_of(**change)]
    losses = [sum(method.loss(method.score(words, gold), gold).values()).item() for method in methods]
    assert losses[0] != losses[1]
    types = [sampled(method, words).types for method in methods]
    assert torch.equal(*types)


def parameters(**settings) -> dict[str, int]:
    method = Diffusion(settings_of(**settings), WIDTH, TYPES)
    return {name: parameter.numel() for name, parameter in method.named_parameters()}


def test_disabled_parts_have_no_weights() -> None:
    whole = parameters(positions=True, proposal_codes=True, pooling="first+last")
    for changes, *parts in (
        ({"self_attention": False}, "among"),
        ({"cross_attention": False}, "across"),
        ({"self_attention": False, "cross_attention": False}, "among", "across", "of_index"),
        ({"positions": False}, "of_places"),
        ({"proposal_codes": False}, "of_index"),
        ({"pooling": "mean"}, "of_ends"),
        ({"layers": 0}, "layers", "of_index"),
    ):
        less = parameters(**{"positions": True, "proposal_codes": True, "pooling": "first+last"} | changes)
        gone = whole.keys() - less.keys()
        assert {name for name in gone if "norm" not in name} == {
            name for name in whole if any(part in name for part in parts) and "norm" not in name
        }
        assert sum(less.values()) < sum(whole.values())


@pytest.mark.parametrize("settings", [{}, {"self_attention": False}, {"cross_attention": False}, OFF])
def test_every_weight_has_a_gradient(settings: dict) -> None:
    """The weights of a norm belong to the part before it."""
    method = method_of(**settings)
    gold = gold_of(BATCH)
    sum(method.loss(method.score(words_of(LENGTHS), gold), gold).values()).backward()
    assert [name for name, parameter in method.named_parameters() if parameter.grad is None] == []


def test_weights_have_the_configured_sizes() -> None:
    sizes = parameters(size=12, heads=3, feed_forward=5, pointer_size=4, layers=3, pooling="first+last")
    assert sizes["denoiser.of_words.weight"] == 12 * WIDTH
    assert sizes["denoiser.of_ends.weight"] == 24 * 12
    assert sizes["denoiser.layers.2.feed_forward.0.weight"] == 12 * 5
    assert sizes["denoiser.pointers.1.of_span.weight"] == 12 * 4
    assert sizes["denoiser.classifier.3.weight"] == 12 * (1 + len(TYPES))
    assert not any(name.startswith("denoiser.layers.3.") for name in sizes)


def test_needs_no_prompts() -> None:
    assert settings_of().prompts(TYPES) == 0
    assert settings_of().prompt_names(TYPES) == ()
