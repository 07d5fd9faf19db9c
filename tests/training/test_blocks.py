"""Training with sentences of a document read together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.config import Config
from fencepost.methods.model import Model
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import load_model
from fencepost.training import trainer
from tests.runtime import models
from tests.training.runs import DEV, STEPS, assert_same, before_step, config, run


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Config:
    bert = models.save_bert(tmp_path_factory.mktemp("bert"), max_position_embeddings=130)
    return config({"encoder": {"name": str(bert), "lstm": {"size": 0}}})


def interrupt() -> None:
    raise KeyboardInterrupt


def test_resumed_run_reads_the_same_blocks(settings: Config, tmp_path: Path) -> None:
    out = tmp_path / "model"
    with before_step(STEPS, interrupt), pytest.raises(KeyboardInterrupt):
        run(out, settings)
    run(out, settings, resume=True)
    run(tmp_path / "undisturbed", settings)
    assert_same(out, tmp_path / "undisturbed")
    assert load_model(out).config.encoder.block == 128
    together = list(load(out, engine="pytorch", settings={"threshold": 0}).predict(DEV))
    assert sum(len(one.entities) for one in together) > len(DEV)


@pytest.mark.parametrize("share", [0, 0.2, 1])
def test_part_of_the_batches_has_no_context(
    share: float, settings: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others, sentences of a block are in one batch."""
    monkeypatch.setattr(trainer, "_WITHOUT_CONTEXT", share)
    batches: list[Any] = []
    collate = Model.collate

    def spy(model: Model, sentences: Any) -> Any:
        batches.append(sentences)
        return collate(model, sentences)

    monkeypatch.setattr(Model, "collate", spy)
    run(
        tmp_path / "model",
        settings.model_copy(update={"training": settings.training.model_copy(update={"epochs": 10})}),
        dev=False,
    )
    alone = [batch for batch in batches if not any(one.left or one.right for one in batch)]
    assert 0.5 * share <= len(alone) / len(batches) <= 0.1 + 1.5 * share
    for batch in batches:
        if batch in alone:
            continue
        blocks = {one.left + one.words + one.right for one in batch}
        assert sum(map(len, blocks)) == sum(len(one) for one in batch)
