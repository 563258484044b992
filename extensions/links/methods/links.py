"""Embeddings of links, in hyperbolic or flat space, averaged row by row."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.links.charts import Hyperboloid
from curvfed.extensions.links.names import SPACE_MODELS
from curvfed.extensions.links.row_means import Stream, mean_rows, mean_terms
from curvfed.geometry.arrays import Array
from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.keys import CHOSEN, Rate, Scalar, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import Method, Network
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import WHOLE, Arrays, named_state
from curvfed.strategies.base.training import GradientTerm, Trained

ROWS = "rows/"
COUNTS = f"{WHOLE}counts/"
"""Beginnings of the names of a reply's sums over links: of rows, and of their weights."""

HOME = "home/"
INDEX = "/index"
"""Beginning of the names of the rows that stay at a client, and end of those of their numbers."""

BY_ROW = {
    "entities": "entities",
    "bias": "entities",
    "relations": "relations",
    "operator.translations": "relations",
    "operator.angles": "relations",
    "operator.factors": "relations",
}
"""Parameters that are averaged row by row, and the kind of name of each row."""

POINTS = ("entities", "operator.translations")
"""Those whose rows are points of the space."""


class Keys(Table):
    """Keys of all embeddings of links."""

    of_data = ("hold_out", "trained_ends", "closure", "reciprocal")

    negatives: int = Field(default=50, ge=1, le=10_000)
    """entities that a step draws per link, among which the right tail is chosen"""
    hold_out: bool = True
    """keep the shares of train-size and test-size; false: train on all links; the scores then say
    how well the embedding gives them back"""
    trained_ends: bool = True
    """hold out only links whose two entities keep a training link, as an entity without one cannot
    be ranked; false: any links. Real nodes hold out any, by a hash of each"""
    closure: bool = False
    """add the links to all ancestors when links are read, for files of direct parents; each
    relation by itself, and each node its own"""
    reciprocal: bool = False
    """predict heads too: each relation has an inverse with parameters of its own, a step trains its
    links in both directions, and scores are means over tails and heads"""

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """Rows in space have keys that these methods lack."""
        yield from _of_weights(config)
        if config.model in SPACE_MODELS:
            yield "model method", "method = links with this model"


def _of_weights(config: RunKeys) -> Iterator[tuple[str, str]]:
    """In a secure sum members weigh their links: sums of shares of them would tell their
    numbers."""
    if config.secure_sum and config.weights == "uniform":
        yield "weights secure-sum", "weights = examples in a secure sum of links"


class RowKeys(Keys):
    """Keys of embeddings in a space of constant curvature, 0 or below."""

    curvature: Rate | None = Field(default=CHOSEN, le=0)
    """curvature of the space of the entities; 0: flat space, the limit of the curved ones; auto:
    -1, and 0 with score=inner, which exists in flat space alone"""
    score: Literal["distance", "squared", "inner"] = "distance"
    """score of a link: minus the distance of head and tail, minus its square, or their inner
    product"""
    bias: bool = False
    """add a bias of the tail to the score; it is one of the embedding-dim numbers of an entity"""
    relations: Literal["none", "translation", "diagonal", "rotation"] = "none"
    """how a relation r moves the head h before its distance from the tail t is taken, at any
    curvature: none: not at all; translation: h + r; rotation: a rotation of pairs of coordinates,
    then + r (RotE, RotH); diagonal: each coordinate times a factor, beside t + r (MuRE, MuRP). In
    hyperbolic space + is Möbius addition, and factors apply in the tangent space at the origin"""
    average: Literal["centroid", "tangent", "streams", "flat"] = "centroid"
    """mean of the clients' rows of an entity in hyperbolic space: centroid: the Lorentz centroid;
    tangent: the mean of the ways from the row before the round; streams: the mean of the sums of
    all local steps, each moved parallel to that row, as in RFedAGS; flat: the mean of the
    coordinates"""

    @property
    def space(self) -> float:
        """The curvature, auto replaced."""
        if self.curvature is not None:
            return self.curvature
        return 0.0 if self.score == "inner" else -1.0

    def chosen(self) -> Mapping[str, Scalar]:
        """The curvature."""
        return {"curvature": self.space}

    def idle(self) -> tuple[str, ...]:
        """Means of rows are the same in flat space."""
        return () if self.space else ("average",)

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """The inner product lacks a curved form and relations, and other models a space."""
        yield from _of_weights(config)
        if config.model is not None and config.model not in SPACE_MODELS:
            yield "model method", "method = links-complex or links-rotate with this model"
        if self.score == "inner" and self.space:
            yield "links.score links.curvature", "links.curvature = 0 with links.score = inner"
        if self.score == "inner" and self.relations != "none":
            yield "links.score links.relations", "links.relations = none with links.score = inner"


