"""The tables of the run configuration for the baselines, and the part of it that they make up."""

from typing import Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.graph_baseline_tables import AdaFgl, FedGnn, FedGta, FedHgcn, FedPub, FedSage, Gcfl


class FedProx(Table):
    """Keys of FedProx."""

    mu: Rate = Field(
        default=0.01,
        ge=0,
        description="mu of the term mu/2 ||w - w_t||^2; without effect at a single local step, as above",
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


class Scaffold(Table):
    """Keys of SCAFFOLD."""

    learning_rate: Rate = Field(
        default=1.0,
        gt=0,
        description="eta_g, the server's, of the step to the mean of the clients' models; 1 goes all the way, as the "
        "paper's experiments do",
    )


class FedDyn(Table):
    """Keys of FedDyn."""

    alpha: Rate = Field(
        default=0.1,
        ge=0,
        description="alpha of the linear and the quadratic term in the local objective; at 0 clients train as fedavg's, "
        "while the server still adds up what they drifted by. .1 is HyperFed's choice (Appendix B); the authors use "
        ".001 to .1",
    )


class Moon(Table):
    """Keys of MOON."""

    mu: Rate = Field(
        default=1.0,
        ge=0,
        description="mu, weight of the contrastive term beside the local loss; 0 is fedavg. 1 is HyperFed's choice "
        "(Appendix B); the authors use .1 to 10",
    )
    temperature: Rate = Field(
        default=0.5, gt=0, description="tau, which the cosines of the contrastive term are divided by"
    )


class PFedMe(Table):
    """Keys of pFedMe."""

    penalty: Rate = Field(
        default=1.0,
        gt=0,
        description="lambda of lambda/2 ||theta - w||^2, which draws a client's own model to the shared one; 1 is "
        "HyperFed's choice (Appendix B), the authors use 15 to 30",
    )
    steps: int = Field(
        default=5, ge=1, le=10_000, description="K, steps of the client's own model on a batch, by the learning-rate"
    )
    rate: Rate = Field(
        default=0.3,
        gt=0,
        description="eta: a batch brings the shared model eta lambda of the way to the client's own; .3 learns in tens of "
        "rounds where the authors' .005, at their lambda of 15, takes hundreds, and 1 / lambda leaves no own model",
    )
    beta: Rate = Field(
        default=1.0, gt=0, description="how far the server goes from its model to the clients' mean; 1 is all the way"
    )


class Apple(Table):
    """Keys of APPLE."""

    rate: Rate = Field(default=0.001, ge=0, description="learning rate of a client's weights for all clients' models")
    mu: Rate = Field(
        default=0.001,
        ge=0,
        description="mu of the term mu/2 ||p - p_0||^2, which draws these weights to the shares of examples. .001 is "
        "HyperFed's choice (Appendix B); the authors use .1 and less",
    )
    last: Rate = Field(
        default=0.2, ge=0, le=1, description="L, share of the rounds over which the term falls to 0, by half a cosine"
    )
    cores: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="models of others that a client is sent in a round, in turn, 0: all. It keeps what came last of each",
    )


class FedMtl(Table):
    """Keys of federated multi-task learning."""

    relations: Literal["mean", "learned"] = Field(
        default="mean",
        description="Omega of tr(W Omega W^T): mean draws every model to the mean of all; learned goes by how the models "
        "lie to each other",
    )
    coupling: Rate = Field(default=0.1, ge=0, description="lambda_1, of half that trace; 0 is training alone")
    ridge: Rate = Field(
        default=0.0, ge=0, description="lambda_2, of half the squares of all weights, beside weight-decay"
    )


class Baselines(Table):
    """A field for each of these tables."""

    fedprox: FedProx = FedProx()
    fed_pub: FedPub = FedPub()
    gcfl: Gcfl = Gcfl()
    fedgnn: FedGnn = FedGnn()
    fedgta: FedGta = FedGta()
    fedhgcn: FedHgcn = FedHgcn()
    adafgl: AdaFgl = AdaFgl()
    fedsage: FedSage = FedSage()
    fedopt: FedOpt = FedOpt()
    fedrep: FedRep = FedRep()
    ccvr: Ccvr = Ccvr()
    ditto: Ditto = Ditto()
    scaffold: Scaffold = Scaffold()
    feddyn: FedDyn = FedDyn()
    moon: Moon = Moon()
    pfedme: PFedMe = PFedMe()
    apple: Apple = Apple()
    fedmtl: FedMtl = FedMtl()
