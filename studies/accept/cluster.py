"""Between machines: a cluster on this one, its failures and kills, its figures against a run in one
process."""

import csv
import os
import re
import signal
import stat
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from local_cluster import LocalCluster, cluster, shares
from numpy.typing import NDArray
from safetensors.numpy import load_file

from curvfed.strategies.wire.store import Store
from studies.accept.lab import Lab, Outcome, RunFailed

ROOT = Path(__file__).parents[2]
NODES, ROUNDS = 3, 4
TREES = {"dataset": "trees", "num-rounds": ROUNDS, "min-replies": NODES, "round-timeout": 120}
GUIDE, SECTION = ROOT / "docs" / "deployment.md", "On one machine, to try"
POLL = "Flower's poll is every 3 s"

Table = Callable[[Lab], Iterator[Outcome]]


def cluster_failures(lab: Lab) -> Iterator[Outcome]:
    """Hosts that fail, lines that fail, nodes that do not belong."""
    lab.wait()
    yield tested(
        lab,
        "hosts and lines that fail, strangers, three of ten killed in a sum",
        "tests/hosts",
        3600,
    )


def cluster_runs(lab: Lab) -> Iterator[Outcome]:
    """Deployed against in-process, what lies on the nodes' disks, and what a round costs."""
    lab.wait()
    with three_nodes(lab, "runs") as nodes:
        for method in ("flatland", "fedavg"):
            settings = TREES | {"method": method}
            run_on(nodes, method, settings)
            here = lab.run(settings | {"num-supernodes": NODES})
            yield _against_in_process(method, nodes.results / method, states(nodes, method), here)
        yield _rights(nodes)
        yield _overhead("its nodes as they are by default", nodes.results / "flatland")
        for name in nodes.node_configs:
            nodes.program(name).stop()
            nodes.start_node(name, "--cold")
        nodes.wait_online(NODES)
        run_on(nodes, "cold", TREES | {"method": "flatland"})
        yield _overhead("its nodes with --cold", nodes.results / "cold")


def cluster_files(lab: Lab) -> Iterator[Outcome]:
    """Personal files and messages, by their tests."""
    yield tested(
        lab,
        "personal files under kill -9, 100 times",
        "tests/contracts/directory/test_personal_files.py",
        1200,
    )
    yield tested(
        lab,
        "every value and array name of every message, by method",
        "tests/methods/privacy/test_privacy.py",
        1200,
    )


def cluster_guide(lab: Lab) -> Iterator[Outcome]:
    """What the guide says, as it is written."""
    lab.wait()
    script, home = commands(GUIDE.read_text(encoding="utf-8"), SECTION), lab.folder / "guide-home"
    home.mkdir(exist_ok=True)
    (lab.folder / "guide.sh").write_text(script, encoding="utf-8")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"HOME": str(home), "PATH": path}
    words = ["bash", "-euxo", "pipefail", str(lab.folder / "guide.sh")]
    code, output = call(words, lab.folder / "guide.log", 600, env)
    # None for a process that has ended meanwhile, or belongs to another user.
    commands_here = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    is_down = not any(str(home) in " ".join(words) for words in commands_here)
    value = (
        f"{count(script)} commands, exit status {code}, {'all' if is_down else 'NOT all'} down at"
        " their end"
    )
    yield Outcome(
        f"docs/{GUIDE.name}, {SECTION}: every command in one shell",
        "exit status 0, all down at the end",
        value + (f"\n{output[-2000:]}" if code else ""),
        code == 0 and is_down,
    )


TABLES: tuple[Table, ...] = (
    cluster_failures,
    cluster_runs,
    cluster_files,
    cluster_guide,
)


# --- Clusters and their runs
# ------------------------------------------------------------------------------------------


def three_nodes(lab: Lab, name: str) -> Any:
    """A cluster whose nodes keep their personal state in folders of their own, as between
    machines.
    """
    folder = lab.folder / f"cluster-{name}"
    folder.mkdir()
    return cluster(
        folder,
        [
            f'{share} state-path="{folder / f"state-n{number}"}"'
            for number, share in enumerate(shares(NODES))
        ],
    )