class LinksClient(Learner):
    """Trains the rows of its own entities, and shares for each row how far it moved, times the
    number of its links.

    Only sums over the clients are needed: rows of entities that it does not have are zeros, as are
    their weights. Rows of entities that too few members of a secure sum have are zeros too, and
    the client goes on with its own.
    """

    keys: Keys
    hides_records = False
    sums_by_name = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._received: dict[str, Tensor] = {}
        self._streams: dict[str, Stream] = {}
        self._stays = {kind: self._staying(kind) for kind in set(BY_ROW.values())}
        self._home: dict[str, Tensor] = {}
        for name, kind in BY_ROW.items():
            if name in local.shared:
                self._add_home(name, self._stays[kind])

    def _staying(self, kind: str) -> Tensor:
        """Whether each row stays at the clients, (N,)."""
        task: Any = self.local.task
        is_rare = torch.from_numpy(self.local.leaving.few)
        if not len(is_rare):
            return torch.zeros_like(task.counts[kind], dtype=torch.bool)
        # The relation without a name is that of all links.
        places = task.places[kind]
        return (is_rare[places] & (places >= 0)).to(task.counts[kind].device)

    def _add_home(self, name: str, stays: Tensor) -> None:
        """Keep a parameter's rows of this client that stay, as they start."""
        task: Any = self.local.task
        rows = (stays & (task.counts[BY_ROW[name]] > 0)).nonzero().squeeze(1)
        if len(rows):
            self._home[HOME + name] = self.local.tensors[name].detach()[rows].clone()
            self._home[HOME + name + INDEX] = rows

    def local_state(self) -> dict[str, Tensor]:
        """The rows that stay, and their numbers."""
        return dict(self._home)

    def train(self) -> Trained:
        """The round's steps; then the rows that stay are kept."""
        trained = super().train()
        for name in BY_ROW:
            if HOME + name in self._home:
                rows = self._home[HOME + name + INDEX]
                self._home[HOME + name].copy_(self.local.tensors[name].detach()[rows])
        return trained

    @staticmethod
    def restored(model: nn.Module, state: Arrays) -> nn.Module:
        """The model with the client's own rows."""
        load_home(named_state(model), {name: torch.from_numpy(a) for name, a in state.items()})
        return model

    def receive(self, arrays: Arrays) -> None:
        """Load the rows, put the client's own in their places, and keep them until the reply."""
        super().receive(arrays)
        load_home(self.local.tensors, self._home)
        self._received = {
            name: self.local.tensors[name].detach().clone()
            for name in BY_ROW
            if name in self.local.shared
        }
        if _average(self.keys) == "streams":
            for name in self._received:
                rows = self.local.tensors[name]
                if chart := getattr(rows, "chart", None):
                    self._streams[name] = Stream(rows, chart)

    def gradient_terms(self) -> list[GradientTerm]:
        """Those of every method, and the streams of steps."""
        return [*super().gradient_terms(), *self._streams.values()]

    @torch.no_grad()
    def share(self) -> Arrays:
        """Per link of the client: sums over its links of `mean_terms` for the rows of each, and the
        numbers of links with each row; other parameters as they are. With a smaller weight in a
        secure sum the numbers are smaller, and whole: a fraction would tell which are its own."""
        task: Any = self.local.task
        number = max(task.num_examples, 1)
        weight = max(min(number, self.max_examples), 1)
        shared = super().share()
        for name, old in self._received.items():
            new = self.local.tensors[name]
            if name in self._streams:
                terms = self._streams[name].sum()
            else:
                terms = mean_terms(_average(self.keys), getattr(new, "chart", None), old, new)
            counts = task.counts[BY_ROW[name]]
            if weight < number:
                counts = (counts.double() * weight / number).ceil()
            weights = counts.to(new.dtype) / weight
            weights = weights.masked_fill(self._stays[BY_ROW[name]], 0)
            del shared[name]
            shared[ROWS + name] = (weights[:, None] * terms).numpy(force=True)
            shared[COUNTS + BY_ROW[name]] = weights.numpy(force=True)
        return shared


