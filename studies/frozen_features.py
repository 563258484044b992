"""Features of a frozen network beside training from pixels: MNIST at 20 clients with few images.

    python -m studies.frozen_features --data FOLDER [--weights resnet18-f37072fd.pth] [--size 64]

writes docs/measured/frozen-features.md and the runs beside it as CSV. Without --weights the network
is a ResNet-18 with random weights, which the page says. The settings stood before the first run.
"""

import argparse
import csv
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

WIDTHS = {"pixels": 1568, "frozen features": 512}
"""Width of the body: of `cnn` and of ResNet-18."""

NUM_CLASSES = 10

CALIBRATED = {"spherefed": 20, "afl": None}
"""The methods with a closed form at the end, and the width of its features; None: the body's."""

COLUMNS = (
    "inputs",
    "method",
    "seed",
    "global_accuracy",
    "personal_accuracy",
    "seconds",
    "kilobytes",
)

ABOUT = """\
# Features of a frozen network, and training from pixels

    python -m studies.frozen_features --data FOLDER{weights} --size {size}

writes this page and [its runs](frozen-features.csv). MNIST, 3,000 training and 1,000 test images, 20
clients at α = .1, 10 rounds, no tuning: the defaults of each method. "Pixels" train `cnn`. "Frozen
features" are the {width} of {network}, of images of {size}x{size};
the model is a linear layer and the classifier. Means over the seeds {seeds}, ± standard deviation. `afl` is a closed form
without rounds, here on the features themselves (`embedding-dim=0`), with pixels on a random body;
its clients have no models of their own. kB are sent and received by a client in the whole run, the
sums of a closed form included. Seconds are of a run with clients one after the other on one thread
of a busy machine; the features of all images took another {seconds:.0f} seconds, once.
"""

RANDOM = """\
**The weights are random**, for the machine that made this page could not download any; they show
what a random network gives. For features that were learned, give `--weights` a file that

    python -c 'from torchvision.models import get_model; get_model("resnet18", weights="DEFAULT")'

puts into `~/.cache/torch/hub/checkpoints`.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the runs and write the page; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m studies.frozen_features")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    parser.add_argument("--weights", type=Path, help="a file of weights of torchvision")
    parser.add_argument("--size", type=int, default=224, help="height and width of the images")
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
        for inputs, keys in {"pixels": {}, "frozen features": frozen}.items():
            for method, own in METHODS.items():
                for seed in SEEDS:
                    rows.append(_measured(inputs, method, common | keys | own | {"seed": seed}))
                    print(*rows[-1].values(), file=sys.stderr)
    text = ABOUT.format(
        weights=f" --weights {options.weights.name}" if options.weights else "",
        size=options.size,
        width=WIDTHS["frozen features"],
        network=f"`{encoder}`" if options.weights else "a ResNet-18 with random weights",
        seeds=f"{SEEDS[0]} to {SEEDS[-1]}",
        seconds=statistics.mean(prepared),
    )
    if options.weights is None:
        text += f"\n{RANDOM}"
    write_page(PAGE, text, rows)
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


def _measured(inputs: str, method: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a run."""
    summary = _simulate(method, keys).summary
    sent = summary["rounds"] * (summary["bytes_up"] + summary["bytes_down"])
    if method in CALIBRATED:
        width = CALIBRATED[method] or WIDTHS[inputs]
        sent += 8 * (width * (width + 1) // 2 + width * NUM_CLASSES)  # packed, float64
    personal = summary["personal_accuracy_mean"] if summary["rounds"] else None
    values = (
        inputs,
        method,
        keys["seed"],
        summary["global_accuracy"],
        personal,
        round(summary["seconds"], 2),
        round(sent / 1000, 1),
    )
    return dict(zip(COLUMNS, values, strict=True))


def write_page(page: Path, text: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the page, and the rows beside it as CSV."""
    lines = [
        text,
        "| inputs | method | global accuracy (%) | personal accuracy (%) | seconds | kB |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for inputs, method in dict.fromkeys((row["inputs"], row["method"]) for row in rows):
        chosen = [row for row in rows if (row["inputs"], row["method"]) == (inputs, method)]
        cells = [_percent(chosen, name) for name in ("global_accuracy", "personal_accuracy")]
        seconds = statistics.mean(row["seconds"] for row in chosen)
        kilobytes = statistics.mean(row["kilobytes"] for row in chosen)
        cells += [f"{seconds:.1f}", f"{kilobytes:,.0f}"]
        lines.append(f"| {inputs} | `{method}` | {' | '.join(cells)} |")
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(page.with_suffix(".csv"), table.getvalue().encode())
    write_atomically(page, ("\n".join(lines) + "\n").encode())


def _percent(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    values = [100 * row[name] for row in rows if row[name] is not None]
    if not values:
        return ""
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


if __name__ == "__main__":
    sys.exit(main())
