"""What is compared, and at which settings, in our words and in the peer's; fixed before anything is
measured."""

from dataclasses import dataclass, field
from typing import Any

Settings = dict[str, Any]

GRAPHS: Settings = {
    "dataset": "cora",
    "embedding-dim": 128,
    "dropout": 0.5,
    "optimizer": "adam",
    "learning-rate": 0.01,
    "weight-decay": 1e-5,
    "optimizer-state": "kept",
    "num-rounds": 100,
    "local-epochs": 1,
}
"""10 clients; the network is two graph convolutions and a linear head."""

IMAGES: Settings = {
    "dataset": "mnist",
    "model": "cnn",
    "embedding-dim": 20,
    "images.train-subset": 6000,
    "images.test-subset": 2000,
    "optimizer": "sgd",
    "learning-rate": 0.1,
    "momentum": 0.0,
    "weight-decay": 0.0,
    "clip-norm": 0.0,
    "batch-size": 64,
    "num-rounds": 10,
    "local-epochs": 5,
    "fine-tune-epochs": 0,
}
"""20 clients."""

COMMON = {"graphs": GRAPHS, "images": IMAGES}
CLIENTS = {"graphs": 10, "images": 20}
ALPHAS = (0.1, 0.5)


@dataclass(frozen=True)
class Pair:
    """A method of ours and the peer's name for it, with what either needs beside the common
    settings.

    `scores` are held against each other: "best", the clients' mean at the best validation round;
    "personal", the same after the last round; "global", the one model on the global test set after
    the last round. `label` tells two pairs of one name apart.
    """

    peer: str
    name: str
    ours: str
    settings: Settings = field(default_factory=dict)
    theirs: Settings = field(default_factory=dict)
    scores: tuple[str, ...] = ("best",)
    label: str = ""

    @property
    def task(self) -> str:
        """Of the peer."""
        return "graphs" if self.peer in ("openfgl", "fed-pub") else "images"

    def of_ours(self, seed: int, alpha: float | None, rounds: int | None = None) -> Settings:
        """Our whole run configuration; `rounds` shortens a run that is to show whether it works."""
        drawn = {"method": self.ours, "seed": seed} | ({} if alpha is None else {"alpha": alpha})
        return (
            COMMON[self.task] | self.settings | drawn | ({"num-rounds": rounds} if rounds else {})
        )


SGD: Settings = {
    "optimizer": "sgd",
    "momentum": 0.0,
    "optimizer-state": "fresh",
    "learning-rate": 0.3,
    "local-epochs": 5,
}
BOTH = ("global", "personal")
ONE_MODEL = ("global",)
OWN_MODELS = ("personal",)

