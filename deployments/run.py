"""`curvfed run`: a run of the app by `flwr run`, isolated from any other Flower on the machine."""

import shlex
import subprocess
import sys
from collections.abc import Sequence

from curvfed.deployments.arguments import NUM_SUPERNODES, Value
from curvfed.deployments.bundle import app_folder
from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.isolated import run
from curvfed.deployments.processes import Interrupted
from curvfed.deployments.request import read_request
from curvfed.deployments.resources import Resources
from curvfed.deployments.run_results import ExpectedSummary, named, toml_pairs

FAILED = 1
OUT_OF_TIME = 124


def main(
    pairs: Sequence[str],
    num_supernodes: int = NUM_SUPERNODES,
    cpus: int = 1,
    gpus: float = 0.0,
    timeout: float | None = None,
) -> int:
    """Run the app through Flower, and return the exit status.

    Parameters
    ----------
    pairs : sequence of str
    num_supernodes : int
        Number of clients, unless `pairs` set it.
    cpus : int
        CPUs for each client.
    gpus : float
        GPUs for each client.
    timeout : float, optional
        Seconds after which the run is stopped.

    Returns
    -------
    int
        0 completed, 1 failed, 124 out of time, 128 + n stopped by signal n (130 for Ctrl-C).

    Raises
    ------
    UsageError, ConfigError
        If no machine can run it; nothing is started.
    """
    Resources(cpus, gpus)
    request = read_request([f"num-supernodes={num_supernodes}", *pairs])
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
            status, details = run(command, timeout)
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
        return 0 if expected.report(status, details) else FAILED
    if (expected.directory / "checkpoint" / "server").exists():
        name = expected.directory.name
        print(
            f"Its last checkpoint is saved. To continue: the same command with run-name={name}"
            " resume=true"
        )
    return code
