"""Hulls: accuracy beside the paper's, exact decoding, grouping with missing classes, clients that
vanish."""

import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from curvfed.strategies.hull.codec import decode_hulls
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.wire.messages import AGREE, EVALUATE, HULLS, KEYS
from studies.accept.flatland import at_least, paired, spread
from studies.accept.hull_cases import hull_case
from studies.accept.lab import Lab, Outcome, RunFailed, Settings, read_summary
from studies.accept.presets import preset
from studies.accept.sum_in_memory import sum_in_memory
from studies.papers.hull_baselines import BASELINES, accuracies

CASES = 200
PARTITIONS = range(10)
SPLITS = range(30)
OLSSON = preset("hull-olsson") | {"num-supernodes": 3, "hull.classifier": "svm", "hull.cap": 128}
LOGISTIC = OLSSON | {"hull.classifier": "logistic"}
PUBLISHED = preset("hull-published") | {"num-supernodes": 3}
UNIFORM: dict[str, Any] = {
    "method": "hull",
    "dataset": "uniform",
    "num-supernodes": 10,
    "hull.epsilon": 0.01,
}
GONE = (1, 4)

Table = Callable[[Lab], Iterator[Outcome]]


def hulls_exact(lab: Lab) -> Iterator[Outcome]:
    """What is decoded is what was sent, through the whole secure sum."""
    wrong = 0
    for seed in range(CASES):
        case = hull_case(seed)
        public = case.public
        session = Session(
            "accept", HULLS, seed, public.prime, public.length, tuple(range(public.num_clients))
        )
        total = sum_in_memory(session, dict(enumerate(case.vectors())))
        bins, clients = decode_hulls(total, public)
        owned = [np.flatnonzero(clients == client) for client in np.unique(clients)]
        wrong += [[bins[i].tolist() for i in mine] for mine in owned] != case.sent
    yield Outcome(
        f"{CASES} random cases, epsilon .01 to 20, 3 and 10 clients, 2 and 8 classes: hulls decoded"
        " = hulls sent",
        "every one",
        f"{CASES - wrong} of {CASES}",
        wrong == 0,
    )


def olsson_published(lab: Lab) -> Iterator[Outcome]:
    """The published setting: one split, ten partitions."""
    lab.start(PUBLISHED | {"seed": 3 * number} for number in PARTITIONS)
    runs = [lab.summary(PUBLISHED | {"seed": 3 * number}) for number in PARTITIONS]
    others = [_baselines(lab, PUBLISHED | {"seed": 3 * number}) for number in PARTITIONS]
    flp = [100 * run["global_accuracy"] for run in runs]
    what = "Olsson as published: split seed 3, C = .1, epsilon = .01, 3 clients, 10 partitions"
    mean = statistics.mean(flp)
    yield Outcome(f"{what}: FLP", "86.0 +- 2.1", spread(flp), abs(mean - 86.0) <= 2.1)
    for name, paper, within in (("fle", 75.0, 3.5), ("cp", 79.17, 0.1), ("ce", 68.75, 0.1)):
        values = [run[f"accuracy_{name}"] for run in others]
        right = abs(statistics.mean(values) - paper) <= within
        yield Outcome(f"the same: {name}", f"{paper} +- {within}", spread(values), right)
    for name, paper in (("ch_cp", 83.33), ("ch_ce", 77.08)):
        values = [run[f"accuracy_{name}"] for run in others]
        yield Outcome(f"for information: {name}, the paper's {paper}", "-", spread(values), True)


def olsson(lab: Lab) -> Iterator[Outcome]:
    """Thirty random splits at the defaults, C by cross-validation everywhere."""
    lab.start(keys | {"seed": seed} for keys in (OLSSON, LOGISTIC) for seed in SPLITS)
    runs = [lab.summary(OLSSON | {"seed": seed}) for seed in SPLITS]
    others = [_baselines(lab, OLSSON | {"seed": seed}) for seed in SPLITS]
    flp = [100 * run["global_accuracy"] for run in runs]
    yield at_least("Olsson, splits of seeds 0-29, svm, hulls of up to 128 corners: FLP", 87.5, flp)
    differences = [ours - run["accuracy_cp"] for ours, run in zip(flp, others, strict=True)]
    yield at_least(
        "the same, paired: FLP minus CP, C chosen the same way", 2.0, differences, signed=True
    )
    yield paired("for information: its interval", "-", differences)
    for name in BASELINES:
        values = [run[name] for run in others]
        yield Outcome(f"for information: {name}", "-", f"{statistics.mean(values):.2f}", True)
    logistic = [100 * lab.summary(LOGISTIC | {"seed": seed})["global_accuracy"] for seed in SPLITS]
    value = f"{statistics.mean(logistic):.2f}"
    yield Outcome("for information: hull.classifier=logistic on the same hulls", "-", value, True)
    shares = [100 * run["metrics"]["hull_share_revealed"] for run in runs]
    yield Outcome(
        "for information: share of the training points that leave",
        "-",
        f"{statistics.mean(shares):.1f}%",
        True,
    )
    exact = sum(
        run["metrics"]["hulls_exact"] and run["metrics"]["grouping_accuracy"] == 1 for run in runs
    )
    yield Outcome(
        "for information: runs with exact hulls, all rightly grouped",
        "-",
        f"{exact} of {len(runs)}",
        True,
    )


