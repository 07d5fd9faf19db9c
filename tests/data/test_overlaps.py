"""Which entities overlap, and which are kept: against all pairs."""

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
def test_overlapping_is_what_some_pair_does(allowed, entities):
    pairs = itertools.combinations(entities, 2)
    assert has_forbidden_overlap(entities, allowed) == any(clash(one, two, allowed) for one, two in pairs)


@given(strategies.nested_entities(8), strategies.flat_entities(8))
def test_nested_and_flat_entities_are_distinguished(nested, flat):
    assert not has_forbidden_overlap(nested, "nested")
    assert not has_forbidden_overlap(flat, "none")


@pytest.mark.parametrize("allowed", ["nested", "none"])
@pytest.mark.parametrize("prefer", ["outermost", "innermost", "best"])
@given(entities=ENTITIES)
def test_what_is_kept_is_compatible_and_what_is_not_clashes_with_a_preferred_one(allowed, prefer, entities):
    selection = select_compatible(entities, allowed, prefer)
    assert not has_forbidden_overlap(selection, allowed)
    rank = {"outermost": lambda e: -len(e), "innermost": len, "best": lambda e: -e.score}[prefer]
    for entity in entities:
        if entity not in selection:
            assert any(clash(entity, other, allowed) and rank(other) <= rank(entity) for other in selection)
    assert select_compatible(reversed(entities), allowed, prefer) == selection


def test_types_are_renamed_and_chosen():
    sentence = Sentence(["a", "b"], [Entity(0, 1, "PER.NAM"), Entity(0, 1, "PER.NOM"), Entity(1, 2, "LOC")])
    [result] = TypeChanges(["PER.*=PER", "*=X"]).apply([sentence])
    assert [e.key for e in result.entities] == [(0, 1, "PER"), (1, 2, "X")]
    [chosen] = TypeChanges([], {"LOC"}).apply([sentence])
    assert [e.key for e in chosen.entities] == [(1, 2, "LOC")]
    assert list(TypeChanges().apply([sentence])) == [sentence]


@pytest.mark.parametrize("rename", ["PER", "=X", "X=", ""])
def test_a_rename_without_two_sides_is_refused(rename):
    with pytest.raises(UsageError, match="OLD=NEW"):
        TypeChanges([rename])


def test_changes_are_counted_and_what_never_fits_is_named():
    sentence = Sentence(["a", "b"], [Entity(0, 1, "A1"), Entity(0, 1, "A2"), Entity(1, 2, "B")])
    changes = TypeChanges(["A*=A", "C=D"], ["A", "E"])
    assert [one.entities for one in changes.apply([sentence])] == [(Entity(0, 1, "A"),)]
    assert (changes.other_types, changes.duplicates) == (1, 1)
    assert changes.find_unused() == ["C=D", "E"]
