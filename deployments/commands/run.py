"""`curvfed run`: a run of the app by `flwr run`, isolated from any other Flower on the machine."""

import shlex
import subprocess
import sys
from typing import Annotated

import typer

from curvfed.deployments.arguments import NUM_SUPERNODES, Value, read_request
from curvfed.deployments.bundle import app_folder
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.isolated import run_isolated
from curvfed.deployments.parameters import Debug, Pairs, all_pairs
from curvfed.deployments.processes import Interrupted
from curvfed.deployments.resources import Resources
from curvfed.deployments.run_results import ExpectedSummary, named, toml_pairs

FAILED = 1
OUT_OF_TIME = 124


def run(
    pairs: Pairs = None,
    num_supernodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of clients.")
    ] = NUM_SUPERNODES,
    cpus: Annotated[
        int,
        typer.Option(
            min=1, metavar="C", help="CPUs per client; their number caps how many train at once."
        ),
    ] = 1,
    gpus: Annotated[
        float, typer.Option(min=0, metavar="F", help="GPUs per client; a fraction shares one.")
    ] = 0.0,
    timeout: Annotated[
        float | None, typer.Option(metavar="S", help="Stop the run after S seconds.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Run through Flower: with a SuperLink of its own, clients in parallel by Ray, and all programs
    stopped at the end.

    curvfed run flatland data-dir=~/data num-supernodes=10 --gpus 0.25

    Exit status: 0 completed, 1 failed, 2 wrong usage or missing data, 124 out of
    time, 128 + n stopped by signal n (130 for Ctrl-C).
    """
    Resources(cpus, gpus)
    request = read_request([f"num-supernodes={num_supernodes}", *all_pairs(pairs, debug)])
    from curvfed.deployments.preflight import preflight  # its import takes seconds

    preflight(request)
    config = named(request.settings, request.config)
    federation: dict[str, Value] = {
        "num-supernodes": request.num_supernodes,
        "client-resources-num-cpus": cpus,
    }
    if gpus:
        federation["client-resources-num-gpus"] = gpus
    expected = ExpectedSummary(config)
    try:
        with app_folder(request.config.method) as app:
            command = ["flwr", "run", str(app), "--stream", "--run-config", toml_pairs(config)]
            command += ["--federation-config", toml_pairs(federation)]
            print("FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1", shlex.join(command), flush=True)
            status, details = run_isolated(command, timeout)
    except Interrupted as stop:
        print(stop)
        code = 128 + stop.signum
    except FileNotFoundError as error:
        raise ClusterError(
            f"Flower is not installed beside {sys.executable}: {error}", key="no-flower"
        ) from None
    except subprocess.TimeoutExpired:
        print(f"Stopped: not done after {timeout:g} s.")
        code = OUT_OF_TIME
    else:
        raise typer.Exit(0 if expected.report(status, details) else FAILED)
    if (expected.directory / "checkpoint" / "server").exists():
        name = expected.directory.name
        print(
            f"Its last checkpoint is saved. To continue: the same command with run-name={name}"
            " resume=true"
        )
    raise typer.Exit(code)
