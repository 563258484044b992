"""Every method is one row over a few parts; an ablation is a row with one other entry."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

LORENTZ_PERSONAL = ("*.time", "*.gate", "k")
"""What FlatLand keeps: the columns m that multiply time coordinates, the gates, and k, which sets the curvature."""


@dataclass(frozen=True)
class Method:
    """What one method chooses.

    Attributes
    ----------
    summary : str
        One line for tables and help texts.
    model : str
        A key of `tasks.graphs.models.MODELS`.
    personal : tuple of str
        Patterns of the parameter names that stay with the client; all other parameters are averaged.
    learns_curvature : bool
        Whether the curvature of a Lorentz model is trained; else it is -1 throughout.
    proximal : str
        The configuration key with the coefficient of the proximal term on the shared parameters; "" for none.
    before : tuple of str
        Query phases that run once, in this order, before the first round.
    task : str
        The kind of data set it runs on.
    """

    summary: str
    model: str
    personal: tuple[str, ...] = ()
    learns_curvature: bool = False
    proximal: str = ""
    before: tuple[str, ...] = ()
    task: str = "nodes"

    def is_personal(self, name: str) -> bool:
        """Whether the parameter of this name stays with the client."""
        return any(fnmatchcase(name, pattern) for pattern in self.personal)


METHODS: dict[str, Method] = {
    "flatland": Method(
        "Lorentz GCN, own curvature per client, time-like parameters stay, space-like are averaged",
        model="lorentz",
        personal=LORENTZ_PERSONAL,
        learns_curvature=True,
        proximal="flatland.proximal",
        before=("curvature",),
    ),
    "flatland-constant": Method(
        "flatland without tailored spaces: curvature -1 for every client",
        model="lorentz",
        personal=LORENTZ_PERSONAL,
        proximal="flatland.proximal",
    ),
    "flatland-shared": Method(
        "flatland without decoupling: time-like parameters and curvature are averaged too",
        model="lorentz",
        learns_curvature=True,
        proximal="flatland.proximal",
    ),
    "flatland-euclidean": Method(
        "flatland's decoupling on a flat GCN: one ordinary unit per layer takes the place of the time coordinate",
        model="split",
        personal=("*.time", "*.to_time", "*.time_bias", "*.gate"),
        proximal="flatland.proximal",
    ),
    "local": Method("every client trains a GCN alone", model="gcn", personal=("*",)),
    "local-lorentz": Method(
        "every client trains a Lorentz GCN of its own curvature alone",
        model="lorentz",
        personal=("*",),
        learns_curvature=True,
        before=("curvature",),
    ),
    "fedavg": Method("GCN, all parameters averaged (McMahan et al., 2017)", model="gcn"),
    "fedprox": Method(
        "fedavg with a proximal term (Li et al., 2020)",
        model="gcn",
        proximal="fedprox.mu",
    ),
    "fedper": Method("GCN whose classifier stays (Arivazhagan et al., 2019)", model="gcn", personal=("head.*",)),
    "fedavg-bias": Method("GCN whose biases stay: the Euclidean control for m", model="gcn", personal=("*.bias",)),
}
