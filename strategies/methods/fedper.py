"""FedPer (Arivazhagan et al., 2019): FedAvg with personal classifiers."""

from curvfed.strategies.base.method import GRAPHS, IMAGES, Method

METHODS = {
    "fedper": Method(
        "fedavg with personal classifiers (Arivazhagan et al., 2019)",
        space="flat",
        personal=("head.*",),
        tasks=(*GRAPHS, *IMAGES),
    ),
}
