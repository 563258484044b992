"""The keys of every run: each with its type, its range and what it means."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from curvfed.strategies.base.keys import CHOSEN, Form, Rate, Table
from curvfed.strategies.base.shared_tables import FlowerName

RunName = Annotated[
    str,
    Form(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,127})?$",
        words=(
            "a name of up to 128 letters (A to Z, a to z), digits and . _ -, the first a letter or"
            ' a digit, or ""'
        ),
    ),
]
Device = Annotated[
    str,
    Form(
        pattern=r"^(auto|cpu|cuda(:\d+)?)$",
        words='one of "auto", "cpu", "cuda", "cuda:N" with a whole number N',
    ),
]
Sinks = Annotated[
    str,
    Form(
        pattern=r"^((tensorboard|mlflow)(,(tensorboard|mlflow))*)?$",
        words='a list of tensorboard, mlflow with commas and without spaces, or ""',
    ),
]


class RunKeys(Table):
    """What any run is told, whatever its method."""

    method: str = Field(default="flatland", description="what to run")
    dataset: str = Field(
        default=CHOSEN,
        description=(
            "nodes of a graph: trees (built in), cora, roman-empire, amazon-photo, ogbn-arxiv, …;"
            " graphs: one or several of the TU collection, MUTAG,BZR,PROTEINS, or the groups CHEM,"
            " BIO, SN, BIO-CHEM-SN, one client or more each; images: digits (built in), mnist,"
            " fmnist, emnist, cifar10, cifar100, tinyimagenet; points in the disc: uniform (built"
            " in), olsson; all in any case; or a path, of a .pt file with a graph or a list of"
            " graphs, of a folder in the TU collection's layout, of one with a folder of images per"
            " class, or of an .npz, .csv, .tsv or .h5ad file of points; or own, what every node has"
            " itself; auto: trees, or digits or uniform where the method works on images or points"
            " alone"
        ),
    )
    data_dir: str = Field(
        default="",
        description=(
            "folder of the public data sets in PyTorch Geometric's and torchvision's layout; empty:"
            " ~/curvfed/data"
        ),
    )
    results_dir: str = Field(
        default="", description="folder that run directories are made in; empty: ~/curvfed/results"
    )
    run_name: RunName = Field(
        default="", description="name of the run directory; empty: method-dataset-seed-time in UTC"
    )
    resume: bool = Field(
        default=False, description="go on with the run of this run-name from its last checkpoint"
    )
    seed: int = Field(
        default=0,
        ge=0,
        lt=2**31,
        description="seed of partition, split, initial model, cohorts and dropout",
    )
    num_rounds: int = Field(
        default=100,
        ge=0,
        le=1_000_000,
        description="communication rounds; 0 evaluates the initial model",
    )
    local_epochs: int = Field(
        default=CHOSEN,
        ge=1,
        le=10_000,
        description=(
            "passes over a client's data per round; auto: the task's own, 1 for graphs and 5 for"
            " images, or the method's"
        ),
    )
    batch_size: int = Field(
        default=CHOSEN,
        ge=0,
        description=(
            "graphs, images, points or nodes per training step, 0: all; auto: 128, but all nodes of"
            " a graph. Fewer nodes than a client has: its graph is cut into clusters between which"
            " few edges run; some of them are a batch, with their own edges alone. Scores and"
            " predictions then see direct neighbours too, as far as a batch has room: they are near"
            " those of the whole graph, not equal to them"
        ),
    )
    optimizer: Literal["adamw", "adam", "sgd"] = Field(
        default=CHOSEN,
        description=(
            "the clients' optimiser; adamw decays weights beside the gradient, adam as a part of"
            " it; auto: adamw for graphs, adam for points, sgd for images and with scaffold"
        ),
    )
    learning_rate: Rate = Field(
        default=CHOSEN,
        ge=0,
        description=(
            "of the clients' optimiser; auto: the task's own, .01 for graphs, .3 for points, and"
            " for images .02, or .1 where the method does not train by cross-entropy"
            " (hyperfed-geodesic: .02), and with pfedme; with apple .01, with scaffold .002 for"
            " images, .3 for nodes and .001 for graphs"
        ),
    )
    momentum: Rate = Field(default=0.9, ge=0, lt=1, description="of sgd")
    clip_norm: Rate = Field(
        default=CHOSEN,
        ge=0,
        description=(
            "length that the gradient of a local step is shortened to where longer; 0: never; auto:"
            " never, but 10 with feddyn, as in its authors' code"
        ),
    )
    schedule: Literal["constant", "cosine", "steps", "inverse"] | None = Field(
        default=CHOSEN,
        description=(
            "the learning rate over the rounds: constant; cosine, down to 0 along half a cosine by"
            " the last round; steps, times decay every decay-every rounds; or inverse, divided by 1"
            " + rounds done / decay-every; auto: constant, but inverse for flatland on nodes"
        ),
    )
    decay: Rate = Field(default=0.1, gt=0, le=1, description="factor of the schedule steps")
    decay_every: int = Field(
        default=CHOSEN,
        ge=1,
        description=(
            "rounds between two of its steps; with inverse those after which half of the rate is"
            " left; auto: 10 for graphs, 40 for images"
        ),
    )
    weight_decay: Rate = Field(
        default=1e-5,
        ge=0,
        description=(
            "adamw multiplies a weight by 1 - learning-rate · weight-decay in each step; in adam"
            " and sgd it is an L2 penalty, FlatLand's own (Appendix E.2) and SphereFed's; never on"
            " the curvature parameter k. Where adam starts afresh every round it makes full steps"
            " of even a tiny penalty wherever a weight has no other gradient"
        ),
    )
    dropout: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="share of hidden units that graph networks drop in training",
    )
    model: str | None = Field(
        default=None,
        description=(
            "encoder: auto is the method's own; for nodes gcn, gated, lorentz or split, for graphs"
            " gin, gcn or lorentz, for images cnn (two layers; auto takes it for grey images),"
            " convnet (seven; for colour), resnet18, resnet18-7x7 (as for ImageNet), vgg13,"
            " mobilenetv2 or senet18. What stays at a client follows from the method: gin under"
            " flatland shares as flatland does, without time-like parameters. Or a model of another"
            " package that is installed wherever server and clients run: its name, or"
            " package.module:factory; keywords of the factory may follow, as in"
            " package.module:factory(width=32)"
        ),
    )
    init_from: str = Field(
        default="",
        description=(
            "file in safetensors, at the server, that the shared parameters start from:"
            " model.safetensors of a run, or an encoder of one's own with the model's names. What"
            " it lacks starts as seed says, what stays at clients is left out; other names, and"
            " other shapes, are refused. Empty: all start as seed says"
        ),
    )
    embedding_dim: int = Field(
        default=CHOSEN,
        ge=0,
        le=65_536,
        description=(
            "width of a graph network's hidden layers; of the linear layer between an image network"
            " and its classifier, 0: no such layer; auto: the task's own, 128 for graphs and 20 for"
            " images"
        ),
    )
    optimizer_state: Literal["kept", "fresh", "personal"] | None = Field(
        default=CHOSEN,
        description=(
            "the optimiser's moments at a client between rounds: kept, fresh each round, or"
            " personal: kept where the run keeps trained parameters at the clients. auto: kept with"
            " adamw and adam, fresh with sgd, for every method"
        ),
    )
    fraction_train: float = Field(
        default=1.0, gt=0, le=1, description="share of the clients that train in a round"
    )
    partition: Literal["metis", "random", "dirichlet", "iid", "shards", "stratified"] = Field(
        default=CHOSEN,
        description=(
            "how data are dealt to the clients. A graph: metis (auto) or random; of no account for"
            " sets of graphs. Images: dirichlet (auto; every class by shares of its own), iid, or"
            " shards (a few of one class or two each). Points: stratified (auto; every class"
            " evenly), iid or dirichlet. Of no account where clients bring their own data"
        ),
    )
    alpha: Rate = Field(
        default=0.5,
        gt=0,
        description=(
            "concentration of the dirichlet partition; the smaller, the less alike the clients"
        ),
    )
    shards: int = Field(
        default=2, ge=1, le=10_000, description="shards per client of that partition"
    )
    min_client_size: int = Field(
        default=10,
        ge=0,
        description="images that a client has at least; moved there from the largest ones",
    )
    normalize: Literal["l2", "l1", "none"] = Field(
        default="l2", description="norm that every row of node features gets"
    )
    train_size: float = Field(
        default=CHOSEN,
        gt=0,
        lt=1,
        description=(
            "share of a client's nodes, graphs or images to train on, where the data set has no"
            " splits; auto: the task's own, .2 for graphs and .75 for images"
        ),
    )
    test_size: float = Field(
        default=CHOSEN,
        ge=0,
        lt=1,
        description=(
            "share to test on; validation takes the rest; auto: the task's own, .4 for graphs, .25"
            " for images, .15 for points, which have no validation part"
        ),
    )
    test_data: str = Field(
        default="auto",
        description=(
            "images or points that score the global model at the server: auto, the data set's own"
            " test data where the clients have parts of it; none; or the path of a folder with a"
            " folder of images per class, or of points"
        ),
    )
    global_every: int = Field(
        default=1,
        ge=0,
        description=(
            "rounds between two scorings of the global model there; 0: after the last alone"
        ),
    )
    fine_tune_epochs: int = Field(
        default=CHOSEN,
        ge=0,
        le=10_000,
        description=(
            "passes that each client makes from the global model to a personal one, which stays; 0:"
            " none; auto: the task's own, 2 for images and none for graphs, or the method's"
        ),
    )
    fine_tune_learning_rate: Rate | None = Field(
        default=None,
        ge=0,
        description="of fine-tuning, whatever the schedule; auto: the learning-rate",
    )
    fine_tune_every: int = Field(
        default=0,
        ge=0,
        description="rounds between two fine-tunings; 0: after the last round alone",
    )
    fine_tune: Literal["trained", "all", "head", "closed-form"] = Field(
        default=CHOSEN,
        description=(
            "what fine-tuning trains: what the rounds train, all (fixed classifiers too), the"
            " classifier alone, or the classifier by least squares in closed form; auto: trained,"
            " for fedbabu all"
        ),
    )
    evaluate_every: int = Field(
        default=0,
        ge=0,
        description=(
            "evaluate the clients that did not train, every so many rounds; 0: after the last round"
            " alone. Clients that train are evaluated in every round"
        ),
    )
    aggregation: Literal["average", "consistent", "fednova", "fedopt", FlowerName] = Field(
        default=CHOSEN,
        description=(
            "what the server makes of the shared parameters; auto: the method's own. With another a"
            " method stands on another base, such as spherefed on fednova. flower:NAME is Flower's"
            " own strategy of that name, with its arguments under flower"
        ),
    )
    weights: Literal["examples", "uniform"] = Field(
        default=CHOSEN,
        description=(
            "what a client weighs where the server averages: its number of training examples, or as"
            " much as any other that has some; auto: examples, or uniform for the methods whose"
            " papers have it so"
        ),
    )
    mixed_precision: bool = Field(
        default=False, description="image networks compute in bfloat16 where that is safe"
    )
    device: Device = Field(
        default="auto",
        description=(
            "what clients train on; auto: cuda where there is a GPU. A node's own config wins"
        ),
    )
    threads: int = Field(
        default=1, ge=1, le=1024, description="CPU threads of one client's training"
    )
    round_timeout: Rate = Field(
        default=600.0,
        gt=0,
        description="seconds after which a phase goes on without the missing replies",
    )
    min_replies: int = Field(
        default=1, ge=1, description="good replies below which a round ends the run with an error"
    )
    share_statistics: bool = Field(
        default=False,
        description=(
            "let real nodes tell the server their class counts, sizes and curvature, and in the end"
            " what test examples of each class are taken for; simulated clients always do"
        ),
    )
    secure_sum: bool = Field(
        default=False,
        description=(
            "show the server sums over the clients and nothing else: of their updates, of the sums"
            " for calibrations, of scores, losses and numbers of examples. hull always sums its"
            " hulls"
        ),
    )
    wire_precision: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32",
        description=(
            "of the trained parameters in the messages of server and clients: bfloat16 and float16"
            " take half the bytes and round to the nearest, by up to 2^-8 and 2^-11 of a value;"
            " float16 ends at 65504. Both sides compute in float32. Running statistics, fixed"
            " classifiers and sums are sent as they are"
        ),
    )
    sinks: Sinks = Field(
        default="",
        description=(
            "where else the figures of rounds.csv and summary.json go while the run goes on,"
            " comma-separated: tensorboard, event files in the run directory; mlflow, a tracking"
            " store. Each needs its package: pip install -e '.[tensorboard]' or '.[mlflow]'"
        ),
    )
    debug: bool = Field(
        default=False,
        description="log the traceback of what ended the run, at the server; --debug sets it",
    )
    extra: str = Field(
        default="",
        description=(
            "further keys, key=value with spaces between: those of methods of other packages, which"
            " flwr run takes in no other way: extra='fedexp.epsilon=1e-3'. A key that is given"
            " besides, with another value, is refused"
        ),
    )

    @property
    def fine_tunes(self) -> bool:
        """Whether clients make personal models of what is shared, if anything is; of a settled
        configuration."""
        return self.fine_tune == "closed-form" or self.fine_tune_epochs > 0

    @property
    def fine_tuning_rate(self) -> float:
        """The learning rate of fine-tuning; of a settled configuration."""
        return (
            self.learning_rate
            if self.fine_tune_learning_rate is None
            else self.fine_tune_learning_rate
        )

    @property
    def data_path(self) -> Path:
        """Folder of the public data sets."""
        return folder_of(self.data_dir, "data")

    @property
    def results_path(self) -> Path:
        """Folder of the run directories."""
        return folder_of(self.results_dir, "results")


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
