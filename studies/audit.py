"""A lower bound on ε from many releases of a node whose data differ by one record.

    python -m studies.audit [--only WORD …] [--page docs/measured/audit.md]

prints the rows, all or those that have all the words, and writes the page; half an hour. A node with data of its own reads and splits them as in a run, once
with a record and once without it, and releases its reply again and again. An attacker who knows all
other records, and all noise but that of the honest members, tells the two apart by the likelihood
ratio. What is true of ε-privacy bounds the shares of its right and wrong answers (Jagielski et al.,
NeurIPS 2020); Clopper and Pearson's intervals give the bound.
"""

import argparse
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from PIL import Image
from scipy import stats

from benchmarks.tables import table_lines, write_csv
from curvfed.client_app.client import Client
from curvfed.client_app.description import describe
from curvfed.client_app.node import Node
from curvfed.client_app.rounds import class_sums
from curvfed.extensions.privacy.accountant import whole_epsilon
from curvfed.extensions.privacy.plan import sum_noise
from curvfed.extensions.privacy.private_steps import ExampleGradients, PrivateSteps, clipped_sum
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.one_shot import Site
from curvfed.strategies.base.statistics import HEAD, Leaving
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.config.build_method import fixed_head, model_spec
from curvfed.strategies.config.one_shot import client_half, phase_of
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.secure_phases import client_vector, sum_encoding
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME, Residues, add
from curvfed.strategies.wire.messages import CALIBRATE, Facts, Header
from curvfed.tasks.task import IndependentExamples

MEMBERS = 5
"""Members of a sum, of whom one tells its noise."""

EPSILONS = (1.0, 8.0)
DELTA = 1e-5
RELEASES = 2000
CONFIDENCE = 0.99
CANDIDATES = 6
MOST_RECORDS = 100
"""Records of which `CANDIDATES` should be trained on: one in another part, which the node's own key
decides, changes nothing."""

CLASSES = ("a", "b", "c")
PRIVATE: dict[str, Any] = {"dataset": "own", "dp.unit": "record", "dp.delta": DELTA, "seed": 0}
STEPS: dict[str, Any] = {
    "model": "cnn",
    "embedding-dim": 4,
    "images.augment": "none",
    "batch-size": 0,
    "local-epochs": 1,
    "optimizer": "sgd",
    "learning-rate": 1.0,
    "momentum": 0.0,
    "weight-decay": 0.0,
    "clip-norm": 0.0,
    "dp.clip": 0.01,
    "fine-tune-epochs": 0,
}
"""One step a round on all images; nearly every gradient is longer than this clip."""

RUNS: dict[str, dict[str, Any]] = {
    "points, discriminant": {"method": "discriminant", "discriminant.kind": "lda"},
    "points, hull": {"method": "hull", "dp.cell": 2.0},
    "images, two rounds": {"method": "fedavg", "num-rounds": 2} | STEPS,
    "images, sum after a round": {"method": "spherefed", "num-rounds": 1} | STEPS,
}
SPLITS = {"given in the file": True, "drawn by the node": False}
"""Whether the file of a node's data says which records are for training."""


@dataclass(frozen=True)
class Reply:
    """A reply in units of its noise's standard deviation: without noise, and a way to draw one."""

    exact: Floats
    draw: Callable[[], Floats]


