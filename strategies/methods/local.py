"""Every client trains alone: a flat network, or a Lorentz network with its own curvature."""

from curvfed.strategies.base.method import GRAPHS, IMAGES, POINTS, Method

METHODS = {
    "local": Method(
        "every client trains its own flat network alone",
        space="flat",
        personal=("*",),
        tasks=(*GRAPHS, *IMAGES, *POINTS),
    ),
    "local-lorentz": Method(
        "every client trains its own Lorentz network and curvature alone",
        space="lorentz",
        personal=("*",),
        learns_curvature=True,
        before=("curvature",),
    ),
}
