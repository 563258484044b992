"""Embeddings of links, in hyperbolic or flat space, whose rows are averaged each for itself."""

from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from curvfed.geometry.arrays import Array
from curvfed.geometry.frames import Hyperboloid
from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import LINKS, Method, Network
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays

ROWS = "rows/"
COUNTS = "counts/"
"""Beginnings of the names of a reply's sums over links: of rows, and of their weights."""

BY_ROW = {"entities": "entities", "relations": "relations", "k": "relations"}
"""Parameters whose rows are averaged each for itself, and of what their rows are; a single k is
averaged as a whole."""


class Keys(Table):
    """Keys of links."""

    negatives: int = Field(default=50, ge=1, le=10_000)
    """entities that a step draws per link, among which the right tail is chosen"""
    hold_out: bool = True
    """keep the shares of train-size and test-size; false: train on all links, whose scores then say
    how well the embedding gives them back"""

    @property
    def mean(self) -> str:
        """How rows are averaged: in flat space by their coordinates."""
        return "flat"


class TailoredKeys(Keys):
    """Keys of links in hyperbolic space whose curvature is trained in any case."""

    average: Literal["centroid", "tangent", "flat"] = "centroid"
    """mean of the clients' rows of an entity in hyperbolic space: centroid: the Lorentz centroid;
    tangent: the mean of the steps from the row before the round; flat: the mean of the
    coordinates"""
    curvature: Rate = Field(default=-1.0, lt=0)
    """curvature of the space, from which training starts"""
    by_relation: bool = False
    """a curvature for each relation, which learn-curvature trains from curvature on; a client
    changes those of the relations in its links"""

    @property
    def mean(self) -> str:
        """See `Keys`."""
        return self.average

    @property
    def learns(self) -> bool:
        """Whether the curvature is trained."""
        return True


class CurvedKeys(TailoredKeys):
    """Keys of links in hyperbolic space."""

    learn_curvature: bool = False
    """train the curvature, which is common to all clients"""

    @property
    def learns(self) -> bool:
        """See `TailoredKeys`."""
        return self.learn_curvature

    def conflict(self, run: RunKeys) -> tuple[str, str]:
        """Curvatures of relations that nothing trains stay equal."""
        if self.by_relation and not self.learn_curvature:
            return "links.by-relation links.learn-curvature", "by-relation with learn-curvature"
        return "", ""


def mean_terms(average: str, chart: Hyperboloid | None, old: Tensor, new: Tensor) -> Tensor:
    """What is averaged over the clients for each row: where it is now, seen from the row before the
    round; (N, d) or (N, d+1)."""
    if chart is None or average == "flat":
        return new - old
    return chart.log(old, new) if average == "tangent" else chart.offset(old, new)


def mean_rows(average: str, chart: Hyperboloid | None, old: Tensor, means: Tensor) -> Tensor:
    """The rows of these means of `mean_terms`."""
    if chart is None or average == "flat":
        return old + means
    return chart.move(old, means) if average == "tangent" else chart.move_to_centroid(old, means)


class LinksClient(Learner):
    """Trains the rows of its own entities, and shares for each row how far it moved, times the
    number of its links.

    Only sums over the clients are needed: rows of entities that it does not have are zeros, as are
    their weights.
    """

    keys: Keys
    hides_records = False

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._received: dict[str, Tensor] = {}

    def receive(self, arrays: Arrays) -> None:
        """Load the rows, and keep them until the reply."""
        super().receive(arrays)
        self._received = {
            name: self.local.tensors[name].detach().clone()
            for name in BY_ROW
            if name in self.local.shared and self.local.tensors[name].ndim == 2
        }

    @torch.no_grad()
    def share(self) -> Arrays:
        """Per link of the client: sums over its links of what `mean_terms` gives for the rows of
        each, and the numbers of links with each row; other parameters as they are."""
        task: Any = self.local.task
        shared = super().share()
        for name, old in self._received.items():
            new = self.local.tensors[name]
            terms = mean_terms(self.keys.mean, getattr(new, "chart", None), old, new)
            weights = task.counts[BY_ROW[name]].to(new.dtype) / max(task.num_examples, 1)
            del shared[name]
            shared[ROWS + name] = (weights[:, None] * terms).numpy(force=True)
            shared[COUNTS + name] = weights.numpy(force=True)
        return shared


