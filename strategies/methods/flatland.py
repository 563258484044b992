"""FlatLand (an anonymous submission): Lorentz networks with a curvature for each client, and its
ablations.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import AfterValidator, Field

from curvfed.strategies.base.keys import CHOSEN, OfExtensions, Rate, Table
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import Method, Network
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

LORENTZ_PERSONAL = ("*.time", "*.gate", "k", "estimator.*")
"""The personal parameters: the columns m that multiply time coordinates, the gates, and k and its
estimator, which set the curvature."""


MEASURED = ("ollivier", "fit")
"""Initial curvatures that an extension measures."""


def _known_init(name: str) -> str:
    """Refuse an initial curvature that nothing here measures."""
    if name in MEASURED and name not in plugins.additions(plugins.GRAPH_CURVATURES):
        raise ValueError(f"no package here measures {name}")
    return name


class Keys(Table):
    """Keys of FlatLand and its ablations."""

    retired = (("triangles", True),)

    shared = ("curvature", "curvature_map", "gate", "self_weight")

    curvature: Rate | None = Field(default=CHOSEN, le=0)
    """curvature of the space of all clients: below 0, or 0 for flat space, the limit of the curved
    ones; auto: the method's, which clients learn with flatland, and -1 for a network that learns
    none"""
    curvature_init: Annotated[
        Literal["forman", "ollivier", "fit", "literal", "mlp", "constant"],
        AfterValidator(_known_init),
        OfExtensions((plugins.GRAPH_CURVATURES,)),
    ] = "forman"
    """initial curvature of a client that learns it: forman, ollivier: from the mean
    Forman-Ricci or Ollivier-Ricci curvature of its edges, standardised over the clients; fit: the
    curvature of least distortion of its distances, as `curvfed curvature` finds it, for nodes
    alone; literal: k is the mean Forman-Ricci curvature itself, as in the paper, where the
    published map is flat below -10; constant: -1; mlp: -1, changed by a small personal network on
    statistics of the graph"""
    vertex_weights: Literal["one", "degree", "inverse-degree"] = "one"
    """weights of the nodes in the Forman-Ricci curvature, for curvature-init forman and literal:
    one, the only ones that the paper names, degree: the sum of the weights of a node's edges, 1
    each if the data have none, or inverse-degree: one over that"""
    curvature_map: Literal["sigmoid", "exp", "wide"] = "sigmoid"
    """the squared radius K, for the curvature -1/K, as a function of the trained scalar k: sigmoid:
    sigmoid(k) + 0.5, as published; exp: exp(3 tanh 10k), from 1/20 to 20, which moves fast; or
    wide: exp(6 tanh 5k), from 1/403 to 403"""
    gate: bool = True
    """nodes, and graphs with model=lorentz-gcn: mix a high-pass of the neighbourhood into every
    layer by a learned gate"""
    self_weight: bool = True
    """graphs with model=lorentz: learn the weight of a node relative to its neighbours, the epsilon
    of GIN; false: equal weights"""
    proximal: Rate = Field(default=0.01, ge=0)
    """coefficient of the proximal term on the shared parameters; its gradient is 0 in the first
    local step, so it matters from two local steps on"""

    def proximal_terms(self) -> dict[str, float]:
        """The paper's term, without a half."""
        return {"proximal": self.proximal}

    def idle(self) -> tuple[str, ...]:
        """A given curvature is not learned; other initial curvatures are not Forman's."""
        if self.curvature is not None:
            return ("curvature_init", "vertex_weights", "curvature_map")
        return () if self.curvature_init in ("forman", "literal") else ("vertex_weights",)


