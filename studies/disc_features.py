"""Features of a frozen network as points in the disc, which `hull` takes: they are written like the
expression of cells, and `curvfed embed` maps them by a reference of public images without labels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.arguments import check_request, read_keywords
from curvfed.deployments.commands.command import main
from curvfed.geometry.arrays import Floats
from curvfed.strategies.config.run_config import RunConfig, open_dataset
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.encoder import encoded

ATLAS = 1000
"""The public images of the reference: the first training images that no run uses."""

SUM = 1e4
"""The sum of the features of an image, as of the counts of a cell, before the logarithm."""

PIXELS = "MNIST/raw/train-images-idx3-ubyte"


def disc_files(keys: Mapping[str, Any], folder: Path) -> tuple[list[str], str]:
    """The files of the clients' training images, and that of the server's test images.

    Parameters
    ----------
    keys : mapping
        A run on features of MNIST, with `images.encoder` and `images.size`.
    folder : Path
        The folder of the files.
    """
    *clients, test = _parts(_config(keys), keys["num-supernodes"])
    atlas = _atlas(keys)
    reference = folder / "reference.h5ad"
    _embed(folder / "atlas.h5ad", atlas, (), reference, "--make-reference")
    files = []
    for number, part in enumerate([*clients, test]):
        is_used = (part.test if part is test else part.train).numpy()
        labels = [part.class_names[label] for label in part.labels.numpy()[is_used]]
        if labels:
            features = part.images.flatten(start_dim=1).numpy()[is_used]
            file = folder / f"disc-{number}.h5ad"
            _embed(folder / f"{number}.h5ad", features, labels, file, "--reference", str(reference))
            files.append(str(file))
    return files[:-1], files[-1]


def _config(keys: Mapping[str, Any]) -> RunConfig:
    """The configuration of a run on these keys."""
    other = ("num-supernodes", "quiet")
    settings = {key.replace("-", "_"): keys[key] for key in keys if key not in other}
    return check_request(
        read_keywords(settings | {"method": "fedavg"}), keys["num-supernodes"]
    ).config


def _parts(config: RunConfig, number: int) -> list[ClientImages]:
    """The images of each client, and the test images."""
    parts: list[Any] = [
        load_data(config, Node(partition=client, num_partitions=number)) for client in range(number)
    ]
    return [*parts, open_dataset(config, "images").test(None)]


def _atlas(keys: Mapping[str, Any]) -> Floats:
    """The features (ATLAS, d) of images that are in no part of the run."""
    pixels = {key: keys[key] for key in keys if key not in ("images.encoder", "images.size")}
    parts = _parts(_config(pixels), keys["num-supernodes"])
    used = {image.numpy().tobytes() for part in parts for image in part.images}
    content = Path(keys["data-dir"], PIXELS).read_bytes()
    images = np.frombuffer(content, np.uint8, offset=16).reshape(-1, 1, 28, 28)
    unused = [image for image in images[: 2 * len(used)] if image.tobytes() not in used]
    chosen = torch.from_numpy(np.stack(unused[:ATLAS]))
    sides = (keys["images.size"], keys["images.size"])

    def read(start: int, end: int) -> torch.Tensor:
        batch = chosen[start:end].float()
        resized = F.interpolate(batch, size=sides, mode="bilinear", antialias=True)
        return resized.round().to(torch.uint8)

    features: Floats = encoded(keys["images.encoder"], ATLAS, read).flatten(start_dim=1).numpy()
    return features


def _embed(file: Path, features: Floats, labels: Sequence[str], out: Path, *words: str) -> None:
    """Write features (n, d) with their classes as cells, and embed them."""
    from anndata import AnnData

    shares = features / features.sum(axis=1, keepdims=True)
    cells = AnnData(X=np.log1p(SUM * shares).astype(np.float32))
    cells.obs_names = [str(row) for row in range(cells.n_obs)]
    cells.var_names = [f"feature {column}" for column in range(cells.n_vars)]
    if labels:
        cells.obs["label"] = np.array(labels)
    cells.write_h5ad(file)
    status = main(["embed", str(file), *words, "--out", str(out)])
    if status:
        raise SystemExit(status)
