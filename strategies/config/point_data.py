"""The points that a configuration describes."""

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Points
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.points.data import PointSpec


def point_spec(run: RunKeys, keys: Points) -> PointSpec:
    """The specification of a run's points; `run` has its defaults resolved."""
    return PointSpec(
        dataset=run.dataset,
        data_dir=run.data_path,
        partition=run.partition,
        alpha=run.alpha,
        seed=run.seed,
        split_seed=-1 if keys.split_seed is None else keys.split_seed,
        test_size=run.test_size,
        curvature=keys.curvature,
        classes=keys.classes,
        lacking=keys.lacking,
        num_points=keys.num,
        sample_radius=keys.sample_radius,
        margin=keys.margin,
        reference=keys.reference,
        embedding_key=keys.embedding_key,
        label_key=keys.label_key,
    )


def num_public_classes(config: RunConfig) -> int | None:
    """The public number of classes; None if the clients name their classes."""
    number: int | None = config.table("hull").num_classes
    return number
