"""Verdicts of the benchmarks of the papers' claims, and the page of their results."""

from __future__ import annotations

import json
import math
import re
import statistics

import pytest

from benchmarks.claims import claims, page
from benchmarks.claims.claims import CLAIMS
from benchmarks.claims.runs import SETTINGS, FinishedRun
from benchmarks.claims.verdict import above, below, estimate, within
from fencepost.config import Config


def test_estimate_uses_students_t_distribution():
    """By hand: t for two degrees of freedom and 95 % is 4.3027."""
    number = estimate([0.01, 0.02, 0.06])
    half = 4.302653 * statistics.stdev([0.01, 0.02, 0.06]) / math.sqrt(3)
    assert number.mean == pytest.approx(0.03)
    assert (number.low, number.high) == (pytest.approx(0.03 - half), pytest.approx(0.03 + half))


def test_one_or_two_seeds_are_undecided():
    number = estimate([0.5])
    assert (number.mean, number.low, number.high) == (0.5, None, None)
    assert above(number) == "undecided within noise"
    assert above(estimate([0.5, 0.5])) == "undecided within noise"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.010, 0.011, 0.012], "holds"),
        ([-0.010, -0.011, -0.012], "does not hold"),
        ([-0.01, 0.01, 0.03], "undecided within noise"),
        ([0.0, 0.0, 0.0], "undecided within noise"),
    ],
)
def test_verdicts_of_above_and_below(values, verdict):
    assert above(estimate(values)) == verdict
    assert below(estimate([-value for value in values])) == verdict


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([2.9, 3.0, 3.1], "holds"),
        ([5.0, 5.1, 5.2], "does not hold"),
        ([3.9, 4.0, 4.1], "undecided within noise"),
    ],
)
def test_verdicts_of_within(values, verdict):
    assert within(estimate(values), 2, 4) == verdict


def runs_of(results: dict[int, dict]) -> dict[int, FinishedRun]:
    """Return runs with these metrics."""
    runs = {}
    for seed, metrics in results.items():
        run = FinishedRun(seed, folder=None)  # type: ignore[arg-type]
        run.__dict__["metrics"] = metrics
        runs[seed] = run
    return runs


def scored(**scores: float) -> dict[int, dict]:
    return {int(name[1:]): {"test": {"f1": value}} for name, value in scores.items()}


def test_f1_is_compared_per_seed():
    """Only seeds of both groups count, and a seed that is better for both has no effect."""
    before = runs_of(scored(s1=0.60, s2=0.70, s3=0.50, s4=0.9))
    after = runs_of(scored(s1=0.62, s2=0.72, s3=0.52))
    result = claims._f1_gain(above)(before, after)
    assert result.number.values == pytest.approx((0.02, 0.02, 0.02))
    assert (result.verdict, result.seeds) == ("holds", [1, 2, 3])


def test_rising_dev_loss_decides_claims_about_the_loss():
    losses = {
        seed: {"epochs": [{"dev_loss": 2.0}, {"dev_loss": 1.0}, {"dev_loss": 1.5}]} for seed in (1, 2, 3)
    }
    assert claims.loss_rises_without(runs_of(losses)).number.values == pytest.approx((0.5, 0.5, 0.5))
    assert claims.loss_rises_without(runs_of(losses)).verdict == "holds"
    assert claims.loss_falls_with(runs_of(losses)).verdict == "does not hold"


def test_f1_lost_with_few_data_is_compared():
    many, few = runs_of(scored(s1=0.7, s2=0.7, s3=0.7)), runs_of(scored(s1=0.5, s2=0.51, s3=0.49))
    few_with = runs_of(scored(s1=0.6, s2=0.61, s3=0.6))
    result = claims.offsets_lose_less(many, many, few, few_with)
    assert result.number.values == pytest.approx((0.1, 0.1, 0.11))
    assert result.verdict == "holds"


def test_long_entities_have_more_than_5_words():
    def row(right: int, gold: int) -> dict[str, int]:
        return {"true_positives": right, "predicted": 10, "support": gold}

    def of(right: int) -> dict[int, dict]:
        by_length = {"5": row(0, 90), "6": row(right, 4), "12": row(1, 4)}
        return {seed: {"test": {"by_length": by_length}} for seed in (1, 2, 3)}

    result = claims.regressor_rescues_long(runs_of(of(3)), runs_of(of(0)))
    assert result.evidence["with"][0] == {"recall": 0.5, "precision": 0.2, "entities": 8}
    assert result.number.values == pytest.approx((0.375, 0.375, 0.375))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_settings_of_each_claim_are_valid(claim):
    """The changes of each variant can be applied to the settings of its method."""
    for variant in claim.variants:
        base = [f"method.name={variant.method}", *SETTINGS[variant.method]]
        Config.compose(changes=[*base, *variant.changes])


def test_claim_names_are_unique_and_each_result_has_a_claim():
    names = [claim.name for claim in CLAIMS]
    assert len(set(names)) == len(names)
    assert {path.stem for path in page.RESULTS.glob("*.json")} <= set(names)


@pytest.mark.parametrize("path", sorted(page.RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_results_match_their_numbers_and_claims(path):
    """The estimate follows from the values by seed; the claim is the one in the code."""
    result = json.loads(path.read_text(encoding="utf-8"))
    (claim,) = [claim for claim in CLAIMS if claim.name == path.stem]
    again = estimate(result["number"]["values"])
    assert len(result["seeds"]) == len(result["number"]["values"])
    for name in ("mean", "low", "high"):
        assert result["number"][name] == pytest.approx(getattr(again, name))
    assert (result["says"], result["number_is"], result["holds_if"]) == (claim.says, claim.number, claim.rule)
    rules = {"above 0": above, "below 0": below, "between 2 and 4": lambda number: within(number, 2, 4)}
    rules |= {
        "at most half a point of F1": lambda number: below(number, 0.005),
        "at most 0.02": lambda number: below(number, 0.02),
        "above 0.02": lambda number: above(number, 0.02),
    }
    assert result["verdict"] == rules[claim.rule](again)


def test_page_is_up_to_date():
    text = (page.RESULTS.parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")
    assert text == page.page(), "run python -m benchmarks.claims --page"
    anchors = re.findall(r"\]\(#([\w-]+)\)", text)
    assert {f"## {anchor}" for anchor in anchors} <= set(text.splitlines())
