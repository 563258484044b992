"""A thousand clients in one process against ten: seconds for each client that trains, and memory round by round.

    python -m benchmarks.many_clients

Every run is a process of its own. Rounds are timed from their first letter to that of the next round, so that
aggregation, checkpoint and records are in them, and memory is looked at between two rounds, when all of that is done.
Clients are of one size in both runs: in `trees` that of every client is its own, and of `digits`, whose 1,438 training
images cannot give a thousand clients more, each has one (`images.train-subset`, dealt out evenly, `min-client-size=1`).
All ten train in every round, a tenth of the thousand does. The server scores nothing and no client is fine-tuned: both
would be as much for ten clients as for the hundred that train.
"""

import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio

MANY, FEW = 1_000, 10
FRACTION = 0.1
ROUNDS = 40
"""That are measured; in one more the runs end."""
SETTLED = 30
"""The round after which memory is to be flat: by then 19 of 20 clients have trained once and stay set up, up to
`curvfed.client_app.live.LIVE_BYTES`. Earlier rounds pay for that, in time and in memory."""

SETTINGS: dict[str, dict[str, Any]] = {
    "flatland on trees": {"method": "flatland", "dataset": "trees"},
    "hyperfed on digits": {
        "method": "hyperfed", "dataset": "digits", "partition": "iid", "min-client-size": 1, "global-every": 0,
        "fine-tune-epochs": 0,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Round:
    """A round of a run.

    Attributes
    ----------
    seconds : float
        For each client that trained.
    resident : int
        Bytes that the process has after it.
    """

    seconds: float
    resident: int


def rows(place: Place) -> list[Row]:
    """Time and memory of both methods; the data are built in."""
    found = []
    for name in SETTINGS:
        found += [
            Row(
                f"a trained client of {name}, {MANY:,} clients, a tenth in each round",
                f"the same of {FEW} clients, all in each round",
                "limit",
                _bound(time_against_few, name),
                1.2,
            ),
            Row(
                f"memory of {name} with {MANY:,} clients, in bytes in place of seconds, after round {ROUNDS}",
                f"bytes after round {SETTLED}",
                "limit",
                _bound(memory_against_early, name),
                1.05,
            ),
        ]
    return found


def _bound(measure: Callable[[str], Ratio], name: str) -> Callable[[], Ratio]:
    return lambda: measure(name)


def time_against_few(name: str, many: int = MANY, rounds: int = ROUNDS) -> Ratio:
    """Seconds for each client that trained, median over the rounds from the second on, with many clients and with few."""
    ours, theirs = ([one.seconds for one in measured(name, clients, rounds)[1:]] for clients in (many, FEW))
    middle = statistics.median(theirs)
    return Ratio(statistics.median(ours), middle, min(ours) / middle, max(ours) / middle)


def memory_against_early(name: str, many: int = MANY, rounds: int = ROUNDS) -> Ratio:
    """Resident bytes, not seconds, after the last round and after round `SETTLED`; the range is of the rounds since."""
    resident = [one.resident for one in measured(name, many, rounds)[SETTLED - 1 :]]
    early = resident[0]
    return Ratio(resident[-1], early, min(resident) / early, max(resident) / early)


@cache
def measured(name: str, clients: int, rounds: int) -> tuple[Round, ...]:
    """The rounds of a run in a process of its own, whose home is empty and goes with it."""
    settings = SETTINGS[name] | {
        "num-rounds": rounds + 1,
        "fraction-train": 1.0 if clients == FEW else FRACTION,
        "run-name": "run",
    }
    if settings["dataset"] == "digits":
        settings["images.train-subset"] = clients
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.many_clients", "--run", str(clients), json.dumps(settings)],
            capture_output=True, text=True, cwd=Path(__file__).parents[1], env=os.environ | {"HOME": home}, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{name} with {clients} clients: {done.stderr[-2000:]}")
    return tuple(Round(**one) for one in json.loads(done.stdout.splitlines()[-1]))


def run(clients: int, settings: dict[str, Any]) -> list[Round]:
    """Simulate in this process, and tell all rounds but the last, whose end is that of the run."""
    import psutil

    from curvfed.deployments.simulate import simulate
    from curvfed.strategies.wire.messages import TRAIN

    process = psutil.Process()
    begun: dict[int, tuple[float, int]] = {}
    trained: dict[int, int] = {}

    def watch(message: Any, handle: Any) -> Any:
        header = message.content["header"]
        if header["phase"] == TRAIN:
            number = header["round"]
            if number not in begun:
                begun[number] = time.perf_counter(), process.memory_info().rss
            trained[number] = trained.get(number, 0) + 1
        return handle(message)

    folder = simulate(settings, clients, intercept=watch)
    with (folder / "rounds.csv").open(newline="") as file:
        if any(int(row["dropped"]) for row in csv.DictReader(file)):
            raise RuntimeError(f"replies were dropped: {folder}")
    return [
        Round((begun[after][0] - begun[number][0]) / trained[number], begun[after][1])
        for number, after in pairwise(sorted(begun))
    ]


def main(arguments: list[str]) -> int:
    """Print all rows; or with `--run CLIENTS SETTINGS` the rounds of one run, as JSON in the last line."""
    if arguments[:1] == ["--run"]:
        found = run(int(arguments[1]), json.loads(arguments[2]))
        print(json.dumps([asdict(one) for one in found]))
        return 0
    for row in rows(Place(None)):
        ratio = row.measure()
        unit = "MB" if ratio.ours > 1e6 else "ms"
        ours, theirs = (value / 1e6 if unit == "MB" else 1e3 * value for value in (ratio.ours, ratio.theirs))
        print(f"{row.what} / {row.against}: {ratio.ratio:.3g} ({ours:.4g} and {theirs:.4g} {unit}; goal {row.goal:g})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
