"""`curvfed cluster ledger` and `regroup`, for the person responsible for a node: the lines of its
ledger, and permission for sums with other nodes than before."""

import getpass
import json
import os
from pathlib import Path
from typing import Annotated

import typer

from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.folder import NodeConfig, ServerFolder
from curvfed.tasks.amounts import amount


def ledger(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STATE-PATH]", help="The node's state-path; default: as for supernode."
        ),
    ] = None,
    reset: Annotated[
        Path | None,
        typer.Option(
            metavar="ANCHOR",
            help="Go on without the lines that this file records and that are lost.",
        ),
    ] = None,
    accept: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="PARTITION-ID",
            help="Go on with a node whose ledger lacks lines that this one has recorded.",
        ),
    ] = None,
) -> None:
    """Show each run, sum, change of the group, revealed point and refusal in a node's ledger; for a
    server's folder, the actions of its users."""
    from curvfed.client_app.node.ledger import Ledger
    from curvfed.strategies.base.run_keys import home
    from curvfed.strategies.wire.checks import one_line

    place = folder.expanduser().absolute() if folder else home() / "personal"
    if reset:
        _reset(place, reset.expanduser().absolute())
        return
    paths = sorted(place.glob("ledger-*.jsonl"))
    if not paths:
        raise ClusterError(
            f"there is no ledger in {place}; a node begins one with its first run, in its"
            " state-path",
            key="no-ledger",
        )
    if accept is not None:
        _accept(paths, accept)
        return
    for path in paths:
        print(path)
        for line in Ledger(path).lines():
            # Names of runs and reasons come from others: nothing there may control the terminal.
            parts = (one_line(str(line.get(name, ""))) for name in ("run", "phase", "round"))
            step = "{}  {} {}".format(*parts).rstrip()
            details = one_line(_details(line))
            print(f"  {line['time']}  {line['kind']:8} {step:40} {details}".rstrip())


def _reset(place: Path, anchor: Path) -> None:
    """Go on without lost lines, once the user has confirmed it."""
    from curvfed.client_app.node.ledger import Ledger

    try:
        ledger = Ledger(place / Path(json.loads(anchor.read_bytes())["ledger"]).name, [anchor])
    except (OSError, ValueError) as error:
        raise ClusterError(f"{anchor} cannot be read: {error}", key="unreadable") from None
    check_owner(anchor)
    typer.confirm(
        f"{ledger.path} goes on without lines that {anchor} records. The node forgets what it has"
        " signed in them: a sum like a forgotten one, over other nodes, can reveal the data of a"
        " single node, and the points that its hulls revealed are counted anew. Go on?",
        abort=True,
    )
    ledger.reset(by=user())
    print(f"{ledger.path} goes on; its line of the reset names you")


def _accept(paths: list[Path], peer: int) -> None:
    """Go on with a peer that lacks lines in its ledger, once the user has confirmed it."""
    from curvfed.client_app.node.ledger import Ledger
    from curvfed.client_app.node.ledger_memory import ACCEPTED

    (path, *further_paths) = paths
    if further_paths:
        raise ClusterError(
            f"there are several ledgers in {path.parent}; needed is the state-path of one node",
            key="several-ledgers",
        )
    check_owner(path)
    typer.confirm(
        f"Partition {peer} has forgotten sums that {path} records. It can sign a sum like a"
        " forgotten one, over other nodes, which can reveal the data of a single node. Go on with"
        " it?",
        abort=True,
    )
    Ledger(path).append(ACCEPTED, peer=peer, by=user())
    print(f"{path} goes on with partition {peer}; its line names you")


def check_owner(path: Path) -> None:
    """Refuse to write files next to those of another user: the node could not read them.

    Raises
    ------
    ClusterError
    """
    if path.stat().st_uid != os.geteuid():
        raise ClusterError(
            f"{path} belongs to another user, who runs the SuperNode: run this command as that"
            " user, by sudo -u",
            key="other-user",
        )


