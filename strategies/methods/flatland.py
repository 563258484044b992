"""FlatLand (Lu et al., 2024): Lorentz networks with a curvature for each client, and its
ablations.
"""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import Method

LORENTZ_PERSONAL = ("*.time", "*.gate", "k", "estimator.*")
"""The personal parameters: the columns m that multiply time coordinates, the gates, and k and its
estimator, which set the curvature."""


class Keys(Table):
    """Keys of FlatLand and its ablations."""

    curvature_init: Literal["forman", "ollivier", "literal", "mlp", "constant"] = Field(
        default="forman",
        description=(
            "initial curvature of a client, if the method tailors it: forman, ollivier: from the"
            " mean Forman-Ricci or Ollivier-Ricci curvature of its edges, standardised over the"
            " clients; literal: k is the mean Forman-Ricci curvature itself, as in the paper, where"
            " the published map is flat below -10; constant: -1; mlp: -1, changed by a small"
            " personal network on statistics of the graph"
        ),
    )
    curvature_map: Literal["sigmoid", "exp"] = Field(
        default="sigmoid",
        description=(
            "the squared radius K, for the curvature -1/K, as a function of the trained scalar k:"
            " sigmoid: sigmoid(k) + 0.5, as published; or exp(3 tanh 10k), from 1/20 to 20, which"
            " moves fast"
        ),
    )
    triangles: bool = Field(
        default=True,
        description="count triangles in the Forman-Ricci curvature (the augmented form)",
    )
    gate: bool = Field(
        default=True,
        description=(
            "nodes: mix a high-pass of the neighbourhood into every layer by a learned gate"
        ),
    )
    self_weight: bool = Field(
        default=True,
        description=(
            "whole graphs: learn the weight of a node beside its neighbours, the epsilon of GIN;"
            " false: equal weights"
        ),
    )
    proximal: Rate = Field(
        default=0.01,
        ge=0,
        description=(
            "coefficient of the proximal term on the shared parameters; its gradient is 0 in the"
            " first local step, so it matters from two local steps on"
        ),
    )


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
        learns_curvature=True,
        proximal="flatland.proximal",
        before=("curvature",),
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned=PARTS,
    ),
    "flatland-constant": Method(
        "flatland without tailored spaces: curvature -1 for every client",
        space="lorentz",
        personal=LORENTZ_PERSONAL,
        proximal="flatland.proximal",
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned=PARTS,
    ),
    "flatland-shared": Method(
        "flatland without decoupling: time-like parameters and curvature are averaged too",
        space="lorentz",
        learns_curvature=True,
        proximal="flatland.proximal",
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned=PARTS,
    ),
    "flatland-euclidean": Method(
        "flatland's decoupling on a flat GCN: one ordinary unit per layer replaces the time"
        " coordinate",
        space="split",
        personal=("*.time", "*.to_time", "*.time_bias", "*.gate"),
        proximal="flatland.proximal",
        tasks=("nodes",),
        settings=SETTINGS,
        keys={"flatland": Keys},
        tuned={"nodes": PARTS["nodes"]},
    ),
}
