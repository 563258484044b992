"""The data set that a configuration describes; server and clients agree on it."""

from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.tasks.dataset import Dataset, dataset_class


def open_dataset(config: RunConfig, task: str) -> Dataset:
    """The data set of a run with this task; prepared clients are in the user's cache."""
    return dataset_class(task).of_run(resolve_defaults(config, task), home() / "cache")