@dataclass(frozen=True)
class Separation:
    """What an attacker sees of releases without and with the record: numbers that are normal with
    deviation 1 around 0 and `distance`.

    Attributes
    ----------
    distance : float
        Between the exact replies.
    without, beside : array (n,)
    """

    distance: float
    without: Floats
    beside: Floats


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the releases, print each row, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m studies.audit", description=__doc__)
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    rows = []
    for split, name, epsilon in product(SPLITS, RUNS, EPSILONS):
        label = [name, split, f"{epsilon:g}"]
        if not all(word in " | ".join(label) for word in options.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            seen = separation(name, epsilon, options.releases, Path(folder), SPLITS[split])
        figures = [bound(seen, CONFIDENCE) for bound in (lower_bound, normal_bound)]
        figures.append(exact_epsilon(seen.distance))
        rows.append([*label, *(f"{figure:.2f}" for figure in figures)])
        print(" | ".join(rows[-1]), flush=True)
    if options.page:
        write_page(options.page, rows, options.releases)


ABOUT = """\
# Audit of differential privacy

    python -m studies.audit --page docs/measured/audit.md

writes this page and [every row](audit.csv). A node's own data are read and split as in a run, with one record and without
it, and its replies are made {number:,} times each. The attacker knows everything but the record and the noise of the
honest members. With {confidence}% confidence and δ = 1e-5, ε is at least

* `answers`: from its right and wrong answers, of which {number:,} can show no more than about 5; the threshold is chosen on
  the first half of the releases and judged on the second;
* `normal`: the same from the means of its scores, taken as normal.

`exact` is ε of normal noise at the distance between the replies without noise. A claim holds if no number of its row is
above ε. For each ε, the number of rows whose claim holds, and the largest numbers:
"""
HEADS = ("run", "split", "ε", "answers", "normal", "exact")


def write_page(page: Path, rows: Sequence[list[str]], number: int) -> None:
    """Write the page, and its rows as a CSV file beside it."""
    write_csv(page.with_suffix(".csv"), HEADS, rows)
    lines = [ABOUT.format(number=number, confidence=f"{100 * CONFIDENCE:g}")]
    shown = []
    for epsilon in dict.fromkeys(row[2] for row in rows):
        figures = [row[3:] for row in rows if row[2] == epsilon]
        held = sum(max(map(float, row)) <= float(epsilon) for row in figures)
        largest = [max(column, key=float) for column in zip(*figures, strict=True)]
        shown.append([epsilon, f"{held} of {len(figures)}", *largest])
    lines += table_lines(("ε", "claims that hold", *HEADS[3:]), shown)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


def separation(
    name: str,
    epsilon: float,
    number: int,
    folder: Path,
    has_parts: bool,
    candidates: int = CANDIDATES,
) -> Separation:
    """A number of releases of each of two neighbours, as the strongest attacker sees them.

    Parameters
    ----------
    name : str
        Of `RUNS`.
    folder : Path
        Empty; for the node's data and state.
    has_parts : bool
        Whether the file says which records are for training.
    candidates : int
        Number of records in training of which one is added: the one that changes most.
    """
    keys = RUNS[name] | PRIVATE | {"dp.epsilon": epsilon, "results-dir": str(folder / "results")}
    if name != "images, two rounds":
        keys |= {"secure-sum": True}
    write = write_points if name.startswith("points") else write_images
    plain = replies_of(keys, write(folder / "without", None, has_parts), folder)
    pairs = []
    for candidate in range(MOST_RECORDS):
        path = write(folder / f"with{candidate}", candidate, has_parts)
        changed = replies_of(keys, path, folder)
        if _distance(plain, changed):
            pairs.append(changed)
        if len(pairs) == candidates:
            break
    replies = max(pairs, key=lambda pair: _distance(plain, pair))
    distance = _distance(plain, replies)
    return Separation(
        distance,
        np.array([_score(plain, replies, plain, distance) for _ in range(number)]),
        np.array([_score(plain, replies, replies, distance) for _ in range(number)]),
    )


def _distance(plain: list[Reply], replies: list[Reply]) -> float:
    squares = [
        np.square(reply.exact - other.exact).sum()
        for reply, other in zip(replies, plain, strict=True)
    ]
    return math.sqrt(sum(squares))


def _score(
    plain: list[Reply], replies: list[Reply], released: list[Reply], distance: float
) -> float:
    """The logarithm of the likelihood ratio, up to a constant and a factor."""
    total = 0.0
    for first, second, reply in zip(plain, replies, released, strict=True):
        total += float((second.exact - first.exact) @ (reply.draw() - first.exact))
    return total / (distance or 1.0)


def replies_of(keys: Mapping[str, Any], path: Path, folder: Path) -> list[Reply]:
    """All replies of a node with these data."""
    client = client_with(keys, path, folder)
    if client.config.row.is_one_shot:
        return [_one_shot(client)]
    replies = [_round(client)] * client.config.num_rounds
    if client.config.calibrator is not None:
        replies.append(_calibration(client))
    return replies


def client_with(keys: Mapping[str, Any], path: Path, folder: Path) -> Client:
    """A real node's client, at the start of the run, with the data at this path."""
    policy = folder / "policy.toml"
    policy.write_text('[privacy]\nmax-epsilon = 100\n[runs]\nstarts = "any"\n')
    node = {
        "partition-id": 0,
        "data-path": str(path),
        "state-path": str(folder / "state"),
        "policy": str(policy),
    }
    client = Client(parse(dict(keys)), "audit", Node.read(node))
    about = describe(client)
    facts = Facts(about.task, about.num_features, about.class_names, about.shape)
    if client.config.row.is_one_shot:
        return client
    client.prepare(facts, 0)
    if client.fixed:
        head = fixed_head(model_spec(client.config, facts), client.config.seed)
        load_arrays(head, client.tensors)
    return client


def _one_shot(client: Client) -> Reply:
    node = client.node
    site = Site(client.data, 0, True, Leaving(node.min_class_size), 1.0, lambda points, own: None)
    half = client_half(client.config, client.data.class_names, site)
    vectors = half.vectors(MEMBERS)
    values = half.contribution(MEMBERS, {}).flatten()
    assert vectors.variances is not None
    return _masked(client, phase_of(client.config), values, vectors.variances, vectors.bound)


def _calibration(client: Client) -> Reply:
    """The sum at the start of the run: a server may ask for it with any parameters."""
    calibration = client.config.calibrator
    assert calibration is not None
    values, _ = class_sums(client, calibration)
    classes, dim = client.model.get_parameter(f"{HEAD}weight").shape
    variances = calibration.variances(dim, classes)
    return _masked(client, CALIBRATE, values, variances, calibration.bound)


def _masked(client: Client, phase: str, values: Floats, variances: Floats, bound: float) -> Reply:
    """A sum over `MEMBERS`, less what an attacker knows: all vectors but one, and the noise of
    members that tell it."""
    encoding = sum_encoding(bound, MEMBERS)
    steps = encoding.encode(client_vector(values, 0, {}, bound))
    nothing = encoding.encode(client_vector(0 * values, 0, {}, bound))
    deviations = np.sqrt(variances) * sum_noise(client.config, phase)
    session: Any = SimpleNamespace(
        clients=tuple(range(MEMBERS)),
        phase=phase,
        round=0,
        modulus=SUM_PRIME,
    )
    hide = client.guard.hide(Header("audit", phase, 0), {}, variances, bound)
    assert hide is not None

    def noisy(vector: Residues) -> Residues:
        return hide(vector, encoding, session)

    def draw() -> Floats:
        total = noisy(steps)
        for _ in range(MEMBERS - 2):
            total = add(total, noisy(nothing), SUM_PRIME)
        return encoding.decode(total)[: values.size] / deviations

    return Reply(encoding.decode(steps)[: values.size] / deviations, draw)


def _round(client: Client) -> Reply:
    """A round of one step; in other steps the attacker would know less."""
    private = client.learner.local.private
    assert isinstance(private, PrivateSteps)
    assert private.rate == 1
    assert client.learner.local.task.num_steps == 1
    names = list(client.trained)
    start = {name: array.copy() for name, array in client.learner.share().items()}
    fixed = {name: tensor.numpy(force=True).copy() for name, tensor in client.fixed.items()}
    number = client.task.num_examples
    unit = private.noise * private.clip
    client.model.train()
    gradients = ExampleGradients(client.model, client.learner.loss)
    examples = cast(IndependentExamples, client.task)
    batches = examples.batches_of(torch.arange(number), gradients.batch_size(number, 1.0))
    sums = clipped_sum(gradients, batches, private.clip)
    exact = np.concatenate([sums[f"model.{name}"].numpy().ravel() for name in names]) / unit

    def draw() -> Floats:
        client.receive(start, fixed)
        client.fit(1)
        shared = client.learner.share()
        moved = [start[name].astype(float) - shared[name] for name in names]
        client.receive(start, fixed)
        return np.concatenate([move.ravel() for move in moved]) * number / unit

    return Reply(exact, draw)


def lower_bound(seen: Separation, confidence: float) -> float:
    """The largest ε that the attacker's answers refute, at `DELTA`: its threshold is chosen on the
    first half of the releases, and judged on the second."""
    half = len(seen.without) // 2
    chosen = np.concatenate([seen.without[:half], seen.beside[:half]])
    thresholds = np.unique(np.quantile(chosen, np.linspace(0, 1, 201)))
    first = replace(seen, without=seen.without[:half], beside=seen.beside[:half])
    second = replace(seen, without=seen.without[half:], beside=seen.beside[half:])
    cases = [(float(cut), is_above) for cut in thresholds for is_above in (True, False)]
    cut, is_above = max(cases, key=lambda case: _refuted(first, case[0], case[1], confidence))
    return max(0.0, _refuted(second, cut, is_above, confidence))


def _refuted(seen: Separation, cut: float, is_above: bool, confidence: float) -> float:
    """ε for the event that a score is above a threshold, or at most it: P(event) ≤ e^ε P'(event) +
    δ, with its probability in the one case from below and in the other from above."""
    likely, unlikely = (seen.beside, seen.without) if is_above else (seen.without, seen.beside)
    hits = int((likely > cut).sum()) if is_above else int((likely <= cut).sum())
    misses = int((unlikely > cut).sum()) if is_above else int((unlikely <= cut).sum())
    level = (1 + confidence) / 2  # each of the two bounds fails at most half as often
    low = stats.beta.ppf(1 - level, hits, len(likely) - hits + 1) if hits else 0.0
    high = 1.0
    if misses < len(unlikely):
        high = stats.beta.ppf(level, misses + 1, len(unlikely) - misses)
    return math.log((low - DELTA) / high) if low > DELTA else -math.inf


def normal_bound(seen: Separation, confidence: float) -> float:
    """ε of normal noise whose distance is the least that fits the scores."""
    number = len(seen.without)
    spread = math.sqrt((seen.without.var(ddof=1) + seen.beside.var(ddof=1)) / 2)
    distance = (seen.beside.mean() - seen.without.mean()) / spread
    error = math.sqrt(2 / number + distance**2 / (4 * (number - 1)))
    least = distance - stats.norm.ppf(confidence) * error
    return whole_epsilon(1 / least, DELTA) if least > 1e-6 else 0.0


def exact_epsilon(distance: float) -> float:
    """ε of normal noise of deviation 1 that hides this distance."""
    return whole_epsilon(1 / distance, DELTA) if distance else 0.0


def write_points(folder: Path, record: int | None, has_parts: bool) -> Path:
    """A file of 300 points of three classes, and one more beyond the reach of the sums."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(7)
    points = generator.uniform(-0.7, 0.7, (300, 2))
    labels = np.repeat(CLASSES, 100)
    test = np.arange(300) % 3 == 0
    if record is not None:
        angle = 0.4 + record
        points = np.concatenate([points, [[0.999 * math.cos(angle), 0.999 * math.sin(angle)]]])
        labels = np.append(labels, "c")
        test = np.append(test, False)
    path = folder.parent / f"{folder.name}.npz"
    arrays: dict[str, Any] = {"data": points, "label": labels}
    if has_parts:
        arrays = {
            "x_train": points[~test],
            "y_train": labels[~test],
            "x_test": points[test],
            "y_test": labels[test],
        }
    np.savez(path, **arrays)
    return path


def write_images(folder: Path, record: int | None, has_parts: bool) -> Path:
    """A folder of 24 images of three classes, and one more, unlike them."""
    generator = np.random.default_rng(7)
    for number in range(24):
        part = ("test" if number % 4 == 0 else "train") if has_parts else ""
        level = 40 + 60 * (number % 3)
        pixels = level + generator.integers(0, 40, (8, 8))
        _save(folder / part / CLASSES[number % 3] / f"{number:02}.png", pixels)
    if record is not None:
        pixels = np.random.default_rng([8, record]).integers(0, 2, (8, 8)) * 255
        _save(folder / ("train" if has_parts else "") / "c" / "record.png", pixels)
    return folder


def _save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


if __name__ == "__main__":
    main()