class LinksServer(Average):
    """The average over the clients of each row, weighted by their numbers of links with it (FedE,
    Chen et al., 2021), on the manifold; a row that no client has stays."""

    name = "rows"
    summed_clients = "own"
    keys: Keys

    def expected_reply(self, partition: int) -> Arrays:
        """Sums of rows and their weights in place of the parameters by row."""
        expected: Arrays = {}
        for name, array in self._arrays.items():
            if not _is_by_row(name, array):
                expected[name] = array
                continue
            is_longer = self._chart(name) is not None and self.keys.mean == "centroid"
            shape = (len(array), array.shape[1] + is_longer)
            expected[ROWS + name] = np.zeros(shape, array.dtype)
            expected[COUNTS + name] = np.zeros(len(array), array.dtype)
        return expected

    def compared(self, arrays: Arrays) -> Arrays:
        """By how much a client moves its rows in the mean over its links, and how many links per
        link it claims; whether these are spread over few or many rows is no matter of length."""
        counts = [name for name in arrays if name.startswith(COUNTS)]
        rows = [arrays[name.replace(COUNTS, ROWS)].ravel() for name in counts]
        share = np.sqrt(sum(np.square(arrays[name]).sum() for name in counts))
        claims = {name: arrays[name].sum(keepdims=True) for name in counts}
        moves = np.concatenate(rows) / max(share, np.finfo(rows[0].dtype).tiny)
        others = {name: array for name, array in arrays.items() if "/" not in name}
        return {"rows": moves, **claims, **others}

    def aggregate(self, replies: Replies) -> None:
        """Average each row over the clients that have it."""
        means = split_average(self.expected_reply(0), list(replies.values()))
        self._arrays = {
            name: self._moved(name, old, means) if _is_by_row(name, old) else means[name]
            for name, old in self._arrays.items()
        }

    def _moved(self, name: str, old: Array, means: Arrays) -> Array:
        """The rows that some client has at their means; the others as they were."""
        weights = means[COUNTS + name]
        divisors = np.maximum(weights, np.finfo(old.dtype).tiny)
        rows = torch.from_numpy(means[ROWS + name] / divisors[:, None])
        moved = mean_rows(self.keys.mean, self._chart(name), torch.from_numpy(old), rows)
        # Without a client that has the row it is 0, also in a secure sum: zeros are exact there.
        is_held = torch.from_numpy(weights > 0)[:, None]
        return torch.where(is_held, moved, torch.from_numpy(old)).numpy()

    def _chart(self, name: str) -> Hyperboloid | None:
        from curvfed.tasks.links.models import CURVED

        return CURVED.get(str(self.run.model)) if name == "entities" else None


def _is_by_row(name: str, array: Array) -> bool:
    return name in BY_ROW and array.ndim == 2


def curved(keys: TailoredKeys) -> Network:
    """An embedding in a space of this curvature, which it may learn."""
    return Network(
        options={
            "curvature": keys.curvature,
            "learns_curvature": keys.learns,
            "by_relation": keys.by_relation,
        }
    )


def embedding(words: str, model: str, keys: type[Keys] = Keys, **parts: Any) -> Method:
    """The method of this embedding, which differs from the others in these parts.

    `tasks` is among them: lists of methods read it from the text of the rows.
    """
    return Method(
        words,
        settings={"links": {"model": model}},
        keys={"links": keys},
        server=LinksServer,
        client=LinksClient,
        **parts,
    )


FLAT_TWIN = {"links": {"method": "links-inner"}}
AVERAGES = {"links": {"links.average": ("tangent", "flat")}}

METHODS = {
    "links-poincare": embedding(
        "entities in the Poincaré ball by distance, each averaged on the manifold (Nickel & Kiela,"
        " 2017; Chen et al., 2021)",
        "poincare",
        CurvedKeys,
        tasks=LINKS,
        space="hyperbolic",
        network=curved,
        tuned=AVERAGES,
        twin=FLAT_TWIN,
    ),
    "links-lorentz": embedding(
        "entities on the hyperboloid by distance, with Riemannian steps (Nickel & Kiela, 2018)",
        "hyperboloid",
        CurvedKeys,
        tasks=LINKS,
        space="hyperbolic",
        network=curved,
        tuned=AVERAGES,
        twin=FLAT_TWIN,
    ),
    "links-tailored": embedding(
        "links-poincare with a curvature that each client learns for itself",
        "poincare",
        TailoredKeys,
        tasks=LINKS,
        space="hyperbolic",
        personal=("k",),
        network=curved,
        tuned=AVERAGES,
        twin=FLAT_TWIN,
    ),
    "links-inner": embedding(
        "entities in flat space by inner product and bias, the flat twin of links-poincare",
        "inner",
        tasks=LINKS,
        space="flat",
    ),
    "links-euclidean": embedding(
        "entities in flat space by Euclidean distance", "euclidean", tasks=LINKS, space="flat"
    ),
    "links-complex": embedding(
        "entities and relations in complex space by ComplEx (Trouillon et al., 2016)",
        "complex",
        tasks=LINKS,
        space="flat",
    ),
    "links-rotate": embedding(
        "entities in complex space, relations as rotations by RotatE (Sun et al., 2019)",
        "rotate",
        tasks=LINKS,
        space="flat",
    ),
}
