"""κ-GCN (Bachmann et al., ICML 2020) with a curvature that each client learns for itself.

The network is averaged as by FedAvg, and the personal curvature is FlatLand's idea. All clients
start at curvature 0, the network of the flat twin, and may turn out hyperbolic, flat or spherical.
"""

from curvfed.strategies.base.method import Method

METHODS = {
    "kgcn": Method(
        "κ-stereographic layers, whose curvature of either sign each client learns for itself",
        space="stereographic",
        personal=("k",),
        tasks=("nodes",),
    ),
}
