"""Every client trains alone: a flat network, or a Lorentz network with its own curvature."""

from curvfed.strategies.base.method import ALL, Method
from curvfed.strategies.methods import flatland

METHODS = {
    "local": Method(
        "every client trains its own flat network alone",
        space="flat",
        personal=("*",),
        tasks=ALL,
    ),
    "local-lorentz": Method(
        "every client trains its own Lorentz network and curvature alone",
        space="lorentz",
        personal=("*",),
        network=flatland.learned_curvature,
        client=flatland.CurvatureClient,
        keys={"flatland": flatland.Keys},
    ),
}
