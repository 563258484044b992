"""The public data sets of images by name: their files, download, reader and normalisation.

`curvfed.tasks.images.dataset`, which takes seconds to import, reads them; commands need only the
names.
"""

from dataclasses import dataclass

from curvfed.tasks.public_data import PublicData


@dataclass(frozen=True, kw_only=True)
class Source(PublicData):
    """A public data set: a row of `SOURCES`.

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

SOURCES = {
    "digits": Source(
        "digits",
        (),
        (),
        "",
        read=("read_digits",),
        mean=(0.5,),
        std=(0.25,),
        origin="built in: scikit-learn's",
    ),
    "mnist": Source(
        "MNIST",
        ("MNIST/raw",),
        _idx("train", "t10k"),
        _torchvision("MNIST"),
        read=("read_named", "MNIST"),
        mean=(0.1307,),
        std=(0.3081,),
    ),
    "fmnist": Source(
        "Fashion-MNIST",
        ("FashionMNIST/raw",),
        _idx("train", "t10k"),
        _torchvision("FashionMNIST"),
        read=("read_named", "FashionMNIST"),
        mean=(0.2860,),
        std=(0.3530,),
    ),
    "emnist": Source(
        "EMNIST letters",
        ("EMNIST/raw",),
        _idx("emnist-letters-train", "emnist-letters-test"),
        _torchvision("EMNIST", "split='letters', "),
        read=("read_letters",),
        mean=(0.1722,),
        std=(0.3309,),
    ),
    "cifar10": Source(
        "CIFAR-10",
        ("cifar-10-batches-py", "train", "test"),
        (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch", "batches.meta"),
        _torchvision("CIFAR10"),
        read=("read_named", "CIFAR10"),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        augments=True,
    ),
    "cifar100": Source(
        "CIFAR-100",
        ("cifar-100-python",),
        ("train", "test", "meta"),
        _torchvision("CIFAR100"),
        read=("read_named", "CIFAR100"),
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        augments=True,
    ),
    "tinyimagenet": Source(
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
    ),
}

ALIASES = {"fashion-mnist": "fmnist"}
