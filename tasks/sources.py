"""The public data sets of images and points: where they are, and how they are downloaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from curvfed.tasks.public_data import PublicData


@dataclass(frozen=True, kw_only=True)
class Source(PublicData):
    """A public data set of images: a row of `IMAGE_SOURCES`.

    Attributes
    ----------
    read : tuple of str
        The function of `curvfed.tasks.images.dataset`, and its arguments before the data folder; ()
        for a data set of image files.
    mean, std : tuple of float
        Per channel, of pixels scaled to [0, 1], over the training images, as widely published; for
        "digits" those of a user's folder.
    augments : bool
        Whether training images are usually cropped and flipped.
    """

    read: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augments: bool = False
    origin: str = "torchvision"
    task: str = "images"

    @property
    def channels(self) -> int:
        """Channels of every image, 1 or 3."""
        return len(self.mean)


def _torchvision(collection: str, options: str = "") -> str:
    return (
        f"from torchvision.datasets import {collection}; {collection}({{root}},"
        f" {options}download=True)"
    )


def _idx(*parts: str) -> tuple[str, ...]:
    return tuple(
        f"{prefix}-{kind}-ubyte" for prefix in parts for kind in ("images-idx3", "labels-idx1")
    )


TINY = "tiny-imagenet-200"

_DIGITS = Source(
    "digits",
    (),
    (),
    "",
    read=("read_digits",),
    mean=(0.5,),
    std=(0.25,),
    origin="built in: scikit-learn's",
)

_MNIST = Source(
    "MNIST",
    ("MNIST/raw",),
    _idx("train", "t10k"),
    _torchvision("MNIST"),
    read=("read_named", "MNIST"),
    mean=(0.1307,),
    std=(0.3081,),
)

_FMNIST = Source(
    "Fashion-MNIST",
    ("FashionMNIST/raw",),
    _idx("train", "t10k"),
    _torchvision("FashionMNIST"),
    read=("read_named", "FashionMNIST"),
    mean=(0.2860,),
    std=(0.3530,),
)

_EMNIST = Source(
    "EMNIST letters",
    ("EMNIST/raw",),
    _idx("emnist-letters-train", "emnist-letters-test"),
    _torchvision("EMNIST", "split='letters', "),
    read=("read_letters",),
    mean=(0.1722,),
    std=(0.3309,),
)

_CIFAR10 = Source(
    "CIFAR-10",
    ("cifar-10-batches-py", "train", "test"),
    (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"),
    _torchvision("CIFAR10"),
    read=("read_named", "CIFAR10"),
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
    augments=True,
)

_CIFAR100 = Source(
    "CIFAR-100",
    ("cifar-100-python",),
    ("train", "test", "meta"),
    _torchvision("CIFAR100"),
    read=("read_named", "CIFAR100"),
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
    augments=True,
)

_TINYIMAGENET = Source(
    "TinyImageNet",
    (TINY,),
    (),
    "from torchvision.datasets.utils import download_and_extract_archive as fetch;"
    " fetch('http://cs231n.stanford.edu/tiny-imagenet-200.zip', {root},"
    " md5='90528d7ca1a48142e341f4ef8d21d0de')",
    read=(),
    mean=(0.4802, 0.4481, 0.3975),
    std=(0.2770, 0.2691, 0.2821),
    augments=True,
)

IMAGE_SOURCES = {
    "digits": _DIGITS,
    "mnist": _MNIST,
    "fmnist": _FMNIST,
    "emnist": _EMNIST,
    "cifar10": _CIFAR10,
    "cifar100": _CIFAR100,
    "tinyimagenet": _TINYIMAGENET,
}

ALIASES = {"fashion-mnist": "fmnist"}

ENDINGS = (".npz", ".csv", ".tsv")
"""Ends of the names of the core's files of points."""

_FETCH = (
    "import hashlib, pathlib, sys, urllib.request as web; "
    "folder = pathlib.Path({{root}}, '{folder}'); folder.mkdir(parents=True, exist_ok=True); "
    "files = {{{{name: web.urlopen('{url}/' + file, timeout=60).read()"
    " for name, file in {names}}}}}; "
    "sums = dict({sums}); wrong = [name for name in sums"
    " if hashlib.sha256(files[name]).hexdigest() != sums[name]]; "
    "wrong and sys.exit('not the published ' + wrong[0]); "
    "[(folder / name).write_bytes(data) for name, data in files.items()]"
)


def files_at(
    title: str,
    folder: str,
    url: str,
    names: Mapping[str, str],
    sha256: Sequence[str] = (),
    *,
    task: str,
) -> PublicData:
    """A data set with its files at an address.

    Parameters
    ----------
    names : mapping of str to str
        The names of the files here, with those at the address.
    sha256 : sequence of str
        The checksum of each file; () for data that change.
    """
    sums = list(zip(names, sha256))
    code = _FETCH.format(folder=folder, url=url, names=list(names.items()), sums=sums)
    return PublicData(title, (folder,), tuple(names), code, origin=url, task=task)


CURVATURES = {
    "olsson": -1.0,
    "fashion-mnist-disc": -1.0,
    "cifar10-disc": -1.0,
    "lung-human": -0.0015,
    "uc-stromal": -0.0071,
}
"""The curvatures of the embeddings in the papers on hulls (Prakash et al., 2023) and on classifiers
in the disc (Chien et al., 2021)."""

_CHIEN = (
    "https://raw.githubusercontent.com/thupchnsky/PoincareLinearClassification/"
    "7de1dc7a6f051d62265baa32a733c0628ed618bb/embedding"
)


def _embedding(title: str, name: str, published: str, sha256: str) -> PublicData:
    """An embedding that Chien et al. publish."""
    names = {f"{name}.npz": f"{published}_poincare_embedding.npz"}
    return files_at(title, "poincare", _CHIEN, names, [sha256], task="points")


def _unpublished(title: str, name: str, origin: str) -> PublicData:
    """An embedding of the paper on hulls that users make themselves."""
    return PublicData(title, ("poincare",), (f"{name}.npz",), origin=origin, task="points")


POINT_SOURCES = {
    "uniform": PublicData(
        "uniform", origin="built in", task="points", built_in="generated by the run"
    ),
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
        "the m-VAE of https://github.com/thupchnsky/sc_mvae on GSE130148 of"
        " https://www.ncbi.nlm.nih.gov/geo",
    ),
    "uc-stromal": _unpublished(
        "UC-Stromal",
        "uc-stromal",
        "the m-VAE of https://github.com/thupchnsky/sc_mvae on SCP551 of"
        " https://singlecell.broadinstitute.org",
    ),
}

STORED = (".pt", ".pth")
"""Ends of the names of files of `torch.save`."""
