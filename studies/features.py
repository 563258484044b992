"""Features of test images in the plane: HyperFed's Figure 3 and SphereFed's Figure 3.

    python -m studies.features RUN RUN … --to features.png
    python -m studies.features RUN RUN … --to features.png --clients 3 7 --classes 5 7

RUN is the directory of a finished run on images. The first command draws a panel for each run with
the features of its global model, from `global_test.npz`, a colour for each class. The second has
the features of single clients' fine-tuned models, a colour for each client and a marker for each
class. The plane is that of t-SNE; HyperFed's figure has UMAP.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import torch

from curvfed.deployments.predict.images import image_examples
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.reports.array_files import GlobalTest
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.geometry.arrays import Floats
from curvfed.server_app.report import charts, style
from curvfed.tasks.images.client_task import evaluate
from curvfed.tasks.images.models import ImageNet


class Dots(NamedTuple):
    """Features (n, d) of one class, and of one client's model or of the global one."""

    client: str
    label: str
    features: Floats


def global_dots(folder: Path) -> Iterator[Dots]:
    """The features of the global model by class."""
    test = GlobalTest.read(folder / "global_test.npz")
    if test is None:
        raise ValueError(f"{folder} has no global_test.npz, as its method has no global model")
    features = test.features
    if test.space == "sphere":
        features = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    names = TrainedRun.read(folder).facts.class_names
    labels = test.labels[: len(features)]
    for label in np.unique(labels):
        yield Dots("", names[label], features[labels == label])


def client_dots(folder: Path, clients: Sequence[int], classes: Sequence[str]) -> Iterator[Dots]:
    """The unit features of the global test images of some classes by the clients' own models."""
    run = TrainedRun.read(folder)
    names = run.facts.class_names
    if unknown := sorted(set(classes) - set(names)):
        raise ValueError(f"--classes: {unknown[0]} is not a class of {folder}, which has {names}")
    images = image_examples(run, run.config.dataset, None, None).data
    for client in clients:
        model, _ = model_of(run, client)
        seen = evaluate(cast(ImageNet, model), images, names, torch.device("cpu"))
        features = torch.nn.functional.normalize(seen.features).numpy().astype(float)
        labels = seen.labels.numpy()
        for name in classes:
            yield Dots(f"client {client}", name, features[labels == names.index(name)])


def in_plane(dots: Sequence[Dots]) -> list[Floats]:
    """Points (n, 2) for the features of each."""
    from sklearn.manifold import TSNE

    rows = np.concatenate([each.features for each in dots])
    perplexity = min(30.0, (len(rows) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(rows)
    return np.split(points, np.cumsum([len(each.features) for each in dots])[:-1])


def draw(folders: Sequence[Path], clients: Sequence[int], classes: Sequence[str], to: Path) -> None:
    """Draw a panel for each run."""
    figure, panels = style.panels(len(folders), height=2.6)
    keys = {}
    for folder, axes in zip(folders, panels, strict=True):
        dots = list(client_dots(folder, clients, classes) if clients else global_dots(folder))
        owners = sorted({each.client for each in dots})
        labels = list(dict.fromkeys(each.label for each in dots))
        for each, points in zip(dots, in_plane(dots), strict=True):
            marker = labels.index(each.label)
            colour = owners.index(each.client) if clients else marker
            look = {
                "color": style.PALETTE[colour % len(style.PALETTE)],
                "marker": style.MARKERS[marker % len(style.MARKERS)],
                "linestyle": "none",
            }
            axes.plot(*points.T, markersize=3.5, alpha=0.7, **look)
            name = f"{each.client} class {each.label}".strip()
            keys[name] = charts.key(name, **look)
        axes.grid(False)
        charts.name(axes, "", "", TrainedRun.read(folder).config.method)
        axes.set_xticks([])
        axes.set_yticks([])
    legends.legend(figure, list(keys.values()))
    figure.savefig(to, dpi=style.DPI, facecolor="white")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.features")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("--to", type=Path, required=True, help="the picture, a .png")
    parser.add_argument("--clients", nargs="*", type=int, default=(), help="their own models")
    parser.add_argument("--classes", nargs="*", default=(), help="classes to draw for clients")
    options = parser.parse_args(arguments)
    if bool(options.clients) != bool(options.classes):
        parser.error("--clients and --classes are given together, or not at all")
    with style.applied():
        draw(options.runs, options.clients, options.classes, options.to)
    return 0


if __name__ == "__main__":
    sys.exit(main())
