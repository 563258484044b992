"""Every method is one row over a few parts; an ablation is a row with one other entry.

Rows of other packages stand under entry points of the group `curvfed.methods`. The module of such a row is imported with
this one, by every process: of ours it may import `curvfed.strategies.base.method`, `curvfed.strategies.base.keys` and
`curvfed.strategies.base.aggregation`, and neither torch nor what knows the whole configuration, which is not there yet.
"""

from curvfed.strategies.base.method import ENDS, GRAPHS, IMAGES, ONE_SHOT, POINTS, Method
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

LORENTZ_PERSONAL = ("*.time", "*.gate", "k", "estimator.*")
"""What FlatLand keeps: the columns m that multiply time coordinates, the gates, and k and its
estimator, which set the curvature."""

PLAIN_MEAN = {"weights": "uniform"}
"""The choice of methods whose papers average clients whatever their numbers of examples."""

SGD_FROM_REST = {"optimizer": "sgd", "optimizer_state": "fresh"}
"""The choice of methods that count what the steps of SGD make of the gradients."""

_OURS: dict[str, Method] = {
    "flatland": Method(
        "Lorentz layers, own curvature per client, time-like parameters stay, space-like are averaged",
        space="lorentz",
        personal=LORENTZ_PERSONAL,
        learns_curvature=True,
        proximal="flatland.proximal",
        before=("curvature",),
    ),
    "flatland-constant": Method(
        "flatland without tailored spaces: curvature -1 for every client",
        space="lorentz",
        personal=LORENTZ_PERSONAL,
        proximal="flatland.proximal",
    ),
    "flatland-shared": Method(
        "flatland without decoupling: time-like parameters and curvature are averaged too",
        space="lorentz",
        learns_curvature=True,
        proximal="flatland.proximal",
    ),
    "flatland-euclidean": Method(
        "flatland's decoupling on a flat GCN: one ordinary unit per layer takes the place of the time coordinate",
        space="split",
        personal=("*.time", "*.to_time", "*.time_bias", "*.gate"),
        proximal="flatland.proximal",
        tasks=("nodes",),
    ),
    "local": Method(
        "every client trains a flat network alone", space="flat", personal=("*",), tasks=(*GRAPHS, *IMAGES)
    ),
    "local-lorentz": Method(
        "every client trains a Lorentz network of its own curvature alone",
        space="lorentz",
        personal=("*",),
        learns_curvature=True,
        before=("curvature",),
    ),
    "fedavg": Method(
        "flat network, such as GCN, GIN or a convolutional net, all parameters averaged (McMahan et al., 2017)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
    ),
    "fedprox": Method(
        "fedavg with a proximal term (Li et al., 2020)",
        space="flat",
        proximal="fedprox.mu",
        tasks=(*GRAPHS, *IMAGES),
    ),
    "fedper": Method(
        "fedavg whose classifier stays (Arivazhagan et al., 2019)",
        space="flat",
        personal=("head.*",),
        tasks=(*GRAPHS, *IMAGES),
    ),
    "fed-pub": Method(
        "fedavg with personal masks and an average of its own for each client, by similarity (Baek et al., 2023)",
        space="flat",
        personal=("*.mask",),
        proximal="fed-pub.proximal",
        sparsity="fed-pub.l1",
        aggregation="similarity",
    ),
    "gcfl": Method(
        "layers averaged within clusters of clients whose updates agree, classifier stays (Xie et al., 2021)",
        space="flat",
        personal=ENDS,
        aggregation="clusters",
    ),
    "fedgnn": Method(
        "fedavg of updates that are clipped and noised before they leave a client (Wu et al., 2021)",
        space="flat",
        learner="fedgnn",
        aggregation="noisy-average",
    ),
    "fedgta": Method(
        "an average of its own for each client, over those with like soft labels, by confidence (Li et al., 2024)",
        space="flat",
        tells_statistics=True,
        learner="fedgta",
        aggregation="topology",
        tasks=("nodes",),
    ),
    "fedhgcn": Method(
        "fedavg of a hyperbolic network that is trained on the most important nodes (Du et al., 2024)",
        space="lorentz",
        selection="fedhgcn.ratio",
    ),
    "adafgl": Method(
        "fedavg, then a network of each client's own over the shared model's predictions (Li et al., 2024)",
        space="flat",
        learner="adafgl",
        tasks=("nodes",),
        settings={"nodes": {"fine_tune_epochs": 100}},
    ),
    "fedsage+": Method(
        "fedavg on graphs mended with generated neighbours, which clients learn from each other (Zhang et al., 2021)",
        space="flat",
        learner="fedsage",
        tells_statistics=True,
        aggregation="fedsage",
        tasks=("nodes",),
    ),
    "fedavg-bias": Method("fedavg whose biases stay: the Euclidean control for m", space="flat", personal=("*.bias",)),
    "fednova": Method(
        "fedavg of updates divided by their numbers of local steps (Wang et al., 2020)",
        space="flat",
        aggregation="fednova",
        tasks=IMAGES,
    ),
    "fedopt": Method(
        "fedavg whose mean update a server's optimiser takes: FedAvgM, FedAdam or FedYogi (Reddi et al., 2021)",
        space="flat",
        aggregation="fedopt",
        tasks=IMAGES,
    ),
    "fedbabu": Method(
        "body averaged, classifier random and fixed, then fine-tuned at each client (Oh et al., 2022)",
        space="flat",
        head_from="server",
        fine_tune="all",
        tasks=IMAGES,
    ),
    "fedrep": Method(
        "classifier stays and is trained first, then the body, which is averaged (Collins et al., 2021)",
        space="flat",
        personal=("head.*",),
        learner="head-first",
        tasks=IMAGES,
    ),
    "lg-fedavg": Method(
        "body stays, classifier averaged (Liang et al., 2020)", space="flat", personal=("body.*",), tasks=IMAGES
    ),
    "ccvr": Method(
        "fedavg, then its classifier trained anew on features drawn from class-wise Gaussians (Luo et al., 2021)",
        space="flat",
        after=("ccvr",),
        tasks=IMAGES,
    ),
    "ditto": Method(
        "fedavg, and beside it a model of each client's own that is drawn to the shared one (Li et al., 2021)",
        space="flat",
        learner="ditto",
        own_model=True,
        tasks=(*GRAPHS, *IMAGES),
        settings={"images": {"fine_tune_epochs": 0}},
    ),
    "scaffold": Method(
        "fedavg whose clients' gradients are corrected by control variates (Karimireddy et al., 2020)",
        space="flat",
        learner="scaffold",
        aggregation="scaffold",
        tasks=(*GRAPHS, *IMAGES),
        # In a single local step, the graphs' own choice, all corrections cancel in the mean, and it is plain SGD.
        # And corrections, which nothing pulls back, make longer steps grow without bound: at .005, with momentum .9, MNIST
        # of 20 unlike clients diverges after ten rounds.
        settings={
            "images": PLAIN_MEAN | SGD_FROM_REST | {"learning_rate": 0.002},
            "nodes": PLAIN_MEAN | SGD_FROM_REST | {"local_epochs": 5, "learning_rate": 0.3},
            "graphs": PLAIN_MEAN | SGD_FROM_REST | {"local_epochs": 5, "learning_rate": 0.001},
        },
    ),
    "feddyn": Method(
        "fedavg with a penalty that remembers where a client's models went (Acar et al., 2021)",
        space="flat",
        learner="feddyn",
        aggregation="feddyn",
        tasks=IMAGES,
        # The clipping is the authors' code's: without it, unlike clients let the drift grow until nothing is left.
        settings={"images": PLAIN_MEAN | {"clip_norm": 10.0}},
    ),
    "moon": Method(
        "fedavg with features drawn to the shared model's and away from the client's last (Li et al., 2021)",
        space="flat",
        learner="moon",
        tasks=(*GRAPHS, *IMAGES),
        # With the task's one step a round the model starts where it is drawn to, and is only pushed away.
        settings={"nodes": {"local_epochs": 3}},
    ),
    "pfedme": Method(
        "a model of each client's own by a Moreau envelope around the shared one (T. Dinh et al., 2020)",
        space="flat",
        learner="pfedme",
        own_model=True,
        aggregation="interpolated",
        tasks=IMAGES,
        settings={"images": PLAIN_MEAN | {"fine_tune_epochs": 0, "learning_rate": 0.1}},
    ),
    "fedrod": Method(
        "classifier as for balanced classes, averaged, and on top of it one of each client's own (Chen & Chao, 2022)",
        space="flat",
        learner="fedrod",
        own_model=True,
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
    ),
    "apple": Method(
        "each client combines all clients' core models by weights that it learns (Luo & Wu, 2022)",
        space="flat",
        learner="apple",
        own_model=True,
        lists_clients=True,
        aggregation="apple",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
    ),
    "fedmtl": Method(
        "a model per client, coupled by how the clients are related: MOCHA for networks (Smith et al., 2017)",
        space="flat",
        learner="fedmtl",
        aggregation="multi-task",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
    ),
    "spherefed": Method(
        "features on the unit sphere, fixed orthonormal classifier, squared error, then one closed-form calibration",
        space="flat",
        head="sphere",
        head_from="server",
        loss="mse",
        proximal="spherefed.mu",
        after=("calibrate",),
        tasks=IMAGES,
    ),
    "hyperfed": Method(
        "fixed prototypes spread in the Poincaré ball, hyperbolic triplet loss, consistent aggregation",
        space="flat",
        head="poincare",
        head_from="server",
        loss="triplet",
        aggregation="consistent",
        tasks=IMAGES,
    ),
    "hyperfed-averaged": Method(
        "hyperfed with the average in place of consistent aggregation",
        space="flat",
        head="poincare",
        head_from="server",
        loss="triplet",
        tasks=IMAGES,
    ),
    "hyperfed-fixed": Method(
        "hyperfed whose prototypes are fixed but not shared: every client spreads its own",
        space="flat",
        personal=("head.*",),
        head="poincare",
        head_from="client",
        loss="triplet",
        aggregation="consistent",
        tasks=IMAGES,
    ),
    "hyperfed-shared": Method(
        "hyperfed whose prototypes are shared but not fixed: they are trained and aggregated with the rest",
        space="flat",
        head="poincare",
        loss="triplet",
        aggregation="consistent",
        tasks=IMAGES,
    ),
    "hyperfed-geodesic": Method(
        "hyperfed that draws an image to the prototype of its class alone: the geodesic distance in place of the triplet",
        space="flat",
        head="poincare",
        head_from="server",
        loss="geodesic",
        aggregation="consistent",
        tasks=IMAGES,
        # Its gradient keeps its length however near the prototype is: at the .1 of the others it never settles.
        settings={"images": {"learning_rate": 0.02}},
    ),
    "hull": Method(
        "one-shot SVM in the Poincaré disc from a secure sum of the clients' quantised convex hulls",
        space="disc",
        aggregation=ONE_SHOT,
        tasks=POINTS,
    ),
}


def _brought() -> tuple[dict[str, Method], dict[str, str]]:
    """The rows of other packages, and why those that are left out are, by name."""
    plugins.leave_out("methods", _OURS)
    rows: dict[str, Method] = {}
    reasons: dict[str, str] = {}
    for name in plugins.found("methods"):
        try:
            row = plugins.load("methods", name)
        except DataError as error:
            reasons[name] = str(error)
            continue
        if isinstance(row, Method):
            rows[name] = row
        else:
            reasons[name] = f"its entry point is {row!r}; allowed is a curvfed.strategies.base.method.Method"
    return rows, reasons


_ROWS, LEFT_OUT = _brought()
"""Why methods of other packages that are installed are not among `METHODS`, by name."""

METHODS: dict[str, Method] = {**_OURS, **_ROWS}