@torch.no_grad()
def load_home(tensors: Mapping[str, Tensor], home: Mapping[str, Tensor]) -> None:
    """Put the rows of `LinksClient.local_state` in their places."""
    for name in BY_ROW:
        if HOME + name in home:
            tensors[name][home[HOME + name + INDEX]] = home[HOME + name].to(tensors[name].device)


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
            if name not in BY_ROW:
                expected[name] = array
                continue
            is_longer = self._chart(name) is not None and _average(self.keys) == "centroid"
            shape = (len(array), array.shape[1] + is_longer)
            expected[ROWS + name] = np.zeros(shape, array.dtype)
            expected[COUNTS + BY_ROW[name]] = np.zeros(len(array), array.dtype)
        return expected

    def compared(self, arrays: Arrays) -> Arrays:
        """By how much a client moves its rows in the mean over its links, and how many links per
        link it claims; their spread over few or many rows does not change the length."""
        counts = [name for name in arrays if name.startswith(COUNTS)]
        rows = [array.ravel() for name, array in arrays.items() if name.startswith(ROWS)]
        squares = [np.square(arrays[name]).sum() for name in counts]
        share = np.sqrt(sum(squares))
        claims = {name: arrays[name].sum(keepdims=True) for name in counts}
        moves = np.concatenate(rows) / max(share, np.finfo(rows[0].dtype).tiny)
        plain = {name: array for name, array in arrays.items() if "/" not in name}
        return {"rows": moves, **claims, **plain}

    def aggregate(self, replies: Replies) -> None:
        """Average each row over the clients that have it."""
        means = split_average(self.expected_reply(0), list(replies.values()))
        self._arrays = {
            name: self._moved(name, old, means) if name in BY_ROW else means[name]
            for name, old in self._arrays.items()
        }

    def _moved(self, name: str, old: Array, means: Arrays) -> Array:
        """The rows that some client has at their means; the others as they were."""
        weights = means[COUNTS + BY_ROW[name]]
        divisors = np.maximum(weights, np.finfo(old.dtype).tiny)
        rows = torch.from_numpy(means[ROWS + name] / divisors[:, None])
        moved = mean_rows(_average(self.keys), self._chart(name), torch.from_numpy(old), rows)
        # Without a client that has the row it is 0, also in a secure sum: zeros are exact there.
        is_held = torch.from_numpy(weights > 0)[:, None]
        return torch.where(is_held, moved, torch.from_numpy(old)).numpy()

    def _chart(self, name: str) -> Hyperboloid | None:
        from curvfed.extensions.links.models import chart_of

        if name not in POINTS or not isinstance(self.keys, RowKeys):
            return None
        return chart_of(str(self.config.model), self.keys.space)


def _average(keys: Keys) -> str:
    """How rows are averaged: in flat space by their coordinates."""
    return keys.average if isinstance(keys, RowKeys) else "flat"


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


TUNED = {
    "links": {
        "links.bias": (True,),
        "links.score": ("squared",),
        "links.negatives": (10, 100),
        "links.average": ("tangent", "flat"),
    }
}
"""Keys that matter most first: the budget of a comparison may not reach the last."""

METHODS = {
    "links": embedding(
        "entities in a space of any curvature, 0 or below, by distance or inner product, each"
        " averaged on the manifold (Nickel & Kiela, 2017; Chen et al., 2021)",
        "normal",
        RowKeys,
        tasks=("links",),
        space="hyperbolic",
        tuned=TUNED,
    ),
    "links-tailored": embedding(
        "links with a curvature that each client learns for itself",
        "normal",
        RowKeys,
        tasks=("links",),
        space="hyperbolic",
        personal=("k",),
        network=Network(options={"learns_curvature": True}),
        tuned=TUNED,
    ),
    "links-complex": embedding(
        "entities and relations in complex space by ComplEx (Trouillon et al., 2016)",
        "complex",
        tasks=("links",),
        space="flat",
    ),
    "links-rotate": embedding(
        "entities in complex space, relations as rotations by RotatE (Sun et al., 2019)",
        "rotate",
        tasks=("links",),
        space="flat",
    ),
}
