"""The gain from curvature to expect where links of a hierarchy are learned, by its shape: the share
of entities with several direct parents, and the gain that was measured on hierarchies."""

import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t

from curvfed.extensions.links.dataset import GraphLinks, LinkDataset
from curvfed.extensions.links.hierarchy import Hierarchy, hierarchies
from curvfed.server_app.report.page import Cell, Table, number, percent
from curvfed.strategies.config.run_config import RunConfig, open_dataset

LEVEL = 0.95
"""Probability of the interval of an expected gain."""

MEASURED = Path(__file__).with_name("gain_on_hierarchies.json")
"""The measured gains: a line through those of held-out links, and the range of those of
reconstruction. `python -m studies.hierarchies` writes it."""


MEASURE = "curvfed compare dataset={dataset} methods=links,links-inner,links-squared{closure}"


Gain = tuple[float, float, float]
"""A gain in points, and the ends of its interval."""


@dataclass(frozen=True)
class MeasuredGain:
    """A line through the gains of curvature −1 over the best flat score on several hierarchies, in
    points of the mean reciprocal rank of held-out links among a client's own entities, by the
    percentage of entities with several direct parents: 10 dimensions, 10 clients that hold
    branches.

    Attributes
    ----------
    hierarchies : int
    at_zero, per_point : float
        The line.
    deviation : float
        Standard deviation of the gains from it.
    mean_share, spread, largest_share : float
        Mean of the percentages, the sum of their squared deviations from it, and the largest.
    fewest_entities : int
        Of any of the hierarchies.
    """

    hierarchies: int
    at_zero: float
    per_point: float
    deviation: float
    mean_share: float
    spread: float
    largest_share: float
    fewest_entities: int

    def expected(self, share: float) -> Gain:
        """The gain that is expected on another hierarchy of this percentage, and its prediction
        interval of `LEVEL`."""
        mean = self.at_zero + self.per_point * share
        away = (share - self.mean_share) ** 2 / self.spread
        quantile = float(t.ppf((1 + LEVEL) / 2, self.hierarchies - 2))
        half = quantile * self.deviation * math.sqrt(1 + 1 / self.hierarchies + away)
        return mean, mean - half, mean + half


@dataclass(frozen=True)
class MeasuredReconstruction:
    """The gains of curvature −1 over the best flat score where all links are trained on and ranked,
    in points of mean average precision: ten clients that hold branches.

    Attributes
    ----------
    hierarchies, dimension : int
    least, most : float
        The smallest and the largest gain.
    above : int
        Number of hierarchies with an interval above 0.
    """

    hierarchies: int
    dimension: int
    least: float
    most: float
    above: int

    def sentence(self) -> str:
        """These gains in words."""
        return (
            f"To reconstruct all links in {self.dimension} dimensions (score=reconstruction), it"
            f" gained {_points(self.least)} to {_points(self.most)} points of mean average"
            f" precision on {self.hierarchies} hierarchies; {self.above} intervals lie above 0."
        )


def measured_gain() -> MeasuredGain:
    """The line of `MEASURED`."""
    return MeasuredGain(**_measured("held-out links"))


def measured_reconstruction() -> MeasuredReconstruction:
    """The range of `MEASURED`."""
    return MeasuredReconstruction(**_measured("reconstruction"))


def _measured(part: str) -> dict[str, Any]:
    return dict(json.loads(MEASURED.read_text(encoding="utf-8"))[part])


class Expectation:
    """The gain from curvature to expect from the shapes of the relations.

    Parameters
    ----------
    shapes : sequence of Hierarchy
    dataset : str
        The name or path of the links.

    Attributes
    ----------
    table : Table
        A row per relation.
    command : str
        The command that measures the gain.
    """

    def __init__(self, shapes: Sequence[Hierarchy], dataset: str) -> None:
        self.table = table(shapes)
        # Without the links to all ancestors, held-out links cannot be predicted.
        is_direct = all(shape.direct == shape.links for shape in shapes)
        closure = " links.closure=true" if is_direct else ""
        self.command = MEASURE.format(dataset=shlex.quote(dataset), closure=closure)
        self._shapes = shapes

    def sentence(self, measured: Gain | None = None) -> str:
        """See `sentence`."""
        return sentence(self._shapes, measured)


def expectation(run: RunConfig) -> Expectation | None:
    """The gain to expect for the links of a run; None for the edges of a graph, which lack a
    direction.

    Raises
    ------
    DataError
        If they cannot be read.
    """
    shapes = shapes_of(run)
    return Expectation(shapes, str(run.dataset)) if shapes else None


def shapes_of(config: RunConfig) -> list[Hierarchy]:
    """The shape of each relation in the links of a run; none for the edges of a graph, which lack a
    direction.

    Raises
    ------
    DataError
        If they cannot be read.
    """
    dataset = open_dataset(config, "links")
    assert isinstance(dataset, LinkDataset)
    if isinstance(dataset, GraphLinks):
        return []
    return list(hierarchies(dataset.locate().read()))


def table(shapes: Sequence[Hierarchy]) -> Table:
    """A row per relation."""
    rows = []
    for shape in shapes:
        texts = [
            number(shape.entities),
            number(shape.links),
            number(shape.direct),
            percent(shape.several_parents),
            number(shape.ancestors, 1),
            number(shape.in_cycles),
        ]
        rows.append(([shape.relation or "links"], [Cell(text) for text in texts]))
    heads = [
        "entities",
        "links",
        "direct links",
        "several parents",
        "ancestors",
        "in cycles",
    ]
    return Table("", ["relation"], heads, rows)


def sentence(shapes: Sequence[Hierarchy], measured: Gain | None = None) -> str:
    """The gain to expect by the shape of the relation with the most links, and whether a measured
    gain agrees with it: none of a hierarchy of another size than those that were measured."""
    largest = max(shapes, key=lambda shape: shape.links)
    share = 100 * largest.several_parents
    relation = f" by {largest.relation}" if largest.relation else ""
    if largest.in_cycles:
        return (
            f"{largest.in_cycles} of {largest.entities} entities are above themselves{relation}:"
            " these links are no hierarchy, and gains were measured on hierarchies alone."
        )
    gain = measured_gain()
    expected = gain.expected(share)
    mean, low, high = map(_points, expected)
    comment = ""
    if share > gain.largest_share:
        comment = f" No hierarchy with more than {gain.largest_share:.0f}% was measured."
    if largest.entities < gain.fewest_entities:
        comment += (
            f" All of them have {gain.fewest_entities} entities or more; for fewer, as here, the"
            " gain is not known."
        )
    elif measured is not None:
        here, lowest, highest = map(_points, measured)
        place = "lies outside" if _are_apart(measured, expected) else "agrees with"
        comment += f" The gain measured here, {here} ({lowest} to {highest}), {place} that range."
    return (
        f"{share:.0f}% of the entities have several direct parents{relation}. On"
        f" {gain.hierarchies} hierarchies that people made, in 10 dimensions with 10 clients,"
        f" curvature −1 gains {mean} points of mean reciprocal rank over the best flat score at"
        f" such a share, among a client's own entities; {LEVEL:.0%} of others are expected between"
        f" {low} and {high} (docs/findings.md#hierarchies).{comment}"
        f" {measured_reconstruction().sentence()}"
    )


def _are_apart(one: Gain, other: Gain) -> bool:
    """Whether the intervals of two gains have no number in common."""
    return one[2] < other[1] or other[2] < one[1]


def _points(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")