PAIRS = (
    Pair("openfgl", "fedavg", "fedavg"),
    Pair("openfgl", "fedprox", "fedprox", {"fedprox.mu": 1e-3}, {"fedprox_mu": 1e-3}),
    Pair("openfgl", "scaffold", "scaffold", SGD | {"weights": "examples"}),
    Pair(
        "openfgl",
        "moon",
        "moon",
        {"moon.mu": 1.0, "moon.temperature": 0.5},
        {"moon_mu": 1, "temperature": 0.5},
    ),
    Pair(
        "openfgl",
        "fedpub",
        "fed-pub",
        {"fed-pub.scale": 10.0, "fed-pub.l1": 0.0, "fed-pub.proximal": 0.0},
        {"norm_scale": 10},
    ),
    Pair(
        "openfgl",
        "fedgta",
        "fedgta",
        {"fedgta.moments": 10, "fedgta.threshold": 0.5},
        {"num_moments": 10, "accept_alpha": 0.5},
    ),
    Pair(
        "openfgl",
        "adafgl",
        "adafgl",
        {"num-rounds": 50, "fine-tune-epochs": 50, "adafgl.width": 128},
        {"num_rounds_vanilla": 50, "adafgl_weight_decay": 1e-5},
        OWN_MODELS,
    ),
    Pair(
        "openfgl",
        "fedsage_plus",
        "fedsage+",
        {
            "fedsage.generator-rounds": 10,
            "fedsage.epochs": 1,
            "fedsage.hidden": 0.2,
            "fedsage.width": 128,
        },
        {"gen_rounds": 10, "latent_dim": 128, "hidden_portion": 0.5},
    ),
    Pair("fed-pub", "fedavg", "fedavg", {"weights": "uniform"}),
    Pair(
        "fed-pub",
        "fedpub",
        "fed-pub",
        {"fed-pub.scale": 3.0, "fed-pub.l1": 0.0, "fed-pub.proximal": 0.0},
        {"norm_scale": 3.0},
    ),
    Pair("pfllib", "FedAvg", "fedavg", scores=BOTH),
    Pair("pfllib", "FedProx", "fedprox", {"fedprox.mu": 0.01}, {"mu": 0.01}, BOTH),
    Pair("pfllib", "SCAFFOLD", "scaffold", {"learning-rate": 0.02}, scores=BOTH),
    Pair(
        "pfllib",
        "MOON",
        "moon",
        {"moon.mu": 1.0, "moon.temperature": 0.5},
        {"mu": 1.0, "tau": 0.5},
        BOTH,
    ),
    Pair("pfllib", "FedDyn", "feddyn", {"feddyn.alpha": 0.1}, {"alpha": 0.1}, BOTH),
    Pair(
        "pfllib",
        "FedDyn",
        "feddyn",
        {"feddyn.alpha": 0.1},
        {"alpha": 0.1, "as_published": True},
        BOTH,
        label="FedDyn, mended",
    ),
    Pair(
        "pfllib",
        "Ditto",
        "ditto",
        {"ditto.mu": 1.0, "ditto.epochs": 1},
        {"mu": 1.0, "plocal_epochs": 1},
        BOTH,
    ),
    Pair(
        "pfllib",
        "pFedMe",
        "pfedme",
        {"pfedme.penalty": 1.0, "pfedme.steps": 5, "pfedme.rate": 0.3, "weights": "examples"},
        {"lamda": 1.0, "K": 5, "p_learning_rate": 0.1, "local_learning_rate": 0.3, "beta": 1.0},
        BOTH,
    ),
    Pair("pfllib", "FedRep", "fedrep", {"fedrep.head-epochs": 5}, {"plocal_epochs": 5}, OWN_MODELS),
    Pair("pfllib", "FedBABU", "fedbabu", {"fine-tune-epochs": 2}, {"fine_tuning_epochs": 2}, BOTH),
    Pair("pfllib", "FedROD", "fedrod", scores=BOTH),
    Pair(
        "pfllib",
        "APPLE",
        "apple",
        {"apple.rate": 1e-3, "apple.mu": 1e-3, "apple.last": 0.2},
        {"dr_learning_rate": 1e-3, "mu": 1e-3, "L": 0.23},
        OWN_MODELS,
    ),
    Pair(
        "pfllib",
        "APPLE",
        "apple",
        {"learning-rate": 0.005, "apple.rate": 1e-3, "apple.mu": 1e-3, "apple.last": 0.2},
        {"dr_learning_rate": 1e-3, "mu": 1e-3, "L": 0.23, "as_published": True},
        OWN_MODELS,
        label="APPLE, mended",
    ),
    Pair("pfllib", "FedPer", "fedper", scores=OWN_MODELS),
    Pair("pfllib", "LG-FedAvg", "lg-fedavg", scores=OWN_MODELS),
    Pair(
        "pfllib",
        "FedProto",
        "fedproto",
        {"fedproto.weight": 1.0, "weights": "uniform"},
        {"lamda": 1.0},
        OWN_MODELS,
    ),
    Pair(
        "pfllib",
        "FedProto",
        "fedproto",
        {"fedproto.weight": 1.0, "weights": "examples"},
        {"lamda": 1.0},
        OWN_MODELS,
        label="FedProto, ours with weights=examples",
    ),
    Pair(
        "pfllib",
        "FedALA",
        "fedala",
        {"fedala.layers": 1, "fedala.rate": 1.0, "fedala.sample": 0.8},
        {"layer_idx": 2, "eta": 1.0, "rand_percent": 80},
        BOTH,
    ),
    Pair(
        "pfllib",
        "FedBN",
        "fedbn",
        {"model": "convnet", "local-epochs": 1},
        scores=OWN_MODELS,
    ),
    Pair(
        "pfllib",
        "FedDBE",
        "feddbe",
        {"num-rounds": 11, "feddbe.kappa": 1.0, "feddbe.momentum": 1.0},
        {"kl_weight": 1.0, "momentum": 1.0},
        BOTH,
    ),
    Pair(
        "fedtgp",
        "FedTGP",
        "fedtgp",
        {"learning-rate": 0.02, "fedtgp.rate": 0.02, "fedtgp.batch-size": 64, "fedtgp.epochs": 100},
        {"lamda": 1.0, "server_epochs": 100, "margin_threthold": 100.0, "feature_dim": 20},
        OWN_MODELS,
    ),
    Pair("fedetf", "FedETF", "fedetf", scores=BOTH),
    Pair(
        "fedetf",
        "FedETF",
        "fedetf",
        {"fine-tune-epochs": 3, "fedetf.alternations": 20},
        scores=OWN_MODELS,
        label="FedETF, fine-tuned",
    ),
)
"""In the order in which they run. PFLlib's L is a share of one round less than ours: both are two
rounds of ten. Its FedDBE trains once before its first round, which is our first of eleven."""
