"""Fixed prototypes of 100 classes in few dimensions: Poincaré ball, sphere and simplex against a
trained linear classifier.

    python -m studies.prototypes_in_few_dimensions --data FOLDER [--out FILE] [--page]

The classes are pairs of digits: two images of MNIST, 8 x 8 pixels each, side by side. Ten clients
hold 4,000 pairs by Dirichlet shares. Each method and dimension tunes its learning rate, extended by
a factor of 3 while the best is at an edge, on `TUNING_SEEDS` and images of MNIST's training part
that no client has. All models are calibrated in the same way: the closed form of SphereFed, with a
bias, on the clients' features as the classifier sees them; tuning also chooses between the own
classifier and the calibrated one.
`SEEDS` and 2,000 pairs of MNIST's test part then compare the choices. Results are appended to FILE,
from which an interrupted study continues. `--page` only writes the page, of the runs so far.
"""

import argparse
import json
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import curvfed
from curvfed.extensions.sweeps.commands.paired import paired_difference
from curvfed.strategies.base.least_squares import AffineForm, Sums, solve

PAGE = Path(__file__).parents[1] / "docs" / "measured" / "prototypes.md"
DIMENSIONS = (2, 3, 5, 10)
TUNING_SEEDS = (500, 501)
SEEDS = tuple(range(510, 520))
RATES = (0.03, 0.1)
MOST_EXTENSIONS = 3
POINCARE = "hyperfed-averaged"
METHODS = (POINCARE, "spherefed", "fedetf", "fedavg")
"""At their defaults; HyperFed is averaged, as all are."""

SHARED: dict[str, Any] = {
    "num_supernodes": 10,
    "alpha": 0.5,
    "num_rounds": 12,
    "local_epochs": 2,
    "batch_size": 32,
    "train_size": 0.9,
    "test_size": 0.05,
    "fine_tune_epochs": 0,
    "global_every": 0,
}

Cell = tuple[str, int, float, int]
"""Method, dimension, rate, seed."""

Choice = tuple[float, str]
"""Rate, and the classifier: "own" or "calibrated"."""


def interval(values: np.ndarray) -> str:
    """Mean and 95% interval (Student's t) in percent."""
    difference = paired_difference(values)
    ends = (difference.mean, difference.low, difference.high)
    mean, low, high = (f"{100 * value:+.1f}" for value in ends)
    return f"{mean} ({low} to {high})".replace("-", "−")


def write_pairs(data: Path, folder: Path) -> None:
    """Write `tuning.npz` and `final.npz`: the same training pairs, other test pairs."""
    from torchvision.datasets import MNIST

    rng = np.random.default_rng(0)
    parts = {}
    for is_training in (True, False):
        digits = MNIST(data, train=is_training)
        small = F.avg_pool2d(F.pad(digits.data.float(), (2, 2, 2, 2)), 4)
        parts[is_training] = (small.round().to(torch.uint8).numpy(), digits.targets.numpy())

    def pairs(is_training: bool, rows: slice, number: int) -> tuple[np.ndarray, np.ndarray]:
        images, labels = (part[rows] for part in parts[is_training])
        left, right = rng.integers(len(labels), size=(2, number))
        joined = np.concatenate([images[left], images[right]], axis=2)
        return joined, 10 * labels[left] + labels[right]

    train = pairs(True, slice(50_000), 4000)
    tests = {
        "tuning": pairs(True, slice(50_000, None), 2000),
        "final": pairs(False, slice(None), 2000),
    }
    for name, test in tests.items():
        np.savez_compressed(
            folder / f"{name}.npz",
            train_images=train[0],
            train_labels=train[1],
            test_images=test[0],
            test_labels=test[1],
        )


