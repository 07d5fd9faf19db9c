"""Each claim: what a paper says, the runs that it takes, and how they are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.claims.runs import FinishedRun, Variant, test_sentences
from benchmarks.claims.runs import data as corpus
from benchmarks.claims.verdict import Estimate, Verdict, above, below, estimate, within

NEGLIGIBLE = 0.02
"""So much of its lowest value a development loss may rise again without being said to rise."""

Group = dict[int, FinishedRun]
"""The finished runs of a variant, by seed."""

SMOOTHING = "Zhu and Li, ACL 2022"
OFFSETS = "Tang et al., EMNLP Findings 2023"
LOCATE = "Shen et al., ACL 2021"
DIFFUSION = "Shen et al., ACL 2023"


@dataclass(frozen=True)
class Judgement:
    """The number that decides, what else was measured, and the verdict."""

    number: Estimate
    verdict: Verdict
    seeds: Sequence[int]
    evidence: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "seeds": list(self.seeds),
            "number": asdict(self.number),
            "evidence": self.evidence,
        }


@dataclass(frozen=True)
class Claim:
    """`number` says in words what is estimated, and `rule` what the verdict asks of it."""

    name: str
    paper: str
    says: str
    number: str
    rule: str
    variants: tuple[Variant, ...]
    judge: Callable[..., Judgement]


def _smoothing(*changes: str) -> Variant:
    return Variant("boundary-smoothing", changes)


def _offset(largest: int, share: float = 0.5) -> Variant:
    return Variant("boundary-offset", (f"method.max_offset={largest}",), share)


def _locate(*, regressor: bool) -> Variant:
    lengths = "method.lengths=[1,2,3,4,5]"
    return Variant("locate-and-label", (lengths, f"method.regressor={str(regressor).lower()}"))


PLAIN, SMOOTH, STRONG = (_smoothing(f"method.epsilon={epsilon}") for epsilon in ("0", "0.1", "0.3"))
LABELS = _smoothing("method.epsilon=0", "method.label_smoothing=0.1")
NO_OFFSETS, WITH_OFFSETS = _offset(0), _offset(2)
FEW_NO_OFFSETS, FEW_WITH_OFFSETS = _offset(0, 0.125), _offset(2, 0.125)
REGRESSOR, NO_REGRESSOR = _locate(regressor=True), _locate(regressor=False)
DENOISING = Variant("diffusion")


def _common(*groups: Group) -> list[int]:
    """Return the seeds that all groups have."""
    return sorted(set.intersection(*(set(group) for group in groups)))


def _test(group: Group, seeds: Sequence[int], key: str) -> list[float]:
    return [group[seed].test[key] for seed in seeds]


def _differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(first, second, strict=True)]


def _f1_gain(judge: Callable[[Estimate], Verdict]) -> Callable[..., Judgement]:
    """By the test F1 of the second variant minus that of the first."""

    def judged(before: Group, after: Group) -> Judgement:
        seeds = _common(before, after)
        old, new = _test(before, seeds, "f1"), _test(after, seeds, "f1")
        number = estimate(_differences(new, old))
        return Judgement(number, judge(number), seeds, {"f1_without": old, "f1_with": new})

    return judged


def smoothing_lowers_ece(plain: Group, smooth: Group) -> Judgement:
    seeds = _common(plain, smooth)
    old, new = ([g[s].metrics["calibration"]["test_ece_before"] for s in seeds] for g in (plain, smooth))
    number = estimate(_differences(new, old))
    return Judgement(number, below(number), seeds, {"ece_without": old, "ece_with": new})


def strong_smoothing_underconfident(strong: Group, plain: Group) -> Judgement:
    seeds = sorted(strong)
    gaps = [_overconfidence(strong[seed]) for seed in seeds]
    others = {str(seed): _overconfidence(plain[seed]) for seed in sorted(plain)}
    number = estimate(gaps)
    return Judgement(number, below(number), seeds, {"strong": gaps, "without_smoothing": others})


def _overconfidence(run: FinishedRun) -> float:
    """Return the mean confidence without calibration minus the precision."""
    from fencepost.evaluation import Temperature, match
    from fencepost.runtime.pytorch import make_predictor
    from fencepost.runtime.recogniser import Recogniser

    model = run.model()
    model.calibration = Temperature()
    sentences = test_sentences()
    entities = match(sentences, Recogniser(make_predictor(model)).predict(sentences)).predicted
    return float(entities.score.mean() - entities.matched.mean())


def _rise(run: FinishedRun) -> float:
    """How much higher the development loss is after the last epoch than it was at its lowest."""
    return run.dev_losses[-1] / min(run.dev_losses) - 1


def loss_rises_without(plain: Group) -> Judgement:
    number = estimate([_rise(plain[seed]) for seed in sorted(plain)])
    losses = {str(seed): plain[seed].dev_losses for seed in sorted(plain)}
    return Judgement(number, above(number, NEGLIGIBLE), sorted(plain), {"dev_losses": losses})


def loss_falls_with(smooth: Group) -> Judgement:
    number = estimate([_rise(smooth[seed]) for seed in sorted(smooth)])
    losses = {str(seed): smooth[seed].dev_losses for seed in sorted(smooth)}
    return Judgement(number, below(number, NEGLIGIBLE), sorted(smooth), {"dev_losses": losses})


def smoothing_flattens(plain: Group, smooth: Group) -> Judgement:
    from fencepost.analysis.landscape import compute_losses, make_points

    seeds, places = _common(plain, smooth), make_points()
    sentences = {"train": list(corpus().train)[:50], "test": test_sentences()[:50]}
    rises: dict[str, list[float]] = {"without": [], "with": []}
    curves: dict[str, Any] = {}
    for name, group in (("without", plain), ("with", smooth)):
        for seed in seeds:
            losses = compute_losses(group[seed].model(), sentences, places, seed=1)
            curves[f"{name}, seed {seed}"] = losses
            near = [x for x, place in zip(losses["test"], places, strict=True) if abs(place) <= 0.5]
            rises[name].append(math.fsum(near) / len(near) - losses["test"][len(places) // 2])
    number = estimate(_differences(rises["with"], rises["without"]))
    return Judgement(number, below(number), seeds, {"mean_rise": rises, "points": places, "losses": curves})


def _decoding(name: str, mode: str) -> Callable[..., Judgement]:
    """By what a way of decoding gains over the centre alone, with the same models."""

    def judged(models: Group) -> Judgement:
        seeds = sorted(models)
        tables = {str(seed): make_tables(models[seed], "offsets")["decoding"] for seed in seeds}
        scores = {seed: {m: asdict(one) for m, one in table.items()} for seed, table in tables.items()}
        number = estimate([of[mode][name] - of["centre"][name] for of in scores.values()])
        return Judgement(number, above(number), seeds, {"scores": scores})

    return judged


_TABLES: dict[tuple[str, str], Any] = {}
"""By run and report: two claims look at the same."""


def make_tables(run: FinishedRun, name: str) -> Any:
    """Return the tables of a report on the test data."""
    key = (str(run.folder), name)
    if key not in _TABLES:
        recogniser = run.recogniser()
        reports = recogniser.make_reports([name])
        for _ in recogniser.predict(test_sentences(), recogniser.watch_reports(reports)):
            pass
        _TABLES[key] = reports[name].tables()
    return _TABLES[key]


def offsets_lose_less(
    many_without: Group, many_with: Group, few_without: Group, few_with: Group
) -> Judgement:
    seeds = _common(many_without, many_with, few_without, few_with)
    without = _differences(_test(many_without, seeds, "f1"), _test(few_without, seeds, "f1"))
    with_ = _differences(_test(many_with, seeds, "f1"), _test(few_with, seeds, "f1"))
    number = estimate(_differences(without, with_))
    return Judgement(number, above(number), seeds, {"f1_lost_without": without, "f1_lost_with": with_})


def regressor_rescues_long(with_: Group, without: Group) -> Judgement:
    seeds = _common(with_, without)
    ours, theirs = ([_long(group[seed], 5) for seed in seeds] for group in (with_, without))
    number = estimate([one["recall"] - other["recall"] for one, other in zip(ours, theirs, strict=True)])
    return Judgement(number, above(number), seeds, {"with": ours, "without": theirs})


def _long(run: FinishedRun, longest: int) -> dict[str, float]:
    """Return the scores of entities with more than `longest` words."""
    rows = [row for length, row in run.test["by_length"].items() if int(length) > longest]
    right, predicted, gold = (sum(r[k] for r in rows) for k in ("true_positives", "predicted", "support"))
    return {
        "recall": right / gold if gold else 0.0,
        "precision": right / predicted if predicted else 0.0,
        "entities": gold,
    }


def filter_leaves_three(models: Group) -> Judgement:
    seeds = sorted(models)
    tables = {str(seed): dict(make_tables(models[seed], "stages")["spans"]) for seed in seeds}
    number = estimate([table["after the filter"]["per entity"] for table in tables.values()])
    evidence = {seed: {stage: dict(row) for stage, row in table.items()} for seed, table in tables.items()}
    return Judgement(number, within(number, 2, 4), seeds, {"stages": evidence})


def _more(key: str, few: int, many: int, others: dict[str, int]) -> Callable[..., Judgement]:
    """By what the test F1 gains from more of something in prediction, with the same models."""

    def judged(models: Group) -> Judgement:
        from fencepost.evaluation import evaluate

        seeds, sentences = sorted(models), test_sentences()
        scores: dict[str, dict[str, float]] = {}
        for seed in seeds:
            recogniser = models[seed].recogniser()
            for value in (few, many):
                settings: dict[str, Any] = {**others, key: value}
                f1 = evaluate(sentences, recogniser.with_options(**settings).predict(sentences)).overall.f1
                scores.setdefault(str(seed), {})[f"{key}={value}"] = f1
        number = estimate([of[f"{key}={many}"] - of[f"{key}={few}"] for of in scores.values()])
        return Judgement(number, above(number), seeds, {"f1": scores, "others": others})

    return judged


CLAIMS = (
    Claim(
        "smoothing-raises-f1",
        SMOOTHING,
        "Boundary smoothing raises F1.",
        "test F1 with ε = 0.1 minus that with ε = 0",
        "above 0",
        (PLAIN, SMOOTH),
        _f1_gain(above),
    ),
    Claim(
        "smoothing-lowers-ece",
        SMOOTHING,
        "Boundary smoothing with ε = 0.1 lowers the calibration error.",
        "ECE of uncalibrated confidences on the test data, with ε = 0.1 minus that with ε = 0",
        "below 0",
        (PLAIN, SMOOTH),
        smoothing_lowers_ece,
    ),
    Claim(
        "strong-smoothing-underconfident",
        SMOOTHING,
        "With ε = 0.3 models become under-confident.",
        "mean confidence minus accuracy of predictions on the test data, with ε = 0.3",
        "below 0",
        (STRONG, PLAIN),
        strong_smoothing_underconfident,
    ),
    Claim(
        "label-smoothing-does-not-help",
        SMOOTHING,
        "Label smoothing does not help.",
        "test F1 with label smoothing 0.1 minus that without, both without boundary smoothing",
        "at most half a point of F1",
        (PLAIN, LABELS),
        _f1_gain(lambda number: below(number, 0.005)),
    ),
    Claim(
        "development-loss-rises-without-smoothing",
        SMOOTHING,
        "Without smoothing, the development loss rises again.",
        "development loss after the last epoch, relative to its lowest, minus 1; with ε = 0",
        "above 0.02",
        (PLAIN,),
        loss_rises_without,
    ),
    Claim(
        "development-loss-falls-with-smoothing",
        SMOOTHING,
        "With smoothing, the development loss keeps falling.",
        "development loss after the last epoch, relative to its lowest, minus 1; with ε = 0.1",
        "at most 0.02",
        (SMOOTH,),
        loss_falls_with,
    ),
    Claim(
        "smoothing-flattens-the-landscape",
        SMOOTHING,
        "Boundary smoothing makes the loss landscape flatter.",
        "mean rise of the test loss within half a step of a random direction (50 sentences, each model's "
        "own loss), with ε = 0.1 minus that with ε = 0",
        "below 0",
        (PLAIN, SMOOTH),
        smoothing_flattens,
    ),
    Claim(
        "offsets-beat-none",
        OFFSETS,
        "Predicting offsets (S > 0) beats predicting none.",
        "test F1 with S = 2 minus that with S = 0",
        "above 0",
        (NO_OFFSETS, WITH_OFFSETS),
        _f1_gain(above),
    ),
    Claim(
        "all-raises-recall",
        OFFSETS,
        "Decoding all labels raises recall over the centre alone.",
        "test recall of `all` minus that of `centre`, with the same model",
        "above 0",
        (WITH_OFFSETS,),
        _decoding("recall", "all"),
    ),
    Claim(
        "rules-raise-f1",
        OFFSETS,
        "Decoding with rules raises F1 over the centre alone.",
        "test F1 of `rules` minus that of `centre`, with the same model",
        "above 0",
        (WITH_OFFSETS,),
        _decoding("f1", "rules"),
    ),
    Claim(
        "offsets-lose-less-with-few-data",
        OFFSETS,
        "With 12.5 % of the data, offsets lose less F1 than their absence does.",
        "test F1 lost from 50 % to 12.5 % of the training data, with S = 0 minus that with S = 2",
        "above 0",
        (NO_OFFSETS, WITH_OFFSETS, FEW_NO_OFFSETS, FEW_WITH_OFFSETS),
        offsets_lose_less,
    ),
    Claim(
        "regressor-rescues-long-entities",
        LOCATE,
        "The regressor finds entities that are longer than all seeds.",
        "test recall of entities of more than 5 words, with the regressor minus that without; seeds have 1 "
        "to 5 words",
        "above 0",
        (REGRESSOR, NO_REGRESSOR),
        regressor_rescues_long,
    ),
    Claim(
        "filter-leaves-three-proposals",
        LOCATE,
        "The filter leaves about three proposals for each entity.",
        "spans after the filter for each entity of the test data; seeds have 1 to 5 words",
        "between 2 and 4",
        (REGRESSOR,),
        filter_leaves_three,
    ),
    Claim(
        "more-steps-help",
        DIFFUSION,
        "More denoising steps raise F1.",
        "test F1 with 5 steps minus that with 1, with the same model and 60 spans",
        "above 0",
        (DENOISING,),
        _more("steps", 1, 5, {"spans": 60}),
    ),
    Claim(
        "more-spans-help",
        DIFFUSION,
        "More sampled spans raise F1.",
        "test F1 with 120 spans minus that with 20, with the same model and 5 steps",
        "above 0",
        (DENOISING,),
        _more("spans", 20, 120, {"steps": 5}),
    ),
    *(
        Claim(
            f"{part}-attention-matters",
            DIFFUSION,
            f"Removing {part}-attention hurts.",
            f"test F1 with {part}-attention minus that without",
            "above 0",
            (Variant("diffusion", (f"method.{part}_attention=false",)), DENOISING),
            _f1_gain(above),
        )
        for part in ("self", "cross")
    ),
)
