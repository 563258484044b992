"""The keys of every run, each with its type, range and meaning."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from curvfed.strategies.base.keys import CHOSEN, Form, OfExtensions, Rate, Table
from curvfed.strategies.base.shared_tables import FLOWER, Name
from curvfed.tasks import plugins

Device = Annotated[
    str,
    Form(
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        words='one of "auto", "cpu", "cuda", "cuda:N" with a whole number N',
    ),
]
NAMES = r"^([A-Za-z0-9][A-Za-z0-9._-]*(,[A-Za-z0-9][A-Za-z0-9._-]*)*)?$"
"""Names with commas and without spaces."""

Sinks = Annotated[
    str,
    Form(
        pattern=NAMES,
        words='a list of tensorboard, mlflow, wandb with commas and without spaces, or ""',
    ),
]
Callbacks = Annotated[
    str,
    Form(
        pattern=NAMES,
        words='a list of names with commas and without spaces, or ""',
    ),
]

AGGREGATION_METHODS = {
    "average": "fedavg",
    "consistent": "hyperfed",
    "fednova": "fednova",
    "fedopt": "fedopt",
}
"""The aggregations that other methods can use too, and the method of each. They have one model for
all clients; a method with one of them can use any aggregation."""

if TYPE_CHECKING:
    AggregationName = str
else:
    _GROUPS = ("aggregations", "aggregation-choices")
    _ADDED = (name for group in _GROUPS for name in plugins.of_extensions(group))
    AggregationName = Annotated[
        Literal[(*AGGREGATION_METHODS, *_ADDED, *FLOWER)],
        OfExtensions(_GROUPS),
    ]

OF_THE_SERVER = frozenset(
    {
        "resume",
        "results-dir",
        "round-timeout",
        "debug",
        "report",
        "sinks",
        "callbacks",
        "workers",
        "test-data",
        "mlflow.tracking-uri",
        "mlflow.experiment",
        "wandb.project",
        "wandb.mode",
        "secure.patience",
    }
)
"""Keys that no vector of a client depends on. They are not part of its basis: a run can be resumed
with other values."""

READ_WITH: dict[str, tuple[str, tuple[str, ...]]] = {
    "alpha": ("partition", ("dirichlet",)),
    "shards": ("partition", ("shards",)),
    "momentum": ("optimizer", ("sgd",)),
    "decay": ("schedule", ("steps",)),
    "decay-every": ("schedule", ("steps", "inverse")),
}
"""Keys that a run reads only with some values of another key."""


class RunKeys(Table):
    """The keys of every run."""

    of_data = (
        "dataset",
        "partition",
        "alpha",
        "shards",
        "min_client_size",
        "train_size",
        "test_size",
        "test_data",
    )

    method: str = "flatland"
    """the method to run"""
    dataset: str = CHOSEN
    """nodes of a graph: trees (built in), cora, roman-empire, amazon-photo, ogbn-arxiv, …; graphs:
    one or several of the TU collection, MUTAG,BZR,PROTEINS, or the groups CHEM, BIO, SN,
    BIO-CHEM-SN, with one client or more each; images: digits (built in), mnist, fmnist, emnist,
    cifar10, cifar100, tinyimagenet; points in the disc: uniform (built in), olsson, …; links:
    balanced-tree (built in), mammals, wn18rr, …; case does not matter. Or a path: a .pt file with a
    graph or a list of graphs, a folder in the TU collection's layout, a folder with one folder of
    images per class, an .npz, .csv, .tsv or .h5ad file of points, or a .csv, .tsv, .obo or .npz
    file or a folder of links. Or own: the data of every node. auto: trees, or digits, uniform or
    balanced-tree if the method works only on images, points or links"""
    data_dir: str = ""
    """folder of the public data sets in PyTorch Geometric's and torchvision's layout; empty:
    ~/curvfed/data"""
    results_dir: str = ""
    """folder of the run directories; empty: ~/curvfed/results"""
    run_name: Name = ""
    """name of the run directory; empty: method-dataset-seed-time in UTC"""
    resume: bool = False
    """resume the run with this run-name from its last checkpoint"""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """seed of partition, split, initial model, cohorts and dropout"""
    num_rounds: int = Field(default=100, ge=0, le=1_000_000)
    """number of communication rounds; 0 only evaluates the initial model"""
    local_epochs: int = Field(default=CHOSEN, ge=1, le=10_000)
    """passes over a client's data per round; auto: 1 for graphs and 5 for images, or the method's
    number"""
    batch_size: int = Field(default=CHOSEN, ge=0)
    """graphs, images, points or nodes per training step; 0: all; auto: 128, or all nodes of a
    graph. With fewer nodes than a client's graph has, the graph is cut into clusters with few edges
    between them, and a batch is some of these clusters with the edges inside the batch. Scores and
    predictions then also use direct neighbours, up to the size of a batch: they are close to those
    of the whole graph, not equal"""
    optimizer: Literal["adamw", "adam", "sgd"] = CHOSEN
    """the clients' optimiser; adamw decouples weight decay from the gradient, adam adds it to the
    gradient; auto: adamw for graphs, adam for points, sgd for images and with scaffold"""
    learning_rate: Rate = Field(default=CHOSEN, ge=0)
    """learning rate of the clients' optimiser; auto: .01 for graphs, .3 for points, .02 for images,
    or .1 if the method does not train by cross-entropy (hyperfed-geodesic: .02), and with pfedme;
    with apple .01; with scaffold .002 for images, .3 for nodes and .001 for graphs"""
    momentum: Rate = Field(default=0.9, ge=0, lt=1)
    """momentum of sgd"""
    clip_norm: Rate = Field(default=CHOSEN, ge=0)
    """maximum norm of the gradient of a local step; longer gradients are shortened to it; 0: no
    limit; auto: no limit, but 10 with feddyn, as in its authors' code"""
    proximal: Rate = Field(default=0.0, ge=0)
    """mu of the term mu/2 ||w - w_t||^2, which holds the shared parameters near those received, for
    every method that trains, besides a method's own term. No effect with a single local step"""
    schedule: Literal["constant", "cosine", "steps", "inverse"] | None = CHOSEN
    """the learning rate over the rounds: constant; cosine: falls to 0 along half a cosine by the
    last round; steps: times decay every decay-every rounds; inverse: divided by 1 + rounds done /
    decay-every; auto: constant, but inverse for flatland on nodes"""
    burn_in: int = Field(default=0, ge=0)
    """first rounds, which have a tenth of the schedule's rate: an embedding then finds its
    directions before its points move apart (Nickel & Kiela, 2017, Section 3)"""
    decay: Rate = Field(default=0.1, gt=0, le=1)
    """factor of the schedule steps"""
    decay_every: int = Field(default=CHOSEN, ge=1)
    """rounds between two steps of the schedule steps; with inverse, rounds until the rate is
    halved; auto: 10 for graphs, 40 for images"""
    weight_decay: Rate = Field(default=1e-5, ge=0)
    """adamw multiplies a weight by 1 - learning-rate · weight-decay in each step; with adam and sgd
    it is an L2 penalty, as in FlatLand (Appendix E.2) and SphereFed; never applied to the curvature
    parameter k. If adam starts fresh every round, even a tiny penalty makes full steps on weights
    without another gradient"""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """share of hidden units that graph networks drop in training"""
    model: str | None = None
    """the network: for nodes gcn, gated, mean (a GCN with means of neighbourhoods), lorentz or
    split; for graphs gin, gcn, lorentz or lorentz-gcn (FlatLand's own: three convolutions and a
    centroid); for images cnn (two layers; auto for grey images), convnet (seven layers; auto for
    colour images), resnet18, resnet18-7x7 (as for ImageNet), vgg13, mobilenetv2 or senet18, or
    features (auto with images.encoder; no layers); auto: the method's.
    The method decides which parameters stay at a client: gin under flatland shares as flatland
    does, without time-like parameters. Or a model of another package, installed on the server and
    all clients: its name, or package.module:factory, with keyword arguments as in
    package.module:factory(width=32)"""
    init_from: str = ""
    """safetensors file at the server with initial shared parameters: model.safetensors of a run, or
    another encoder with the model's names. Parameters that it lacks start from the seed, personal
    parameters in it are ignored, other names and shapes are refused. Empty: all parameters start
    from the seed"""
    embedding_dim: int = Field(default=CHOSEN, ge=0, le=65_536)
    """width of a graph network's hidden layers, or of the linear layer between an image network and
    its classifier (0: no such layer); auto: 128 for graphs and 20 for images"""
    optimizer_state: Literal["kept", "fresh", "personal"] | None = CHOSEN
    """the optimiser's moments at a client between rounds: kept; fresh: reset every round; personal:
    kept if the run keeps trained parameters at the clients; auto: kept with adamw and adam, fresh
    with sgd, for every method"""
    fraction_train: float = Field(default=1.0, gt=0, le=1)
    """share of the clients that train in a round"""
    partition: Literal[
        "metis",
        "louvain",
        "random",
        "dirichlet",
        "iid",
        "shards",
        "users",
        "stratified",
        "branches",
        "relations",
    ] = CHOSEN
    """how the data are partitioned among the clients. Nodes of a graph: metis (auto), louvain
    (communities) or random; sets of graphs ignore it. Images: dirichlet (auto; per class in random
    proportions), iid, shards (each of one or two classes), or users (auto for LEAF's files; all
    images of a user at one client, or of a site, a folder above those of images.classes-at).
    Points: stratified (auto; every class evenly), iid or dirichlet. Links: branches (auto; whole
    branches of the taxonomy), relations (all links of a relation at one client), louvain
    (communities of the heads) or random; links of a graph: as its nodes. Ignored for clients with
    their own data"""
    alpha: Rate = Field(default=0.5, gt=0)
    """concentration of the dirichlet partition; the smaller, the more the clients differ"""
    shards: int = Field(default=2, ge=1, le=10_000)
    """shards per client of the partition shards"""
    min_client_size: int = Field(default=10, ge=0)
    """minimum number of images per client; missing images are moved from the largest clients"""
    normalize: Literal["l2", "l1", "none"] = "l2"
    """norm that scales every row of node features"""
    train_size: float = Field(default=CHOSEN, gt=0, lt=1)
    """training share of a client's nodes, graphs or images, for data sets without splits; a real
    node splits its own data by shares of its own and refuses others; auto: .2 for graphs and .75
    for images, or a node's"""
    test_size: float = Field(default=CHOSEN, ge=0, lt=1)
    """test share of a client's data, as train-size; the rest is for validation; auto: .4 for
    graphs, .25 for images, .15 for points, which lack validation data, or a node's"""
    test_data: str = "auto"
    """images or points that score the global model at the server: auto: the data set's own test
    data if the clients hold parts of the data set; none; or the path of points or of a folder with
    one folder of images per class"""
    global_every: int = Field(default=1, ge=0)
    """score the global model at the server every this many rounds; 0: only after the last"""
    fine_tune_epochs: int = Field(default=CHOSEN, ge=0, le=10_000)
    """passes that turn the global model into a personal model at each client, where it stays; 0:
    none; auto: 2 for images and none for graphs, or the method's number"""
    fine_tune_learning_rate: Rate | None = Field(default=None, ge=0)
    """learning rate of fine-tuning, independent of the schedule; auto: the learning-rate"""
    fine_tune_every: int = Field(default=0, ge=0)
    """fine-tune every this many rounds; 0: only after the last"""
    fine_tune: Literal["trained", "all", "head", "closed-form"] = CHOSEN
    """the parameters that fine-tuning trains: trained: those that the rounds train; all: also fixed
    classifiers; head: only the classifier; closed-form: the classifier by least squares; auto:
    trained, for fedbabu all"""
    evaluate_every: int = Field(default=0, ge=0)
    """evaluate the clients that do not train every this many rounds; 0: only after the last.
    Clients that train are evaluated every round"""
    early_stopping: int = Field(default=0, ge=0)
    """patience in rounds: one round after the mean validation score has not improved for this many
    rounds, the run ends; 0: never. Resuming with 0 trains on to num-rounds"""
    callbacks: Callbacks = ""
    """callbacks of other packages, comma-separated names of their entry points in the group
    curvfed.callbacks; needed only where the server runs"""
    aggregation: AggregationName = CHOSEN
    """how the server combines the shared parameters; auto: the method's aggregation. Another one
    gives the method another base, such as spherefed on fednova. median, trimmed-mean, krum,
    geometric-median and near-mean limit the effect of false updates of a minority of the clients;
    robust chooses one of them. flower:NAME is Flower's own strategy of that name, with its
    arguments in the table flower"""
    weights: Literal["examples", "uniform"] = CHOSEN
    """weight of a client in the server's average: its number of training examples, or uniform:
    equal for all clients with training examples; auto: examples, or uniform for methods with
    uniform weights in their papers"""
    update_bound: Rate | None = Field(default=None, ge=0)
    """an update that is longer than this many medians of the round's lengths is left out of the
    round, and a warning names the client; 0: none is left out; auto: 100, or 5 with a robust
    aggregation. Under a secure sum nobody can see an update"""
    mixed_precision: bool = False
    """compute image networks in bfloat16 where that is safe"""
    device: Device = "auto"
    """device that clients train on; cuda: the workers of a simulation take the GPUs in
    CUDA_VISIBLE_DEVICES in turn; auto: cuda if there is a GPU. A node's own config takes
    precedence"""
    threads: int = Field(default=1, ge=1, le=1024)
    """CPU threads per client"""
    workers: int | None = Field(default=None, ge=1, le=1024)
    """processes in which a simulation trains clients side by side, at most one per client of a
    round; 1: in its own; auto: one per core that is free by affinity, quotas and load, or one per
    GPU, but 1 in Python, with threads above 1, and in sweeps with more runs than cores. The results
    do not depend on it"""
    round_timeout: Rate = Field(default=600.0, gt=0)
    """seconds after which a phase goes on without the missing replies"""
    min_replies: int = Field(default=1, ge=1)
    """minimum number of valid replies per round; with fewer the run stops"""
    calibration: Literal["none", "ffc"] | None = CHOSEN
    """a new classifier of images after the last round, from sums over the clients' features: ffc:
    SphereFed's least squares to the one-hot labels, for any method with one model for all clients
    and a linear classifier; auto: the method's own, which spherefed and ccvr have"""
    calibration_every: int = Field(default=0, ge=0)
    """calibrate every this many rounds; training goes on with the new classifier (SphereFed,
    Appendix C.2); 0: only after the last round"""
    share_statistics: bool = False
    """let real nodes report to the server their class counts, sizes and curvature, and after the
    run the confusion matrix of their test examples; simulated clients always do"""
    secure_sum: bool = False
    """show the server only sums over the clients: of updates, calibration sums, scores, losses and
    numbers of examples. hull always sums its hulls"""
    wire_precision: Literal["float32", "bfloat16", "float16"] = "float32"
    """precision of the trained parameters in messages: bfloat16 and float16 halve the bytes and
    round to nearest, by up to 2^-8 and 2^-11 of a value; float16 ends at 65504. Both sides compute
    in float32. Running statistics, fixed classifiers and sums are not rounded"""
    sinks: Sinks = ""
    """where the figures of rounds.csv and summary.json also go during the run, comma-separated:
    tensorboard: event files in the run directory; mlflow: a tracking store; wandb: Weights &
    Biases. Each needs its package: pip install -e '.[tensorboard]', '.[mlflow]' or '.[wandb]'"""
    report: bool = True
    """write report.html at the end of the run; curvfed.load(folder).report() writes it later"""
    debug: bool = False
    """log the traceback of the error that ends a run, at the server; --debug sets it"""
    extra: str = ""
    """keys of other packages' methods, which flwr run accepts only here: key=value separated by
    spaces, such as extra='fedexp.epsilon=1e-3'. A key that is also given elsewhere with another
    value is refused"""

    def proximal_terms(self) -> dict[str, float]:
        """That of every method."""
        return {"proximal": self.proximal / 2}

    @property
    def callback_names(self) -> tuple[str, ...]:
        """The callbacks of other packages, each once."""
        return tuple(dict.fromkeys(name for name in self.callbacks.split(",") if name))

    @property
    def may_stop_early(self) -> bool:
        """Whether the last round can be decided during the run."""
        return self.early_stopping > 0 or bool(self.callbacks)

    @property
    def fine_tunes(self) -> bool:
        """Whether clients fine-tune the shared model; needs resolved defaults."""
        return self.fine_tune == "closed-form" or self.fine_tune_epochs > 0

    @property
    def fine_tuning_rate(self) -> float:
        """The learning rate of fine-tuning; needs resolved defaults."""
        rate = self.fine_tune_learning_rate
        return self.learning_rate if rate is None else rate

    @property
    def data_path(self) -> Path:
        """Folder of the public data sets."""
        return folder_of(self.data_dir, "data")

    @property
    def results_path(self) -> Path:
        """Folder of the run directories."""
        return folder_of(self.results_dir, "results")

    @property
    def test_path(self) -> Path | None:
        """The server's own test data; None if `test-data` is not a path."""
        if self.test_data in ("auto", "none"):
            return None
        return Path(self.test_data).expanduser()


def home() -> Path:
    """The folder of everything the app keeps for a user: results, data, prepared partitions,
    personal state.

    It is in the home folder; for a user without one, in the working folder.
    """
    try:
        return Path.home().absolute() / "curvfed"
    except RuntimeError:  # no HOME and no entry of the user, as in containers
        return Path("curvfed").absolute()


def folder_of(setting: str, default: str) -> Path:
    """The folder that a setting names, or `default` in the user's folder of curvfed."""
    return Path(setting).expanduser() if setting else home() / default
