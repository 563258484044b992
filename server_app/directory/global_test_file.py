"""Predictions and features of the global model on the server's test images, in a file of the run
directory."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.npz import read_npz

SPACES = ("flat", "sphere", "poincare", "prototypes")


@dataclass(frozen=True, eq=False)
class GlobalTest:
    """The content of `global_test.npz`.

    Attributes
    ----------
    labels : int array (n,)
        0 or more.
    predicted : int array (n,)
        -1 where the model's output was not finite.
    features : float array (m, d), m <= n
        Features of the first m images.
    prototypes : float array (C, d) or None
        The class prototypes: unit vectors, or in space "poincare" points of the unit ball.
    space : str
        "flat", "sphere" (only the features' direction matters), "poincare" (they are tangent
        vectors at the origin) or "prototypes" (flat, with prototypes among the features).
    images : uint8 array (k, h, w, c), c = 1 or 3
        One image of each of some classes; none of a public data set.
    image_labels : int array (k,)
        Their labels.

    Raises
    ------
    ValueError
        If the arrays contradict each other.
    """

    labels: NDArray[np.intp]
    predicted: NDArray[np.intp]
    features: NDArray[np.float64]
    prototypes: NDArray[np.float64] | None = None
    space: str = "flat"
    images: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 1, 1, 1), np.uint8))
    image_labels: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))

    def __post_init__(self) -> None:
        shapes = {self.labels.shape, self.predicted.shape, (self.labels.size,)}
        if (
            len(shapes) > 1
            or not self.labels.size
            or min(self.labels.min(), self.predicted.min() + 1) < 0
        ):
            raise ValueError(
                "labels and predicted must have one length, 1 or more, and values from 0 and"
                " from -1"
            )
        if self.features.ndim != 2 or len(self.features) > len(self.labels):
            raise ValueError(
                f"features of shape {self.features.shape}: allowed is (m, d), m at most"
                f" {len(self.labels)}"
            )
        if self.prototypes is not None and self.prototypes.shape[1:] != self.features.shape[1:]:
            raise ValueError(
                f"prototypes of shape {self.prototypes.shape} for features of {self.features.shape}"
            )
        if self.space not in SPACES:
            raise ValueError(f'space "{self.space}": allowed is one of {", ".join(SPACES)}')
        if self.images.shape[:-3] != self.image_labels.shape or not set(self.image_labels) <= set(
            self.labels
        ):
            raise ValueError(f"images of shape {self.images.shape} with labels {self.image_labels}")

    @classmethod
    def read(cls, path: Path) -> "GlobalTest | None":
        """Read the file; None if there is none.

        Raises
        ------
        OSError, ValueError
            If it cannot be read, or has other content.
        """
        if not path.exists():
            return None
        arrays = read_npz(path)
        try:
            prototypes = arrays["prototypes"].astype(np.float64) if "prototypes" in arrays else None
            labels, predicted = (arrays[name].astype(np.intp) for name in ("labels", "predicted"))
            pictures = {name: arrays[name] for name in ("images", "image_labels") if name in arrays}
            features = arrays["features"].astype(np.float64)
            space = str(arrays["space"])
            return cls(labels, predicted, features, prototypes, space, **pictures)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} has other content than expected: {error}") from None
