"""The tables of the run configuration for the baselines, and the part of it that they make up."""

from typing import Literal

from pydantic import Field

from strategies.tables import Rate, Table


class FedProx(Table):
    """Keys of FedProx."""

    mu: Rate = Field(
        default=0.01,
        ge=0,
        description="mu of the term mu/2 ||w - w_t||^2; without effect at a single local step, as above",
    )


class FedPub(Table):
    """Keys of FED-PUB."""

    scale: Rate = Field(
        default=3.0,
        ge=0,
        description="tau: how much more a client takes from models that compute alike, in the softmax of tau times the "
        "cosine; 0 takes the same from all. The authors use 3 for disjoint parts of a graph, 5 for overlapping ones",
    )
    l1: Rate = Field(
        default=1e-4,
        ge=0,
        description="lambda_1, coefficient of the L1 norm of the personal masks in the local objective. The authors' 1e-3 "
        "stands in code where the term has no gradient; with one it brings the masks to nearly 0 within 100 rounds",
    )
    threshold: Rate = Field(
        default=1e-3, ge=0, le=1, description="entries of a mask that are smaller than this count as 0 in evaluation"
    )
    proximal: Rate = Field(
        default=1e-3,
        ge=0,
        description="lambda_2, coefficient of the proximal term on the shared parameters; without effect at a single "
        "local step, as with flatland.proximal",
    )


class Gcfl(Table):
    """Keys of GCFL and GCFL+."""

    eps1: Rate = Field(
        default=0.05,
        ge=0,
        description="a cluster of clients may be split when the norm of its mean update is below this; it goes with "
        "learning rate and width, and the summary's mean_update_norm says what it is held against. It is never split "
        "where at most half of its clients reply in a round",
    )
    eps2: Rate = Field(
        default=0.1,
        ge=0,
        description="and when the norm of a client's update is above this (largest_update_norm); at least eps1, so that "
        "clients that agree are never parted",
    )
    warmup: int = Field(default=20, ge=0, le=1_000_000, description="rounds before the first that may split a cluster")
    window: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="0: clients are parted by the directions of their updates (GCFL); n: by the norms of their last n "
        "updates, under dynamic time warping (GCFL+; the authors use 5 and 10)",
    )


class FedOpt(Table):
    """Keys of FedOpt."""

    optimizer: Literal["avgm", "adam", "yogi"] = Field(default="avgm", description="the server's: Flower's FedAvgM, …")
    learning_rate: Rate = Field(default=1.0, gt=0, description="the server's")
    beta1: Rate = Field(default=0.3, ge=0, lt=1, description="its momentum, beta_1 of Adam and Yogi")
    beta2: Rate = Field(default=0.99, ge=0, lt=1, description="beta_2 of Adam and Yogi")
    tau: Rate = Field(default=1e-3, gt=0, description="what Adam and Yogi add to the root of the second moment")


class FedRep(Table):
    """Keys of FedRep."""

    head_epochs: int = Field(default=5, ge=1, le=10_000, description="passes that train the head, before local-epochs")


class Ccvr(Table):
    """Keys of CCVR."""

    per_class: int = Field(default=500, ge=1, le=1_000_000, description="virtual features drawn for each class")
    learning_rate: Rate = Field(default=0.01, gt=0, description="of SGD on the virtual features")
    epochs: int = Field(default=10, ge=1, le=10_000, description="passes over the virtual features")


class Ditto(Table):
    """Keys of Ditto."""

    mu: Rate = Field(
        default=1.0,
        ge=0,
        description="lambda of lambda/2 ||v - w||^2, which draws a client's own model v to the shared one; 0 is training "
        "alone. 1 is HyperFed's choice (Appendix B)",
    )
    epochs: int = Field(
        default=1, ge=1, le=10_000, description="passes that train a client's own model in a round, beside local-epochs"
    )


class Baselines(Table):
    """A field for each of these tables."""

    fedprox: FedProx = FedProx()
    fed_pub: FedPub = FedPub()
    gcfl: Gcfl = Gcfl()
    fedopt: FedOpt = FedOpt()
    fedrep: FedRep = FedRep()
    ccvr: Ccvr = Ccvr()
    ditto: Ditto = Ditto()
