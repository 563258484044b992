"""The tables of the run configuration for the baselines on graphs."""

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table


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


class FedGnn(Table):
    """Keys of FedGNN."""

    clip: Rate = Field(
        default=1.0,
        gt=0,
        description="delta: an entry of what a client sends is at most this times the learning-rate from what it was sent, "
        "before noise is added. 1 is the length of a step of Adam. The paper has .1, of gradients, which brings such a "
        "step to a tenth",
    )
    noise: Rate = Field(
        default=2.0,
        ge=0,
        description="lambda, scale of the Laplace noise added to each entry, in the same measure; 0 is none. A single "
        "entry in one round is epsilon-private at epsilon = 2 delta/lambda, here 1, as in the paper; a whole model, over "
        "all rounds, is not protected: the summary's epsilon_of_run is its figure",
    )


class FedGta(Table):
    """Keys of FedGTA."""

    steps: int = Field(default=5, ge=0, le=1000, description="k, steps of label propagation")
    alpha: float = Field(
        default=0.5, ge=0, le=1, description="alpha, what a node keeps of its own soft label in each of them"
    )
    moments: int = Field(
        default=13, ge=1, le=1000, description="K: soft labels are compared by their moments of the orders 1 to K"
    )
    temperature: Rate = Field(
        default=20.0, gt=0, description="what soft labels are divided by where a client's confidence is measured"
    )
    threshold: float = Field(
        default=0.65,
        ge=-1,
        le=1,
        description="epsilon: a client's average is over those whose moments have a cosine with its own of at least this; "
        "the summary's models_per_start says how many these are. The authors have .65 on PubMed, .6 on CiteSeer",
    )


class FedHgcn(Table):
    """Keys of FedHGCN."""

    ratio: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="share of a graph's nodes that training sees, those that their neighbours tell least of; nodes to "
        "train on are always among them. 1 is all",
    )


class AdaFgl(Table):
    """Keys of AdaFGL."""

    alpha: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="alpha, the edges' share in the matrix by which nodes hear each other; what the shared model predicts "
        "alike has the rest. 1 is the edges alone",
    )
    beta: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="beta, what the signed weights of heterophilous message passing keep of that matrix; what the client's "
        "own network finds alike has the rest",
    )
    steps: int = Field(
        default=3, ge=1, le=100, description="k, how often features are propagated by that matrix before they are read"
    )
    width: int = Field(default=64, ge=1, le=100_000, description="hidden width of the client's own network")


class FedSage(Table):
    """Keys of FedSage+."""

    generator_rounds: int = Field(
        default=5,
        ge=0,
        le=1_000_000,
        description="rounds, the first, in which every client trains its generator of missing neighbours before the "
        "classifier; the last round of a run is never one. 0 is fedavg",
    )
    epochs: int = Field(
        default=10, ge=1, le=10_000, description="passes that train the generator in each of these rounds"
    )
    hidden: Rate = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="share of its nodes that a client hides to train the generator, none that it trains on; the authors "
        "hide half of the nodes that they validate on, a tenth of all",
    )
    neighbours: int = Field(default=5, ge=1, le=100, description="most neighbours that a node is given")
    cross: Rate = Field(
        default=1.0,
        ge=0,
        description="alpha, weight of the other clients' mean feature loss beside the own one; at 0 they do not matter",
    )
    width: int = Field(
        default=64,
        ge=1,
        le=100_000,
        description="width of the generator's layers; a message holds about width * neighbours numbers for every feature "
        "and client. The authors use 128 to 2048",
    )
    sample: int = Field(
        default=64, ge=1, le=100_000, description="nodes whose representations a client shows the others in a round"
    )
