"""Every client trains alone: a flat network, or a Lorentz network with its own curvature."""

from curvfed.strategies.base.method import GRAPHS, IMAGES, LINKS, POINTS, Method
from curvfed.strategies.methods import flatland

METHODS = {
    "local": Method(
        "every client trains its own flat network alone",
        space="flat",
        personal=("*",),
        tasks=(*GRAPHS, *IMAGES, *POINTS, *LINKS),
    ),
    "local-lorentz": Method(
        "every client trains its own Lorentz network and curvature alone",
        space="lorentz",
        personal=("*",),
        network=flatland.learned_curvature,
        server=flatland.CurvatureServer,
        client=flatland.CurvatureClient,
        keys={"flatland": flatland.Keys},
    ),
}
