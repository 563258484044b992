"""Classes with few training examples, of which no figure may leave a node."""

from collections.abc import Iterable

import numpy as np

from curvfed.client_app.data import Data
from curvfed.client_app.node.node import MIN_CLASS_SIZE, Node
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.statistics import in_large_classes


def has_small_class(class_sizes: Iterable[int], node: Node) -> bool:
    """Whether one of these classes has examples, but too few for its number to leave."""
    return any(0 < size < node.min_class_size for size in class_sizes)


def check_class_sizes(data: Data, node: Node) -> None:
    """Refuse to contribute hulls or sums by class if all classes are too small.

    Raises
    ------
    ConfigError
        Names the policy's line, and no size of a class.
    """
    labels = np.asarray(data.labels)[np.asarray(data.train)]
    minimum = node.min_class_size
    if labels.size and not in_large_classes(labels, minimum).any():
        raise ConfigError(
            f"[leaves] hull-min-class-size = {minimum} in this node's policy ({MIN_CLASS_SIZE}"
            " without a line): no class here has that many training examples, so nothing of"
            " them may leave",
            key="small-classes",
        )