def _baselines(lab: Lab, settings: Settings) -> dict[str, float]:
    """Accuracies of the paper's baselines in percent, on the points of a run."""
    scores = accuracies(lab.run(settings), BASELINES)
    return {name: 100 * (value or 0.0) for name, value in scores.items()}


def synthetic(lab: Lab) -> Iterator[Outcome]:
    """The paper's generated data, and clients that lack a class."""
    lab.start(
        UNIFORM | {"points.lacking": lacking, "seed": seed}
        for lacking in (0, 2, 4)
        for seed in PARTITIONS
    )
    runs = [lab.summary(UNIFORM | {"points.lacking": 0, "seed": seed}) for seed in PARTITIONS]
    yield at_least(
        "uniform, N = 20,000, 10 clients, epsilon = .01, seeds 0-9: FLP",
        99.9,
        [100 * run["global_accuracy"] for run in runs],
    )
    for lacking in (2, 4):
        runs = [
            lab.summary(UNIFORM | {"points.lacking": lacking, "seed": seed}) for seed in PARTITIONS
        ]
        right = [100 * run["metrics"]["grouping_accuracy"] for run in runs]
        flp = [100 * run["global_accuracy"] for run in runs]
        yield Outcome(
            f"{lacking} of 10 clients lack a class, seeds 0-9: hulls in the right group (FLP"
            f" {statistics.mean(flp):.2f})",
            "100",
            f"{statistics.mean(right):.2f}, worst {min(right):.2f}",
            min(right) == 100,
        )


def vanished(lab: Lab) -> Iterator[Outcome]:
    """Two of ten clients vanish, in every phase in turn: the fault is injected in the in-process
    Grid. The clients are summed in two groups, and both that vanish are in the first."""
    from curvfed.deployments.inprocess import simulate

    for phase in (KEYS, AGREE, HULLS, EVALUATE):

        def intercept(request: Any, handle: Any, phase: str = phase) -> Any:
            reply = handle(request)
            partition = reply.content["header"]["partition"]
            is_gone = request.content["header"]["phase"] == phase and partition in GONE
            return None if is_gone else reply

        settings = {key: value for key, value in UNIFORM.items() if key != "num-supernodes"}
        place = {
            "results-dir": str(lab.folder),
            "run-name": f"vanished-{phase}",
            "points.num": 3000,
            "hull.groups": 2,
            "round-timeout": 2,
            "secure.patience": 0,
        }
        summary = read_summary(simulate(settings | place, 10, intercept=intercept))
        metrics = summary["metrics"]
        hulls = np.load(lab.folder / f"vanished-{phase}" / "hulls.npz")
        clients = len(np.unique(hulls["client"]))
        # The hulls of a group are in its sum once all its vectors are there.
        summed = 10 if phase == EVALUATE else 5
        right = (
            metrics["hulls_exact"]
            and metrics["dropouts"] == 10 - summed
            and metrics["clients_summed"] == clients == summed
        )
        yield Outcome(
            f"10 clients in two groups, 2 of the first vanish at {phase}: the sum of the other"
            " group, the model, the count",
            f"hulls of {summed} exact, trained, {10 - summed} missing",
            f"hulls of {clients} clients {'exact' if metrics['hulls_exact'] else 'WRONG'}, "
            f"accuracy {100 * summary['global_accuracy']:.2f}, {metrics['dropouts']} missing, "
            f"{metrics['replies_dropped']} replies dropped",
            right,
        )


def hull_through_flower(lab: Lab) -> Iterator[Outcome]:
    """One protocol by the real `flwr run`."""
    settings = UNIFORM | {"points.num": 5000}
    lab.wait()
    command = [sys.executable, "-m", "curvfed", "run", *lab.command(settings, "hull-flower")[4:]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RunFailed(f"flwr run: exit status {done.returncode}\n{done.stdout[-3000:]}")
    ours, theirs = (
        np.load(folder / "hulls.npz") for folder in (lab.run(settings), lab.folder / "hull-flower")
    )
    same = all(
        np.array_equal(ours[name], theirs[name]) for name in ("bins", "client", "hull", "group")
    )
    yield Outcome(
        "flwr run, 10 clients: decoded hulls and groups",
        "those of the in-process run",
        f"{len(np.unique(theirs['hull']))} hulls of {len(theirs['bins'])} bins"
        f" {'equal' if same else 'DIFFER'}",
        same,
    )


TABLES: tuple[Table, ...] = (
    hulls_exact,
    olsson_published,
    olsson,
    synthetic,
    vanished,
    hull_through_flower,
)
