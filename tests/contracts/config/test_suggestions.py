"""Names that an error suggests: only those that may be meant."""

import pytest

from curvfed.tasks.errors import did_you_mean, near_names

SENSES = ["dog.n.01", "bat.n.01", "cat.n.01", "whale.n.01", "elephant.n.01", "lens.n.01"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("whael.n.01", ["whale.n.01"]),
        ("Elefant.n.01", ["elephant.n.01"]),
        ("ctenophore.n.01", []),
        ("zzzzzzzzz", []),
        ("trout.n.01", []),
    ],
)
def test_names_are_near_by_their_own_letters(name, near):
    assert near_names(name, SENSES) == near


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("rounds", ["num-rounds"]),
        ("hull.eps", ["hull.epsilon"]),
        ("sched", ["schedule"]),
        ("links-poincare", ["links"]),
        ("quite", []),
        ("num-clientele", []),
    ],
)
def test_a_part_of_a_name_is_near(name, near):
    keys = ["num-rounds", "hull.epsilon", "schedule", "dp.unit", "links", "min-client-size"]
    assert near_names(name, keys) == near


def test_only_few_names_are_listed():
    assert did_you_mean("ctenophore", SENSES, "A page") == ". A page lists all"
    assert (
        did_you_mean("dgo", ["dog", "cat"], "A page") == '; did you mean "dog"? Known are dog, cat'
    )
