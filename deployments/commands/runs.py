"""The commands `simulate`, `run` and `check`, for a single run."""

from typing import Annotated

import typer

from curvfed.deployments.arguments import NUM_SUPERNODES
from curvfed.deployments.commands.parameters import Debug, Pairs, all_pairs


def simulate(pairs: Pairs = None, debug: Debug = False) -> None:
    """Run in this process, without SuperLink and Ray: same code, same results, faster start.

    curvfed simulate method=flatland dataset=cora data-dir=~/data num-supernodes=10 seed=1

    Exit status: 0 completed, 1 failed, 2 wrong usage, such as missing data (nothing
    is started, and no folder made), 130 interrupted by Ctrl-C or SIGTERM (the last
    checkpoint is saved, see the key resume).
    """
    from curvfed.deployments.simulate import main

    raise typer.Exit(main(all_pairs(pairs, debug)))


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
    from curvfed.deployments.run import main

    raise typer.Exit(main(all_pairs(pairs, debug), num_supernodes, cpus, gpus, timeout))


def check(
    pairs: Pairs = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="All keys, also those of other methods, with the allowed values."
        ),
    ] = False,
) -> None:
    """Show the configuration and the data of a run, or its errors. Nothing is trained or
    downloaded.

    curvfed check method=flatland dataset=cora data-dir=~/data
    curvfed check --all method=hyperfed dataset=mnist

    For each key that the method uses it shows the value and its origin: set by you,
    default, or auto, chosen by the task or the method. Then it shows the place of the
    data and the data of a client; loading can take minutes the first time. For a
    secure sum it shows how many clients must stay to the end, and for hull the size
    of a client's message.
    Exit status: 0 it can run, 2 it cannot.
    """
    from curvfed.deployments.check import main

    raise typer.Exit(main(pairs or [], everything))
