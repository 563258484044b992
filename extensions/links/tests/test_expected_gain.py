"""The gain of curvature that the shape of links lets expect, against least squares."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import linregress, t

from curvfed.extensions.links.commands.expectation import (
    Expectation,
    MeasuredGain,
    measured_gain,
    sentence,
)
from curvfed.extensions.links.hierarchy import Hierarchy


def test_a_measured_gain_is_set_beside_the_expected_one():
    shape = Hierarchy(
        "", entities=900, links=899, direct=899, several_parents=0.1, ancestors=2.0, in_cycles=0
    )
    _, low, high = measured_gain().expected(10.0)
    apart = ", lies outside that range."
    agrees = ", agrees with that range."
    cases = {
        (low - 9, low - 20, low - 0.1): apart,
        (low - 9, low - 20, low + 0.1): agrees,
        (high + 9, high - 0.1, high + 20): agrees,
        (high + 9, high + 0.1, high + 20): apart,
    }
    for gain, words in cases.items():
        assert words in sentence([shape], gain)
    assert "that range" not in sentence([shape])
    few = replace(shape, entities=10, links=9, direct=9)
    assert "that range" not in sentence([few], (low - 9, low - 20, low - 0.1))


@pytest.mark.parametrize(("links", "is_direct"), [(9, True), (20, False)])
def test_links_to_parents_alone_are_compared_with_those_to_all_ancestors(links, is_direct):
    shape = Hierarchy(
        "", entities=10, links=links, direct=9, several_parents=0.1, ancestors=2.0, in_cycles=0
    )
    command = shlex.split(Expectation([shape], "own tree.tsv").command)
    assert command[:3] == ["curvfed", "compare", "dataset=own tree.tsv"]
    assert ("links.closure=true" in command) == is_direct


def test_a_share_beyond_the_measured_ones_is_named():
    shape = Hierarchy(
        "", entities=10, links=9, direct=9, several_parents=0.95, ancestors=2.0, in_cycles=0
    )
    largest = f"{measured_gain().largest_share:.0f}%"
    assert f"No hierarchy with more than {largest} was measured." in sentence([shape])


def test_only_a_hierarchy_smaller_than_the_measured_ones_is_named():
    fewest = measured_gain().fewest_entities
    for entities, is_small in ((fewest - 1, True), (fewest, False)):
        shape = Hierarchy(
            "", entities, links=600, direct=9, several_parents=0.1, ancestors=2, in_cycles=0
        )
        assert ("for fewer, as here" in sentence([shape])) == is_small


def test_the_expected_gain_is_the_prediction_of_a_regression():
    rng = np.random.default_rng(3)
    shares = rng.uniform(0, 60, 9)
    gains = 7 - 0.2 * shares + rng.normal(0, 2, 9)
    line = linregress(shares, gains)
    residuals = gains - line.intercept - line.slope * shares
    gain = MeasuredGain(
        hierarchies=9,
        at_zero=line.intercept,
        per_point=line.slope,
        deviation=float(np.sqrt(np.sum(residuals**2) / 7)),
        mean_share=float(shares.mean()),
        largest_share=60.0,
        fewest_entities=500,
        spread=float(np.sum((shares - shares.mean()) ** 2)),
    )
    # The oracle: least squares with the design matrix.
    design = np.column_stack([np.ones(9), shares])
    point = np.array([1.0, 35.0])
    coefficients = np.linalg.lstsq(design, gains)[0]
    variance = np.sum((gains - design @ coefficients) ** 2) / 7
    leverage = point @ np.linalg.inv(design.T @ design) @ point
    error = np.sqrt(variance * (1 + leverage))
    half = t.ppf(0.975, 7) * error
    mean = point @ coefficients
    assert gain.expected(35.0) == pytest.approx((mean, mean - half, mean + half))