def pairs(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of a command."""
    return [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in settings.items()
    ]


def run_on(nodes: LocalCluster, name: str, settings: Mapping[str, Any]) -> str:
    """A run on a cluster to its end; what it said.

    Raises
    ------
    RunFailed
    """
    code: int
    output: str
    code, output = nodes.run(*pairs(settings), f"run-name={name}")
    if code:
        raise RunFailed(f"{name} on a cluster: exit status {code}\n{output[-3000:]}")
    return output


def states(nodes: LocalCluster, run: str) -> list[Path]:
    """Where the nodes keep the personal state of a run, by partition."""
    return [nodes.folder / f"state-n{number}" / run / f"{number:05d}" for number in range(NODES)]


def personal(folder: Path) -> dict[str, NDArray[Any]]:
    """The newest personal state of a client."""
    store = Store(folder)
    return store.load(store.stamps()[-1])[0]


def apart(one: Mapping[str, NDArray[Any]], other: Mapping[str, NDArray[Any]]) -> float:
    """The largest difference of two sets of arrays; infinite if they are not of one kind."""
    if {n: a.shape for n, a in one.items()} != {n: a.shape for n, a in other.items()}:
        return float("inf")
    return max((float(np.abs(one[n] - other[n]).max()) for n in one if one[n].size), default=0.0)


def _against_in_process(method: str, there: Path, kept: Sequence[Path], here: Path) -> Outcome:
    models = [load_file(run / "model.safetensors") for run in (there, here)]
    shared, own = apart(*models), 0.0
    agreement = f"{len(models[0])} arrays {_difference(shared)}"
    if kept[0].exists():
        clients = [here / "checkpoint" / "clients" / folder.name for folder in kept]
        pairs = [(personal(one), personal(other)) for one, other in zip(kept, clients, strict=True)]
        own = max(apart(*pair) for pair in pairs)
        agreement += (
            f"; {sum(len(one) for one, _ in pairs)} personal arrays of {NODES} nodes"
            f" {_difference(own)}"
        )
    what = (
        f"{method}, {NODES} nodes, {ROUNDS} rounds: deployed against in-process, largest difference"
    )
    return Outcome(what, "<= 1e-6", agreement, max(shared, own) <= 1e-6)


def _difference(value: float) -> str:
    return "equal to the bit" if value == 0 else f"up to {value:.1e} apart"


def _rights(nodes: LocalCluster) -> Outcome:
    paths = [path for folder in states(nodes, "flatland") for path in [folder, *folder.iterdir()]]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    files = [path for path in paths if path.is_file()]
    wrong = [path for path, mode in modes.items() if mode != (0o600 if path.is_file() else 0o700)]
    value = (
        f"{len(files)} files in {len(paths) - len(files)} folders, {len(wrong)} with other rights"
    )
    return Outcome(
        "personal files on the nodes' disks",
        "0600, in folders 0700",
        value,
        bool(files) and not wrong,
    )


def _overhead(what: str, run: Path) -> Outcome:
    """Seconds of each round beyond those of its slowest client."""
    with (run / "clients.csv").open(newline="") as file:
        clients = [row for row in csv.DictReader(file) if row["phase"] == "train"]
    beyond = [
        seconds - max(float(row["seconds"]) for row in clients if int(row["round"]) == number)
        for number, seconds in round_seconds(run).items()
    ]
    each = ", ".join(f"{seconds:.1f}" for seconds in beyond)
    value = f"{statistics.median(beyond):.1f} s ({each})"
    return Outcome(
        f"a round of {NODES} nodes on loopback beyond its slowest client's own time, {what}",
        f"reported; {POLL}",
        value,
        True,
    )


def round_seconds(run: Path) -> dict[int, float]:
    """What each round of training took."""
    with (run / "rounds.csv").open(newline="") as file:
        return {
            int(row["round"]): float(row["seconds"])
            for row in csv.DictReader(file)
            if row["phase"] == "train"
        }


# --- Commands and tests
# -----------------------------------------------------------------------------------------------


def call(
    words: Sequence[str], log: Path, seconds: float, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Exit status and output of a command in this repository; one that takes longer is interrupted,
    and its status 124."""
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = 124
        for patience, signum in ((seconds, signal.SIGINT), (90, signal.SIGKILL)):
            try:
                process.wait(patience)
                code = code if signum == signal.SIGKILL else process.returncode
                break
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signum)
    return code, log.read_text(encoding="utf-8", errors="replace")


def tested(lab: Lab, what: str, tests: str, seconds: float) -> Outcome:
    """Tests of this repository as a line; one that is skipped has shown nothing."""
    report = lab.folder / f"{Path(tests).stem}.xml"
    words = [
        sys.executable,
        "-m",
        "pytest",
        tests,
        f"--junit-xml={report}",
        "-p",
        "no:cacheprovider",
    ]
    code, output = call(words, report.with_suffix(".log"), seconds)
    if not report.exists():
        return Outcome(
            f"{what} ({tests})", "all pass", f"exit status {code}\n{output[-2000:]}", False
        )
    cases = list(ElementTree.parse(report).iter("testcase"))
    failed = [
        case.get("name") for case in cases if {"failure", "error"} & {result.tag for result in case}
    ]
    skipped = [
        result.get("message") for case in cases for result in case if result.tag == "skipped"
    ]
    value = (
        f"{len(cases) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)}"
        " skipped"
    )
    lines = "".join(f"\n  {line}" for line in [*failed, *dict.fromkeys(skipped)])
    return Outcome(
        f"{what} ({tests})", "all pass, none skipped", value + lines, code == 0 and not skipped
    )


def commands(text: str, section: str) -> str:
    """The shell blocks of a section, one after the other.

    Raises
    ------
    RunFailed
        If it has none.
    """
    _, _, rest = text.partition(f"\n## {section}\n")
    blocks = re.findall(r"^```sh\n(.*?)^```", rest.partition("\n## ")[0], re.MULTILINE | re.DOTALL)
    if not blocks:
        raise RunFailed(f'there are no commands under "## {section}"')
    return "".join(blocks)


def count(script: str) -> int:
    """How many commands a script has, those that go on over several lines counted once."""
    lines = script.replace("\\\n", " ").splitlines()
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in lines)
