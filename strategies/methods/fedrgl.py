"""FedRGL (WWW 2026): clients in products of flat, spherical and hyperbolic space, with a gate by
the Ricci curvature of edges.

Of the paper (https://doi.org/10.1145/3774904.3792142) we have a summary by its authors alone, not
its text. The paper's own are: a space for each client that combines the three kinds of spaces,
tailored to its graph, and a "Ricci-Gated Convolution" that senses how tightly parts of the graph
are connected. Our reading is all else: one factor of each kind with a third of the width;
curvatures that start at 1 and −1, are trained, and stay at the client; κ-GCN's layers (Bachmann et
al., ICML 2020) in them; a gate 2·σ(a·F + b) on an edge's weight, for its Forman-Ricci curvature F,
standardised over the client's edges, with a and b from 0, one pair for both layers; and that
everything but the curvatures is averaged. Reports show the curvature of the hyperbolic factor.
"""

from curvfed.strategies.base.method import Method, Network

METHODS = {
    "fedrgl": Method(
        "a flat, a spherical and a hyperbolic factor with personal curvatures, edges gated by their"
        " Ricci curvature",
        space="stereographic",
        personal=("k",),
        network=Network(
            options={"spaces": ("flat", "spherical", "hyperbolic"), "ricci_gate": True}
        ),
        tasks=("nodes",),
    ),
    "fedrgl-flat": Method(
        "fedrgl's gate by the Ricci curvature of edges in flat space",
        space="stereographic",
        network=Network(options={"spaces": ("flat",), "ricci_gate": True}),
        tasks=("nodes",),
    ),
}
