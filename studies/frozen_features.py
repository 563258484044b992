"""Features of a frozen network beside training from pixels: MNIST at 20 clients with few images.

    python -m studies.frozen_features --data FOLDER [--weights resnet18-f37072fd.pth] [--size 64]

writes docs/measured/frozen-features.md and the runs beside it as CSV. Without --weights the network
is a ResNet-18 with random weights, which the page says. The settings stood before the first run.
"""

import argparse
import hashlib
import io
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import curvfed
from benchmarks.tables import read_csv, table_lines, write_csv
from curvfed.tasks.stored_files import write_atomically

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

WIDTHS = {"pixels": 1568, "frozen": 512}
"""Width of the body: of `cnn` and of ResNet-18."""

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

RANDOM = "ResNet-18 with random weights"

ABOUT = """\
# Features of a frozen network

    python -m studies.frozen_features --data FOLDER

3,000 images of MNIST, 20 clients, α = .1, 10 rounds, defaults, means of three seeds
([runs](frozen-features.csv)); a thread of a busy machine. Frozen: features of a
{network}, in {seconds} s, once.{note}
`afl` has no rounds. Accuracy in %, kB of a client.
"""

NOTE = """ **Random: no download was possible**; `--weights` takes torchvision's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs and write the page; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.frozen_features")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--weights", type=Path, help="a file of weights of torchvision")
    parser.add_argument("--size", type=int, default=64, help="height and width of the images")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        # A home of its own has no prepared features, whose time is measured.
        os.environ["HOME"] = name
        encoder = _put_weights(options.weights, Path(name) / "curvfed" / "encoders")
        common = COMMON | {"data-dir": str(options.data), "results-dir": f"{name}/results"}
        frozen = {"images.encoder": encoder, "images.size": options.size}
        prepared = [_prepare(common | frozen | {"seed": seed}) for seed in SEEDS]
        rows = []
        for inputs, keys in {"pixels": {}, "frozen": frozen}.items():
            for method, own in METHODS.items():
                for seed in SEEDS:
                    rows.append(_measured(inputs, method, common | keys | own | {"seed": seed}))
                    print(*rows[-1], file=sys.stderr)
    network = f"{RANDOM if options.weights is None else encoder}, {options.size}x{options.size}"
    seconds = f"{statistics.mean(prepared):.0f}"
    write_csv(PAGE.with_suffix(".csv"), COLUMNS, [[*row, network, seconds] for row in rows])
    write_page(PAGE, read_csv(PAGE.with_suffix(".csv")))
    return 0


def _put_weights(weights: Path | None, folder: Path) -> str:
    """Put the weights into a folder, random ones for None, and return their name."""
    folder.mkdir(parents=True)
    if weights is not None:
        shutil.copy(weights, folder)
        return weights.stem
    from torchvision.models import get_model

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
    sent = summary["rounds"] * (summary["bytes_up"] + summary["bytes_down"])
    if method in CALIBRATED:
        width = CALIBRATED[method] or WIDTHS[inputs]
        sent += 8 * (width * (width + 1) // 2 + width * NUM_CLASSES)  # packed, float64
    personal = ""
    if summary["rounds"]:
        personal = f"{100 * summary['personal_accuracy_mean']:.2f}"
    score = f"{100 * summary['global_accuracy']:.2f}"
    cost = (f"{summary['seconds']:.2f}", f"{sent / 1000:.1f}")
    return [inputs, method, str(keys["seed"]), score, personal, *cost]


def write_page(page: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write the page of these rows."""
    network, seconds = rows[0][-2:]
    note = NOTE if network.startswith(RANDOM) else ""
    lines = [ABOUT.format(network=network, seconds=seconds, note=note)]
    cells = []
    for group in dict.fromkeys((row[0], row[1]) for row in rows):
        columns = list(zip(*(row[3:7] for row in rows if (row[0], row[1]) == group), strict=True))
        cells.append([*group, *map(_mean, columns, (1, 1, 0, 0))])
    lines += table_lines(["inputs", "method", "global", "personal", "s", "kB"], cells)
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def _mean(texts: Sequence[str], digits: int) -> str:
    """The mean of a column; "" for an empty one."""
    values = [float(text) for text in texts if text]
    return f"{statistics.mean(values):,.{digits}f}" if values else ""


if __name__ == "__main__":
    sys.exit(main())
