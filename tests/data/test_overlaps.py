"""Overlapping and selected entities, compared with loops over all pairs."""

import itertools

import pytest
from hypothesis import given

from fencepost.data.entity import Entity, Sentence
from fencepost.data.formats.overlaps import has_forbidden_overlap, select_compatible
from fencepost.data.transform import TypeChanges
from fencepost.errors import UsageError
from tests import strategies

ENTITIES = strategies.entities(8, scores=strategies.scores, max_size=10)


def clash(one, two, allowed):
    if allowed == "nested":
        return one.crosses(two)
    return allowed == "none" and one.start < two.end and two.start < one.end


@pytest.mark.parametrize("allowed", ["any", "nested", "none"])
@given(entities=ENTITIES)
def test_forbidden_overlap_equals_a_loop_over_pairs(allowed, entities):
    pairs = itertools.combinations(entities, 2)
    assert has_forbidden_overlap(entities, allowed) == any(clash(one, two, allowed) for one, two in pairs)


@given(strategies.nested_entities(8), strategies.flat_entities(8))
def test_nested_and_flat_entities_are_distinguished(nested, flat):
    assert not has_forbidden_overlap(nested, "nested")
    assert not has_forbidden_overlap(flat, "none")


@pytest.mark.parametrize("allowed", ["nested", "none"])
@pytest.mark.parametrize("prefer", ["outermost", "innermost", "best"])
@given(entities=ENTITIES)
def test_rejected_entities_clash_with_preferred_ones(allowed, prefer, entities):
    selection = select_compatible(entities, allowed, prefer)
    assert not has_forbidden_overlap(selection, allowed)
    rank = {"outermost": lambda e: -len(e), "innermost": len, "best": lambda e: -e.score}[prefer]
    for entity in entities:
        if entity not in selection:
            assert any(clash(entity, other, allowed) and rank(other) <= rank(entity) for other in selection)
    assert select_compatible(reversed(entities), allowed, prefer) == selection


def test_types_are_renamed_and_selected():
    sentence = Sentence(["a", "b"], [Entity(0, 1, "PER.NAM"), Entity(0, 1, "PER.NOM"), Entity(1, 2, "LOC")])
    [result] = TypeChanges(["PER.*=PER", "*=X"]).apply([sentence])
    assert [e.key for e in result.entities] == [(0, 1, "PER"), (1, 2, "X")]
    [chosen] = TypeChanges([], {"LOC"}).apply([sentence])
    assert [e.key for e in chosen.entities] == [(1, 2, "LOC")]
    assert list(TypeChanges().apply([sentence])) == [sentence]


@pytest.mark.parametrize("rename", ["PER", "=X", "X=", ""])
def test_refuses_an_incomplete_rename(rename):
    with pytest.raises(UsageError, match="OLD=NEW"):
        TypeChanges([rename])


def test_counts_changes_and_names_unused_ones():
    sentence = Sentence(["a", "b"], [Entity(0, 1, "A1"), Entity(0, 1, "A2"), Entity(1, 2, "B")])
    changes = TypeChanges(["A*=A", "C=D"], ["A", "E"])
    assert [one.entities for one in changes.apply([sentence])] == [(Entity(0, 1, "A"),)]
    assert (changes.other_types, changes.duplicates) == (1, 1)
    assert changes.find_unused() == ["C=D", "E"]
