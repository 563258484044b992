"""The public data sets by name: where they are, how they are downloaded, and the places of their
readers."""

from dataclasses import replace

from curvfed.tasks.graphs.data import Source as GraphSource
from curvfed.tasks.graphs.data import in_collection
from curvfed.tasks.public_data import files_at
from curvfed.tasks.sources import PointSource, Source

GRAPHS = "curvfed.extensions.public_data.graph_readers"
IMAGES = "curvfed.extensions.public_data.image_readers"
"""The modules with the readers."""

PYG = "torch_geometric.datasets"
PLANETOID_ENDINGS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


def _planetoid(name: str) -> GraphSource:
    files = [f"ind.{name.lower()}.{ending}" for ending in PLANETOID_ENDINGS]
    return GraphSource(
        **in_collection(f"{PYG}.Planetoid", name, "planetoid", name, *files),
        read=f"{GRAPHS}:read_planetoid",
    )


def _amazon(name: str) -> GraphSource:
    file = f"amazon_electronics_{name.lower()}.npz"
    return GraphSource(
        **in_collection(f"{PYG}.Amazon", name, "amazon", name, file), read=f"{GRAPHS}:read_amazon"
    )


def _heterophilous(name: str, metric: str) -> GraphSource:
    folder = name.lower().replace("-", "_")
    files = in_collection(
        f"{PYG}.HeterophilousGraphDataset", name, "heterophilous", folder, f"{folder}.npz"
    )
    return GraphSource(**files, read=f"{GRAPHS}:read_heterophilous", metric=metric)


NODES = {
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "amazon-photo": _amazon("Photo"),
    "amazon-computers": _amazon("Computers"),
    "roman-empire": _heterophilous("Roman-empire", "accuracy"),
    "amazon-ratings": _heterophilous("Amazon-ratings", "accuracy"),
    "minesweeper": _heterophilous("Minesweeper", "roc_auc"),
    "tolokers": _heterophilous("Tolokers", "roc_auc"),
    "questions": _heterophilous("Questions", "roc_auc"),
}

TORCHVISION = "torchvision"


def _torchvision(collection: str, options: str = "") -> str:
    return (
        f"from torchvision.datasets import {collection}; {collection}({{root}},"
        f" {options}download=True)"
    )


def _idx(*parts: str) -> tuple[str, ...]:
    return tuple(
        f"{prefix}-{kind}-ubyte" for prefix in parts for kind in ("images-idx3", "labels-idx1")
    )


_MNIST = Source(
    "MNIST",
    ("MNIST/raw",),
    _idx("train", "t10k"),
    _torchvision("MNIST"),
    read=f"{IMAGES}:read_named",
    find=f"{IMAGES}:find",
    mean=(0.1307,),
    std=(0.3081,),
    origin=TORCHVISION,
)

_FMNIST = Source(
    "Fashion-MNIST",
    ("FashionMNIST/raw",),
    _idx("train", "t10k"),
    _torchvision("FashionMNIST"),
    read=f"{IMAGES}:read_named",
    find=f"{IMAGES}:find",
    mean=(0.2860,),
    std=(0.3530,),
    origin=TORCHVISION,
)

_EMNIST = Source(
    "EMNIST letters",
    ("EMNIST/raw",),
    _idx("emnist-letters-train", "emnist-letters-test"),
    _torchvision("EMNIST", "split='letters', "),
    read=f"{IMAGES}:read_letters",
    find=f"{IMAGES}:find",
    mean=(0.1722,),
    std=(0.3309,),
    origin=TORCHVISION,
)

_CIFAR10 = Source(
    "CIFAR-10",
    ("cifar-10-batches-py", "train", "test"),
    (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"),
    _torchvision("CIFAR10"),
    read=f"{IMAGES}:read_named",
    find=f"{IMAGES}:find",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    augments=True,
    origin=TORCHVISION,
)

_CIFAR100 = Source(
    "CIFAR-100",
    ("cifar-100-python",),
    ("train", "test", "meta"),
    _torchvision("CIFAR100"),
    read=f"{IMAGES}:read_named",
    find=f"{IMAGES}:find",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    augments=True,
    origin=TORCHVISION,
)

TINY = "tiny-imagenet-200"

_TINYIMAGENET = Source(
    "TinyImageNet",
    (TINY,),
    (),
    "from torchvision.datasets.utils import download_and_extract_archive as fetch;"
    " fetch('http://cs231n.stanford.edu/tiny-imagenet-200.zip', {root},"
    " md5='90528d7ca1a48142e341f4ef8d21d0de')",
    find=f"{IMAGES}:find",
    mean=(0.4802, 0.4481, 0.3975),
    std=(0.2770, 0.2691, 0.2821),
    augments=True,
    origin=TORCHVISION,
)

IMAGE_SETS = {
    "mnist": _MNIST,
    "fmnist": _FMNIST,
    "fashion-mnist": replace(_FMNIST, is_listed=False),
    "emnist": _EMNIST,
    "cifar10": _CIFAR10,
    "cifar100": _CIFAR100,
    "tinyimagenet": _TINYIMAGENET,
}

_CHIEN = (
    "https://raw.githubusercontent.com/thupchnsky/PoincareLinearClassification/"
    "7de1dc7a6f051d62265baa32a733c0628ed618bb/embedding"
)


def _embedding(title: str, name: str, published: str, sha256: str) -> PointSource:
    """An embedding in the unit disc that Chien et al. (2021) publish."""
    names = {f"{name}.npz": f"{published}_poincare_embedding.npz"}
    row = files_at(title, "poincare", _CHIEN, names, [sha256], task="points")
    return PointSource(**vars(row), curvature=-1.0)


def _unpublished(title: str, name: str, curvature: float, origin: str) -> PointSource:
    """An embedding of the paper on hulls (Prakash et al., 2023) that users make themselves."""
    files = (f"{name}.npz",)
    return PointSource(title, ("poincare",), files, origin=origin, curvature=curvature)


POINT_SETS = {
    "olsson": _embedding(
        "Olsson",
        "olsson",
        "olsson",
        "f7d65e26eca92c7a3316794b4bcd64f8812182fc1e778c9a4aa1c47a3e3f9ab4",
    ),
    "fashion-mnist-disc": _embedding(
        "Fashion-MNIST in the disc",
        "fashion-mnist-disc",
        "fashion-mnist",
        "ef3a648461a172db2b271bb9bcc5bc7d9bc5de7858e8728cabbd9cebf2a0cc12",
    ),
    "cifar10-disc": _embedding(
        "CIFAR-10 in the disc",
        "cifar10-disc",
        "cifar",
        "25973eff7e7ab3100e37a4318594f5e47bbdcd43b33bbb4d24c999f7aa0577e7",
    ),
    "lung-human": _unpublished(
        "Lung-Human",
        "lung-human",
        -0.0015,
        "the m-VAE of https://github.com/thupchnsky/sc_mvae on GSE130148 of"
        " https://www.ncbi.nlm.nih.gov/geo",
    ),
    "uc-stromal": _unpublished(
        "UC-Stromal",
        "uc-stromal",
        -0.0071,
        "the m-VAE of https://github.com/thupchnsky/sc_mvae on SCP551 of"
        " https://singlecell.broadinstitute.org",
    ),
}
