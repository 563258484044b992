"""LG-FedAvg (Liang et al., 2020): the body stays at the clients, the classifier is averaged."""

from curvfed.strategies.base.method import IMAGES, Method

METHODS = {
    "lg-fedavg": Method(
        "personal body, averaged classifier (Liang et al., 2020)",
        space="flat",
        personal=("body.*",),
        tasks=IMAGES,
    ),
}