@torch.no_grad()
def accuracies(model: Any, pairs: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Test accuracies of the model's own classifier and of the calibrated one."""
    features = {}
    for part in ("train", "test"):
        # The normalisation of images without a named data set.
        images = (torch.from_numpy(pairs[f"{part}_images"])[:, None] / 255 - 0.5) / 0.25
        features[part] = model.features(images)
    own = model.head(features["test"]).argmax(1).numpy()
    if hasattr(model.head, "inputs"):
        features = {part: model.head.inputs(rows) for part, rows in features.items()}
    vector = AffineForm.summed(features["train"], pairs["train_labels"], 100)
    sums = Sums.unpack(vector, features["train"].shape[1] + 1, 100)
    classifier = solve(sums.gram, sums.targets, 0.0)
    logits = features["test"].double().numpy() @ classifier[:, :-1].T + classifier[:, -1]
    labels = pairs["test_labels"]
    return {
        "own": float((own == labels).mean()),
        "calibrated": float((logits.argmax(1) == labels).mean()),
    }


def run_cell(cell: Cell, folder: Path) -> dict[str, Any]:
    """The accuracies of one run."""
    method, dimension, rate, seed = cell
    path = folder / ("tuning.npz" if seed in TUNING_SEEDS else "final.npz")
    settings = SHARED | ({"calibration": "none"} if method == "spherefed" else {})
    with tempfile.TemporaryDirectory() as results:
        try:
            run = curvfed.simulate(
                method,
                str(path),
                results_dir=results,
                embedding_dim=dimension,
                learning_rate=rate,
                seed=seed,
                quiet=True,
                **settings,
            )
            with np.load(path) as pairs:
                return {"cell": cell, **accuracies(run.model().eval(), pairs)}
        except (RuntimeError, ValueError) as error:
            return {"cell": cell, "error": f"{type(error).__name__}: {error}"[:300]}


class Study:
    """The results so far, and where they are kept."""

    def __init__(self, folder: Path, file: Path) -> None:
        self._folder = folder
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        self.results = {tuple(result["cell"]): result for result in map(json.loads, lines)}

    def run(self, cells: Iterable[Cell]) -> None:
        """Run the cells that have no result."""
        for cell in cells:
            if cell not in self.results:
                self.results[cell] = run_cell(cell, self._folder)
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(self.results[cell]) + "\n")

    def tuned(self, method: str, dimension: int) -> dict[Choice, float]:
        """The mean accuracy of each choice on the tuning seeds; −1 if a run failed."""
        scores: dict[Choice, list[float]] = {}
        for cell, result in self.results.items():
            if cell[:2] == (method, dimension) and cell[3] in TUNING_SEEDS:
                for head in ("own", "calibrated"):
                    scores.setdefault((cell[2], head), []).append(result.get(head, -1.0))
        return {
            choice: float(np.mean(values)) if min(values) >= 0 else -1.0
            for choice, values in scores.items()
        }

    def best(self, method: str, dimension: int) -> Choice | None:
        """The choice with the highest mean; None before tuning."""
        scores = self.tuned(method, dimension)
        return max(scores, key=scores.__getitem__) if scores else None

    def accuracies(self, method: str, dimension: int) -> dict[int, float]:
        """The accuracy of the best choice by seed."""
        choice = self.best(method, dimension)
        if choice is None:
            return {}
        rate, head = choice
        cells = {seed: (method, dimension, rate, seed) for seed in SEEDS}
        held = {seed: self.results[cell] for seed, cell in cells.items() if cell in self.results}
        return {seed: result.get(head, math.nan) for seed, result in held.items()}


def tune(study: Study, method: str, dimension: int) -> None:
    """Try rates until the best is inside their grid."""
    rates = list(RATES)
    for _ in range(MOST_EXTENSIONS + 1):
        study.run((method, dimension, rate, seed) for rate in rates for seed in TUNING_SEEDS)
        best, _ = study.best(method, dimension) or (RATES[0], "own")
        if best == max(rates):
            rates.append(3 * best)
        elif best == min(rates):
            rates.append(best / 3)


def compare(study: Study) -> None:
    """Run the choices, seed by seed, so that a study that is ended has whole seeds."""
    for seed in SEEDS:
        for dimension in DIMENSIONS:
            for method in METHODS:
                if choice := study.best(method, dimension):
                    study.run([(method, dimension, choice[0], seed)])


def accuracy_rows(study: Study) -> Iterator[str]:
    """The table of accuracies and choices, over the seeds that all methods have."""
    yield f"| dimension | {' | '.join(METHODS)} | seeds |"
    yield "| ---: " * (len(METHODS) + 2) + "|"
    for dimension in DIMENSIONS:
        by_method = {method: study.accuracies(method, dimension) for method in METHODS}
        seeds = sorted(set(SEEDS).intersection(*by_method.values()))
        cells = [str(dimension)]
        for method, by_seed in by_method.items():
            choice = study.best(method, dimension)
            if choice is None or len(seeds) < 2:
                cells.append("not run")
                continue
            rate, head = choice
            values = 100 * np.array([by_seed[seed] for seed in seeds])
            cells.append(
                f"{values.mean():.1f} ± {values.std(ddof=1):.1f} (rate {rate:.3g}, {head})"
            )
        yield f"| {' | '.join(cells)} | {len(seeds)} |"


def difference_rows(study: Study) -> Iterator[str]:
    """The table of differences to the other methods."""
    others = [method for method in METHODS if method != POINCARE]
    yield f"| dimension | {' | '.join(f'{POINCARE} − {name}' for name in others)} |"
    yield "| ---: " * (len(others) + 1) + "|"
    for dimension in DIMENSIONS:
        curved = study.accuracies(POINCARE, dimension)
        differences = [str(dimension)]
        for method in others:
            flat = study.accuracies(method, dimension)
            seeds = sorted(set(curved) & set(flat))
            values = np.array([curved[seed] - flat[seed] for seed in seeds])
            differences.append(interval(values) if len(values) > 1 else "not run")
        yield f"| {' | '.join(differences)} |"


def page(study: Study) -> str:
    """The page of results."""
    lines = [
        "# Prototypes of 100 classes in few dimensions",
        "",
        "    python -m studies.prototypes_in_few_dimensions --data folder",
        "",
        "Pairs of MNIST's digits, ten clients, α = .5. Rates and the classifier, the"
        " method's own or the calibrated one, are chosen on two tuning seeds and other test images;"
        " cells are the global accuracy in percent, mean ± standard deviation over the seeds, and"
        " the choices. Below are differences with their paired 95% intervals, not corrected for"
        " their number.",
        "",
        *accuracy_rows(study),
        "",
        *difference_rows(study),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the study and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with MNIST")
    parser.add_argument("--out", type=Path, default=Path("prototypes.jsonl"))
    parser.add_argument("--page", action="store_true", help="write the page of the runs so far")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        study = Study(Path(name), arguments.out)
        if not arguments.page:
            write_pairs(arguments.data, Path(name))
            for dimension in DIMENSIONS:
                for method in METHODS:
                    tune(study, method, dimension)
            compare(study)
    PAGE.write_text(page(study), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
