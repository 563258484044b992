"""`curvfed cluster regroup`: let a node be summed with other nodes than before."""

from typing import Annotated

import typer

from curvfed.deployments.cluster.errors import ClusterError
from curvfed.deployments.cluster.folder import ServerFolder
from curvfed.deployments.cluster.ledger import check_owner, user
from curvfed.deployments.cluster.options import NodeConfig
from curvfed.deployments.groups import Application

app = Application(add_completion=False)


@app.command()
def regroup(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Its folder.")],
    node_config: NodeConfig,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Let a node be summed with other nodes than before, after a change of its roster, or of the
    nodes of a cluster without rosters. Says what this reveals, and asks. The policy's
    regroups-per-quarter limits how often."""
    from curvfed.client_app.node.ledger import ledger_of
    from curvfed.client_app.node.node import Node
    from curvfed.client_app.node.policy import Policy
    from curvfed.client_app.node.roster import read_roster
    from curvfed.deployments.cluster.node_config import read_config
    from curvfed.strategies.base.errors import ConfigError

    folder = ServerFolder(ctx.obj).find_node(node)
    settings = Node.read(read_config(node_config, folder.policy))
    ledger = ledger_of(settings)
    roster = read_roster(settings)
    group = () if roster is None else ledger.group(settings.partition, roster)
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
    limit = (settings.rules or Policy()).sums.regroups_per_quarter
    try:
        ledger.regroup(limit, former=former, group=group, by=user())
    except ConfigError as error:
        raise ClusterError(str(error), key=error.kind) from None
    print(f"{ledger.path}: recorded; the next sum is over the new group")


def _warning(former: list[tuple[int, ...]], group: tuple[int, ...]) -> str:
    """What a server can learn from sums over the former and the new nodes."""
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
