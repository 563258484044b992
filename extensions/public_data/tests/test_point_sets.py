"""Published embeddings: their curvature, their download, and those that nobody publishes."""

import hashlib
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from errors import refuses

from curvfed.extensions.public_data import downloads
from curvfed.extensions.public_data.rows import POINT_SETS
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

CURVATURES = {name: row.curvature for name, row in POINT_SETS.items()}
OLSSON_SHA256 = "f7d65e26eca92c7a3316794b4bcd64f8812182fc1e778c9a4aa1c47a3e3f9ab4"


def write_embedding(folder, name, num=40):
    """A small file in the layout of Chien et al., or of the paper on hulls, at its curvature."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    labels = np.arange(num) % 4
    points = rng.uniform(-0.6, 0.6, size=(num, 2))
    parts = {
        "x_train": points[:30],
        "y_train": labels[:30].astype(float),
        "x_test": points[30:],
        "y_test": labels[30:].astype(float),
    }
    if CURVATURES[name] != -1:
        parts = {"data": points, "label": labels, "curve": -CURVATURES[name]}
    np.savez(folder / f"{name}.npz", **parts)
    return points, labels


@pytest.mark.parametrize("name", CURVATURES)
def test_an_embedding_is_pooled_at_its_curvature(tmp_path, name):
    points, labels = write_embedding(tmp_path / "poincare", name)
    curvature = CURVATURES[name]
    whole = PointDataset(PointSpec(name.title(), tmp_path, curvature=curvature)).pooled()
    assert (whole.points == points).all()
    assert (whole.labels == labels).all()
    assert whole.test.sum() == 6
    assert whole.curvature == curvature
    with refuses("point-settings", "points.curvature", "-2", str(curvature)):
        PointSpec(name, tmp_path, curvature=-2)


def test_an_embedding_is_downloaded(tmp_path, monkeypatch):
    def fetch(code, root, folder):
        compile(code, "fetch", "exec")
        assert POINT_SETS["olsson"].origin in code
        assert OLSSON_SHA256 in code
        write_embedding(root / folder, "olsson")

    monkeypatch.setattr(downloads, "fetch", fetch)
    assert PointDataset(PointSpec("olsson", tmp_path)).client(0, 1).points.shape == (34, 2)


@pytest.mark.parametrize(
    ("name", "published"),
    [("olsson", "olsson"), ("fashion-mnist-disc", "fashion-mnist"), ("cifar10-disc", "cifar")],
)
def test_a_download_is_checked(tmp_path, name, published):
    """The code of the command itself, with a file in the place of the address."""
    source = POINT_SETS[name]
    (tmp_path / f"{published}_poincare_embedding.npz").write_bytes(b"something else")
    code = source.command(tmp_path).removeprefix('python -c "').removesuffix('"')
    code = code.replace(source.origin, tmp_path.as_uri())
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert f"not the published {name}.npz" in done.stderr
    assert not (tmp_path / f"poincare/{name}.npz").exists()
    [digest] = re.findall("[0-9a-f]{64}", code)
    code = code.replace(digest, hashlib.sha256(b"something else").hexdigest())
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / f"poincare/{name}.npz").read_bytes() == b"something else"


def test_an_embedding_that_is_absent_offline(tmp_path, monkeypatch):
    def fetch(code, root, folder):
        raise OSError("no answer within 8 s")

    monkeypatch.setattr(downloads, "fetch", fetch)
    with pytest.raises(DataError) as caught:
        PointDataset(PointSpec("olsson", tmp_path)).client(0, 2)
    message = str(caught.value)
    assert (
        f"are not in {tmp_path / 'poincare'}, and the download fails: no answer within 8 s"
        in message
    )
    assert POINT_SETS["olsson"].command(tmp_path) in message


@pytest.mark.parametrize(("name", "study"), [("lung-human", "GSE130148"), ("uc-stromal", "SCP551")])
def test_an_embedding_that_nobody_publishes(tmp_path, name, study):
    dataset = PointDataset(PointSpec(name, tmp_path, curvature=CURVATURES[name]))
    for reading in (partial(dataset.client, 0, 2), dataset.places):
        with refuses("no-public-data", f"{name}.npz", str(tmp_path / "poincare"), "sc_mvae", study):
            reading()