class CurvatureClient(Learner):
    """FedAvg's local work; k starts from the curvature of the client's graph."""

    keys: Keys

    @classmethod
    def asked_for(cls, keys: Keys) -> str:
        """k, where it is standardised over the clients, because the raw value saturates the
        sigmoid."""
        is_relative = keys.curvature is None and keys.curvature_init in ("forman", "ollivier")
        return "k" if is_relative else ""

    @classmethod
    def answer(cls, data: Any, keys: Keys) -> dict[str, float]:
        """The graph's curvature, by default its mean Ricci curvature.

        Raises
        ------
        DataError
            If the data are not a graph.
        """
        from curvfed.tasks.graphs.data.client_graph import ClientGraph
        from curvfed.tasks.graphs.ricci import graph_curvature

        if not isinstance(data, ClientGraph):
            raise DataError(
                f"the data are {data.task}, which have no Ricci curvature", key="not-a-graph"
            )
        kind = keys.curvature_init
        return {"ricci": graph_curvature(data, kind, home() / "cache", keys.vertex_weights)}

    @classmethod
    def start_figures(cls, answers: Sequence[Mapping[str, float]]) -> tuple[float, ...]:
        """Mean and standard deviation of the curvatures; none if a client sent none."""
        values = [answer["ricci"] for answer in answers if np.isfinite(answer.get("ricci", np.nan))]
        if len(values) < len(answers):
            log.info(
                "%d of %d clients sent no curvature, because they keep it private or sent no valid"
                " reply: all start at -1",
                len(answers) - len(values),
                len(answers),
            )
            return ()
        return float(np.mean(values)), float(np.std(values))

    @torch.no_grad()
    def start(self, figures: tuple[float, ...]) -> None:
        """Set k: with "literal" to the raw curvature, with "fit" by the curvature that fits the
        graph, otherwise to the standardised one."""
        from curvfed.tasks.graphs.ricci import (
            CURVATURE_MAPS,
            REACH,
            graph_statistics,
            start_of_fit,
        )

        local = self.local
        chosen = CURVATURE_MAPS[self.keys.curvature_map]
        if "k" not in local.tensors or "k" in local.shared:
            return
        if (statistics := local.tensors.get("estimator.statistics")) is not None:
            statistics.copy_(graph_statistics(local.data))
        if self.keys.curvature_init == "literal":
            local.tensors["k"].fill_(self.answer(local.data, self.keys)["ricci"])
        elif self.keys.curvature_init == "fit":
            fitted = self.answer(local.data, self.keys)["ricci"]
            local.tensors["k"].fill_(start_of_fit(fitted, chosen))
        elif len(figures) == 2 and figures[1] > 0:
            mean, deviation = figures
            curvature = self.answer(local.data, self.keys)["ricci"]
            deviations = (curvature - mean) / deviation
            deviations = min(max(deviations, -REACH), REACH)
            local.tensors["k"].fill_(deviations * chosen.deviation)


def learned_curvature(keys: Keys) -> Network:
    """A Lorentz network that learns its curvature, if wanted by a small network on statistics of
    the graph."""
    estimates = keys.curvature_init == "mlp"
    return Network(options={"curvature": None, "estimates_curvature": estimates})


PARTS = {"nodes": {"flatland.gate": (False,)}, "graphs": {"flatland.self-weight": (False,)}}
"""The parts of a layer that help on some data and not on others."""

SETTINGS = {"nodes": {"schedule": "inverse"}}
"""At a constant rate accuracy falls again after 30 to 50 rounds on Cora, because the clients' few
training nodes are learnt by heart; a constant rate of a fifth would leave narrow networks and short
runs untrained."""

METHODS = {
    "flatland": Method(
        "Lorentz layers, a curvature per client, personal time-like and averaged space-like"
        " parameters",
        space="lorentz",
        personal=LORENTZ_PERSONAL,
        network=learned_curvature,
        client=CurvatureClient,
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned=PARTS,
    ),
    "flatland-constant": Method(
        "flatland without tailored spaces: a common curvature, -1 by default",
        space="lorentz",
        personal=LORENTZ_PERSONAL,
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned=PARTS,
    ),
    "flatland-shared": Method(
        "flatland without decoupling: time-like parameters and curvature are averaged too",
        space="lorentz",
        network=Network(options={"curvature": None}),
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned=PARTS,
    ),
    "flatland-euclidean": Method(
        "FlatLand (E) of the paper's Table 4 as we read it: a flat GCN with one personal unit per"
        " layer in place of the time coordinate",
        space="split",
        personal=("*.time", "*.to_time", "*.time_bias", "*.gate"),
        tasks=("nodes",),
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned={"nodes": PARTS["nodes"]},
    ),
}
