"""The settings that determine the points of a run."""

import math
from dataclasses import dataclass

from curvfed.tasks.class_names import class_name, names_in
from curvfed.tasks.dataset import Spec
from curvfed.tasks.errors import DataError
from curvfed.tasks.labels import in_order
from curvfed.tasks.points.partition import PARTITIONS
from curvfed.tasks.points.sources import CURVATURES


@dataclass(frozen=True)
class PointSpec(Spec):
    """The settings of points.

    Attributes
    ----------
    partition, alpha, lacking
        The partition of training points (`curvfed.tasks.points.partition.partition_points`).
    seed : int
        For everything that is drawn; at least 0.
    split_seed : int
        For the split into training and test points; −1 means `seed`.
    test_size : float
        In [0, 1). The share of all points in the test set, rounded up and drawn regardless of
        class. For a node's own data without a test part: the share of every class, rounded.
    curvature : float
        Curvature of the disc, negative.
    classes : str
        Names of the classes to keep, as `curvfed.tasks.class_names.names_in` reads them; "" means
        all.
    num_points, sample_radius, margin, reference
        For "uniform": see `curvfed.tasks.points.uniform.two_classes`. The radius is a share of the
        disc's.
    embedding_key, label_key : str
        See `curvfed.tasks.points.readers.read_points`.
    """

    partition: str = "stratified"
    alpha: float = 0.5
    seed: int = 0
    split_seed: int = -1
    test_size: float = 0.15
    curvature: float = -1.0
    classes: str = ""
    lacking: int = 0
    num_points: int = 20_000
    sample_radius: float = 0.95
    margin: float = 0.1
    reference: float = 0.5
    embedding_key: str = "X_poincare"
    label_key: str = "label"

    def __post_init__(self) -> None:
        published = CURVATURES.get(self.dataset.lower(), self.curvature)
        for key, value, fits, allowed in (
            ("partition", self.partition, self.partition in PARTITIONS, ", ".join(PARTITIONS)),
            ("alpha", self.alpha, 0 < self.alpha < math.inf, "above 0 and finite"),
            ("seed", self.seed, self.seed >= 0, "at least 0"),
            ("points.split-seed", self.split_seed, self.split_seed >= -1, "at least -1"),
            ("test-size", self.test_size, 0 <= self.test_size < 1, "in [0, 1)"),
            (
                "points.curvature",
                self.curvature,
                -math.inf < self.curvature < 0,
                "below 0 and finite",
            ),
            (
                "points.curvature",
                self.curvature,
                self.curvature == published,
                f"{published} for {self.dataset}",
            ),
            ("points.lacking", self.lacking, self.lacking >= 0, "at least 0"),
            ("points.num", self.num_points, self.num_points >= 2, "at least 2"),
            ("points.sample-radius", self.sample_radius, 0 < self.sample_radius < 1, "in (0, 1)"),
            ("points.margin", self.margin, 0 <= self.margin < math.inf, "at least 0 and finite"),
            ("points.reference", self.reference, 0 <= self.reference < 1, "in [0, 1)"),
        ):
            if not fits:
                raise DataError(f"{key} is {value}; allowed: {allowed}", key="point-settings")

    @property
    def selected_classes(self) -> tuple[str, ...]:
        """Names of the classes to keep, in order; none means all.

        Raises
        ------
        DataError
            If `classes` is not a list of names.
        """
        try:
            return tuple(in_order([class_name(name) for name in names_in(self.classes)]))
        except ValueError as error:
            raise DataError(f"points.classes: {error}", key="class-names") from None
