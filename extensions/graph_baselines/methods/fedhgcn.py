"""FedHGCN (Du et al., 2024): FedAvg of a hyperbolic network that is trained on each graph's most
important nodes."""

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import GRAPHS, Method, Network


class Keys(Table):
    """Keys of FedHGCN."""

    curvature: Rate = Field(default=-1.0, le=0)
    """curvature of the space of all clients; 0: flat space, the limit of the curved ones"""
    ratio: float = Field(default=0.8, gt=0, le=1)
    """share of a graph's nodes that training uses: the training nodes, and the nodes about which
    their neighbours say least; 1: all"""


METHODS = {
    "fedhgcn": Method(
        "fedavg of a hyperbolic network trained on the most important nodes (Du et al., 2024)",
        space="lorentz",
        network=lambda keys: Network(node_share=keys.ratio, options={"curvature": keys.curvature}),
        keys={"fedhgcn": Keys},
        tuned={task: {"fedhgcn.ratio": (0.5, 1.0)} for task in GRAPHS},
    ),
}
