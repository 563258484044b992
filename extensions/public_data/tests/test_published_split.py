"""The split of Olsson is the published one."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec


def write(
    path: Path, counts: dict[str, int], test: dict[str, int] | None = None, seed: int = 0
) -> Path:
    rng = np.random.default_rng(seed)
    arrays = {}
    for part, sizes in (("train", counts), ("test", test)):
        if sizes is not None:
            num = sum(sizes.values())
            arrays[f"x_{part}"] = rng.uniform(-0.6, 0.6, size=(num, 2))
            arrays[f"y_{part}"] = rng.permutation(np.repeat([*sizes], [*sizes.values()]))
    np.savez(path, **arrays)
    return path


def counts(client):
    return np.bincount(client.labels, minlength=len(client.class_names))


# Clients of a data set


# The split


@pytest.mark.parametrize(("seed", "split_seed"), [(3, -1), (0, 3), (9, 2**31 - 1)])
@pytest.mark.parametrize("test_size", [0.15, 0.1, 0.5])
def test_the_split_is_the_published_one(tmp_path, seed, split_seed, test_size):
    """Scikit-learn's, of training and test part in turn: that of the figures for Olsson."""
    (tmp_path / "poincare").mkdir()
    path = write(tmp_path / "poincare/olsson.npz", {"0": 130, "1": 101}, {"0": 40, "1": 48})
    data = PointDataset(
        PointSpec("olsson", tmp_path, seed=seed, split_seed=split_seed, test_size=test_size)
    ).pooled()
    with np.load(path) as stored:
        assert (data.points == np.concatenate([stored["x_train"], stored["x_test"]])).all()
    drawn = split_seed if split_seed >= 0 else seed
    train, test = train_test_split(np.arange(319), test_size=test_size, random_state=drawn)
    assert (np.flatnonzero(data.test) == np.sort(test)).all()
    assert (np.flatnonzero(data.train) == np.sort(train)).all()


# Classes


# The built-in sampler


# Spec, statistics, digest


# What kind of task
