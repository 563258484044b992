"""The image data that a configuration describes; server and clients agree on it."""

from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import Images
from curvfed.tasks.images.data import ImageSpec
from curvfed.tasks.images.label_partition import PartitionSpec


def image_spec(run: RunKeys, keys: Images) -> ImageSpec:
    """The specification of a run's images; `run` has its defaults resolved."""
    return ImageSpec(
        dataset=run.dataset,
        data_dir=run.data_path,
        partition=PartitionSpec(run.partition, run.alpha, run.shards, run.min_client_size),
        seed=run.seed,
        train_size=run.train_size,
        test_size=run.test_size,
        size=keys.size or 0,
        channels=keys.channels or 0,
        train_subset=keys.train_subset or 0,
        test_subset=keys.test_subset or 0,
    )
