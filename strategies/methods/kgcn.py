"""κ-GCN clients: FedAvg of a κ-stereographic network whose curvature each client learns for itself.

The network is that of Bachmann et al. (ICML 2020), the personal curvature FlatLand's. All clients
start at curvature 0, the network of the flat twin, and may turn out hyperbolic, flat or spherical.
"""

from curvfed.strategies.base.method import Method

METHODS = {
    "kgcn": Method(
        "κ-stereographic layers, whose curvature of either sign each client learns for itself",
        space="stereographic",
        personal=("k",),
        tasks=("nodes",),
        twin={"nodes": {"method": "fedavg", "model": "gated"}},
    ),
}
