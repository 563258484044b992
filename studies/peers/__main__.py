"""Run other libraries' own code and ours in pairs on the same clients, and write what both reach.

    python -m studies.peers graphs|images --data DIR [--openfgl DIR] [--fed-pub DIR]
        [--pfllib DIR] [--fedtgp DIR] [--fedetf DIR] [--seeds 0 1 2] [--alphas 0.1 0.5]
        [--methods NAME or PEER/NAME ...] [--workers N]
        --out FILE.json [--page docs/measured/peers.md] [--quick]

Each run is a process of its own, one at a time, on one thread; theirs and ours take turns. With
`--workers N` ours trains in so many processes, and theirs has its own threads and scoring. Pairs
that FILE.json has are not run again. The page is made of all that it has.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.page import machine, write_page
from curvfed.tasks.stored_files import write_atomically
from studies.peers import fed_pub, fedetf, openfgl, pfllib
from studies.peers.job import ANSWER, CloneError, as_users_run, check_clone
from studies.peers.settings import ALPHAS, CLIENTS, COMMON, PAIRS, Pair
from studies.peers.tables import ABOUT, HEADS, summary, tables

PEERS = {
    "openfgl": openfgl,
    "fed-pub": fed_pub,
    "pfllib": pfllib,
    "fedtgp": pfllib,
    "fedetf": fedetf,
}
QUICK = 2
LONGEST = 1800
"""Rounds of a quick run; seconds after which a run is given up."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, tell each run as it comes; 1 if a run failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m studies.peers")
    parser.add_argument("task", choices=COMMON)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    for peer in PEERS:
        parser.add_argument(
            f"--{peer}", type=Path, help="folder of a clone; without it the peer is left out"
        )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument(
        "--alphas", type=float, nargs="+", default=ALPHAS, choices=ALPHAS, help="of images"
    )
    parser.add_argument(
        "--methods", nargs="+", default=[], help="the peers' names, or PEER/NAME; without it all"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        help="of ours; from 2 on both sides run as their users run them, and are timed",
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--page", type=Path)
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK} rounds: whether the runs work; for no page"
    )
    options = parser.parse_args(arguments)
    clones = {
        peer: folder.resolve()
        for peer in PEERS
        if (folder := getattr(options, peer.replace("-", "_")))
    }
    try:
        for peer, folder in clones.items():
            check_clone(folder, PEERS[peer].HOLDS)
        if options.page and options.quick:
            raise ValueError("--page: quick runs have no figures for a page")
    except (CloneError, ValueError) as error:
        parser.error(str(error))
    if options.page and not options.page.parent.is_dir():
        parser.error(f"--page: there is no folder {options.page.parent}")
    pairs = [
        pair
        for pair in PAIRS
        if pair.task == options.task
        and pair.peer in clones
        and (not options.methods or {pair.name, f"{pair.peer}/{pair.name}"} & set(options.methods))
    ]
    content = json.loads(options.out.read_text()) if options.out.exists() else {"runs": []}
    content |= {"measured": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine()}
    failed = 0
    for pair in pairs:
        for alpha in options.alphas if options.task == "images" else [None]:
            for seed in options.seeds:
                for side in ("theirs", "ours"):
                    settings = pair.of_ours(seed, alpha, QUICK if options.quick else None)
                    settings |= {"workers": options.workers} if options.workers > 1 else {}
                    key = {
                        "peer": pair.peer,
                        "name": pair.name,
                        "alpha": alpha,
                        "seed": seed,
                        "side": side,
                        "settings": settings,
                        "with": pair.theirs,
                    }
                    if any(
                        "error" not in run and run.items() >= key.items() for run in content["runs"]
                    ):
                        continue
                    figures = one_run(
                        side,
                        pair,
                        settings | {"data-dir": str(options.data.resolve())},
                        clones[pair.peer],
                    )
                    failed += "error" in figures
                    content["runs"] = [
                        run for run in content["runs"] if not run.items() >= key.items()
                    ] + [key | figures]
                    write_atomically(options.out, (json.dumps(content, indent=1) + "\n").encode())
                    place = (
                        f"{pair.peer}/{pair.name}"
                        + (f" alpha {alpha}" if alpha else "")
                        + f" seed {seed} {side}"
                    )
                    words = (
                        f"{name} {value if name == 'error' else round(value, 3)}"
                        for name, value in figures.items()
                    )
                    print(f"{place}: {', '.join(words)}", flush=True)
    if options.page:
        rows = tables(content["runs"])
        write_page(options.page, ABOUT, content, HEADS, rows, summary)
    return 1 if failed else 0


def one_run(side: str, pair: Pair, settings: dict[str, Any], clone: Path) -> dict[str, Any]:
    """The answer of a process of its own, or its error."""
    module = "ours" if side == "ours" else PEERS[pair.peer].__name__.rpartition(".")[2]
    rounds = QUICK if settings["num-rounds"] == QUICK else COMMON[pair.task]["num-rounds"]
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "clone": str(clone),
            "name": pair.name,
            "settings": settings,
            "theirs": pair.theirs,
            "rounds": rounds,
            "clients": CLIENTS[pair.task],
            "folder": folder,
        }
        around = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        around["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        for threads in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            if as_users_run(settings):
                around.pop(threads, None)
            else:
                around[threads] = "1"
        command = [sys.executable, "-m", f"studies.peers.{module}", json.dumps(job)]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=around,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no answer within {LONGEST} s"}
    last = done.stdout.strip().rpartition("\n")[2]
    if done.returncode == 0 and last.startswith(ANSWER):
        return dict(json.loads(last.removeprefix(ANSWER)))
    return {
        "error": (done.stderr.strip().rpartition("\n")[2] or f"exit status {done.returncode}")[:200]
    }


if __name__ == "__main__":
    sys.exit(main())
