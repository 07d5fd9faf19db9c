"""Losses and gradients in bfloat16, the default on processors that have instructions for it."""

from pathlib import Path

import pytest
import torch

from fencepost.config import Config
from fencepost.methods.model import Model
from fencepost.methods.registry import METHODS
from tests.encoder import tiny
from tests.runtime.models import NESTED

CASES = [(kind, "boundary-smoothing") for kind in tiny.CONFIGS] + [("roberta", name) for name in METHODS]


@pytest.mark.parametrize(("kind", "method"), sorted(set(CASES)))
def test_bfloat16_has_the_loss_and_the_gradient_of_float32(kind: str, method: str, tmp_path: Path) -> None:
    tiny.save_encoder(kind, tmp_path)
    torch.manual_seed(0)
    model = Model.build(Config.compose(changes=[f"encoder.name={tmp_path}", f"method.name={method}"]), NESTED)
    batch = model.train().collate(model.split(NESTED))
    results = []
    for is_half in (False, True):
        torch.manual_seed(1)  # for dropout, and for what a method draws
        with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
            loss = model(batch)["loss"]
        loss.backward()
        norm = torch.nn.utils.get_total_norm(p.grad for p in model.parameters() if p.grad is not None)
        results.append((loss.item(), norm.item()))
        model.zero_grad()
    assert results[1] != results[0]
    assert results[1] == pytest.approx(results[0], rel=0.02)