def user() -> str:
    """The person who runs this command, also by sudo."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def _details(line: dict[str, object]) -> str:
    """The details of a line, by its kind."""
    from curvfed.client_app.node.ledger_memory import (
        ACCEPTED,
        CONFIGURATION,
        EXPOSURE,
        LIMITED,
        POINTS,
        REFUSAL,
        REGROUP,
        RUN,
        SPLIT,
        SUM,
        WEIGHT,
    )

    if line["kind"] == SUM:
        return f"with partitions {line['cohort']}, sum {str(line['session'])[:12]}"
    if line["kind"] == POINTS:
        return f"{amount(len(line['points']), 'point')} for the first time"  # type: ignore[arg-type]
    if line["kind"] == SPLIT:
        return f"{line['task']}: shares of training and test records {line['shares']}"
    if line["kind"] == CONFIGURATION:
        names = ", ".join(map(str, line["questions"]))  # type: ignore[call-overload]
        return f"{str(line['configuration'])[:12]} for {names}"
    if line["kind"] == WEIGHT:
        return f"weight up to {line['weight']} in sums of {str(line['data'])[:12]}"
    if line["kind"] == EXPOSURE:
        return f"values of {str(line['data'])[:12]}: {line['exposure']}"
    if line["kind"] == LIMITED:
        return f"{str(line['answered'])[:12]} of the {line['question']}"
    if line["kind"] == ACCEPTED:
        return f"partition {line['peer']}, by {line['by']}"
    if line["kind"] == REGROUP:
        return (
            f"from {line['former']} to {line['group'] or 'those of the next sum'}, by {line['by']}"
        )
    if "by" in line:
        return f"by {line['by']}"
    if line["kind"] == RUN and "method" in line:
        return f"method = {line['method']}"
    if line["kind"] == REFUSAL:
        return str(line["reason"])
    return ""


def regroup(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its folder.")],
    node_config: NodeConfig,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let a node be summed with other nodes than before, after a change of its roster, or of the
    nodes of a cluster without rosters. Names the data that this can reveal, and asks. The policy's
    regroups-per-quarter limits how often."""
    from curvfed.client_app.node import Node
    from curvfed.client_app.node.keys import read_roster
    from curvfed.client_app.node.ledger import ledger_of
    from curvfed.client_app.node.policy import Policy
    from curvfed.extensions.cluster.commands.node_config import read_config
    from curvfed.strategies.errors import ConfigError

    folder = ServerFolder(ctx.obj).find_node(node)
    settings = Node.read(read_config(node_config, folder.policy))
    ledger = ledger_of(settings)
    roster = read_roster(settings)
    sums = (settings.rules or Policy()).sums
    group: tuple[int, ...] = ()
    if roster is not None:
        group = ledger.group(settings.partition, roster, sums.group_size)
    former = []
    if ledger.path.exists():
        check_owner(ledger.path)
        former = ledger.changed_cohorts(group)
    if not former:
        print(f"{ledger.path}: no sum over other nodes; nothing is to be changed")
        return
    print(_warning(former, group))
    if not yes:
        typer.confirm("Change the group?", abort=True)
    try:
        ledger.regroup(sums.regroups_per_quarter, former=former, group=group, by=user())
    except ConfigError as error:
        raise ClusterError(str(error), key=error.kind) from None
    print(f"{ledger.path}: recorded; the next sum is over the new group")


def _warning(former: list[tuple[int, ...]], group: tuple[int, ...]) -> str:
    """A warning about the data that a server can learn from sums over the former and the new
    nodes."""
    earlier = ", ".join(str(list(cohort)) for cohort in former)
    moved = sorted({node for cohort in former for node in set(cohort) ^ set(group)})
    now = f", and now is with {list(group)}"
    members = f"partitions {moved}"
    if not group:
        now = "; its next sum decides with whom from now on"
        members = "the nodes that left or came"
    text = (
        f"This node has been summed with partitions {earlier}{now}. Whoever has sums from before"
        f" and after can subtract them: what remains is what {members} contribute, exactly for sums"
        " over the data alone (hulls, calibrations), and for updates as far as the others' have not"
        " changed."
    )
    is_alone = bool(group) and len(moved) == 1
    return f"{text} One node alone hides behind nobody." if is_alone else text
