"""The commands of `curvfed cluster`. Each imports its modules when it runs, so that help is
fast."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from curvfed.deployments.cluster.ports import API_PORT, FLEET_PORT, LAST_PORT
from curvfed.deployments.commands.groups import Application, Commands
from curvfed.deployments.commands.parameters import Debug, Pairs, all_pairs, expanded

if TYPE_CHECKING:
    from curvfed.deployments.cluster.folder import ServerFolder

app = Application(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
A cluster of real machines: one SuperLink, a SuperNode beside each site's
data, TLS and a key per node.

[bold]On the server[/bold]
  curvfed cluster init --host fl.example.org --node north --node south --node west
  curvfed cluster superlink --background
  curvfed cluster register
[bold]On a node, with its folder[/bold]
  curvfed cluster supernode north --node-config 'partition-id=0 data-path="graph.pt"'
[bold]On the server[/bold]
  curvfed cluster run method=flatland num-rounds=20
  curvfed cluster status
  curvfed cluster doctor
  curvfed cluster down

Flower's commands are printed before they run. Exit status: 0 done, 1 failed, 2
wrong usage, 128 + n stopped by signal n (130 for Ctrl-C). Wrong usage is wrong on
every machine, such as a port or a value of --node-config; if a file or program is
missing on this machine, the status is 1.
""",
)

Days = Annotated[int, typer.Option(metavar="N", help="Days until the server's certificate ends.")]
HealthPort = Annotated[
    int,
    typer.Option(
        min=0,
        max=LAST_PORT,
        metavar="P",
        help="Port of its gRPC health service, on loopback; 0: none.",
    ),
]
SuperLink = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Address of the SuperLink; default: that of init."),
]
Background = Annotated[
    bool, typer.Option("--background", help="Return when it is up; `down` stops it.")
]


@app.callback()
def cluster(
    ctx: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Option(
            parser=expanded,
            metavar="DIR",
            help="The server's folder, ~/curvfed/cluster by default.",
        ),
    ] = None,
) -> None:
    """The common option of the commands of a cluster."""
    if folder is None:
        from curvfed.strategies.base.run_keys import home

        folder = home() / "cluster"
    ctx.obj = folder.absolute()


def _open(ctx: typer.Context) -> "ServerFolder":
    from curvfed.deployments.cluster.folder import ServerFolder

    return ServerFolder.open(ctx.obj)


@app.command()
def init(
    ctx: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name or address of the server for nodes; repeatable."),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of a node; a key is made for it; repeatable."),
    ] = None,
    fleet_port: Annotated[
        int, typer.Option(min=1, max=LAST_PORT, metavar="P", help="Port for nodes.")
    ] = FLEET_PORT,
    api_port: Annotated[
        int,
        typer.Option(
            min=1, max=LAST_PORT, metavar="P", help="Port for runs and registrations, on loopback."
        ),
    ] = API_PORT,
    days: Days = 365,
) -> None:
    """Make certificates, keys and settings; nothing is overwritten."""
    from curvfed.deployments.cluster.folder import ServerFolder

    folder = ServerFolder.make(ctx.obj, host or [], node or [], fleet_port, api_port, days)
    authority, key = (path.name for path in folder.authority)
    print(f"cluster: {folder.path}")
    print(f"  {authority}  the authority's certificate, for every node; {key} stays here")
    print(
        f"  {folder.server[0].name}  for {', '.join(host or ['this machine alone'])}, {days} days"
    )
    for new in folder.nodes():
        print(
            f"  nodes/{new.name}  copy this folder to {new.name}'s machine, over a connection that"
            " others cannot read"
        )


@app.command()
def add(ctx: typer.Context, names: Annotated[list[str], typer.Argument(metavar="NAME...")]) -> None:
    """Make keys for further nodes."""
    folder = _open(ctx)
    for name in names:
        print(f"made: {folder.add_node(name).path}")


@app.command()
def renew(
    ctx: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="New names; default: those of the old certificate."),
    ] = None,
    days: Days = 365,
) -> None:
    """Make a new server certificate by the same authority."""
    folder = _open(ctx)
    folder.renew(host or [], days)
    print(f"renewed: {folder.server[0]}; it takes effect when the SuperLink starts again")


@app.command()
def superlink(
    ctx: typer.Context,
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address that nodes connect to.")
    ] = "0.0.0.0",
    health_port: HealthPort = 0,
    background: Background = False,
) -> None:
    """Run the SuperLink."""
    from curvfed.deployments.cluster import start

    start.superlink(ctx.obj, bind, health_port, background)


@app.command()
def supernode(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE")],
    node_config: Annotated[
        str,
        typer.Option(
            metavar="'KEY=VALUE …'",
            help="partition-id, data-path and other keys of this node: docs/deployment.md.",
        ),
    ],
    superlink: SuperLink = None,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=LAST_PORT,
            metavar="P",
            help="Port of its own API, on loopback; 0: any free one.",
        ),
    ] = 0,
    health_port: HealthPort = 0,
    cold: Annotated[
        bool,
        typer.Option("--cold", help="Start a new process for each message, as Flower does."),
    ] = False,
    background: Background = False,
) -> None:
    """Run a SuperNode. NODE is its folder, with its policy.toml, or its name if it runs beside the
    server."""
    from curvfed.deployments.cluster import start

    start.supernode(
        path=ctx.obj,
        name=node,
        node_config=node_config,
        address=superlink,
        port=port,
        health_port=health_port,
        is_cold=cold,
        background=background,
    )


@app.command()
def doctor(
    ctx: typer.Context,
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="On a node: its folder. Default: the server."),
    ] = None,
    node_config: Annotated[
        str,
        typer.Option(metavar="'KEY=VALUE …'", help="The node's configuration, as for supernode."),
    ] = "",
    superlink: SuperLink = None,
    results: Annotated[
        Path | None,
        typer.Option(
            parser=expanded, metavar="DIR", help="The server's runs; default: ~/curvfed/results."
        ),
    ] = None,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="First replace a damaged superlink.db by its backup."),
    ] = False,
) -> None:
    """Check the server or a node, and print faults and remedies; exit status 1 if there is a
    fault."""
    from curvfed.deployments.cluster import database
    from curvfed.deployments.cluster.checks.doctor import examine, node_checks, server_checks

    if node is not None:
        raise typer.Exit(examine(node_checks(ctx.obj, node, node_config, superlink)))
    folder = _open(ctx)
    if restore:
        database.restore(folder)
    raise typer.Exit(examine(server_checks(folder, results)))


@app.command()
def register(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE.pub]...")] = None,
) -> None:
    """Register nodes, by their names or public keys; default: all nodes of init."""
    from curvfed.deployments.cluster import registry

    registry.register(_open(ctx), nodes or [])


@app.command()
def revoke(
    ctx: typer.Context,
    nodes: Annotated[list[str], typer.Argument(metavar="NAME...")],
) -> None:
    """Exclude nodes permanently, by their names or by Flower's ids."""
    from curvfed.deployments.cluster import registry

    registry.revoke(_open(ctx), nodes)


@app.command()
def status(
    ctx: typer.Context,
    wait: Annotated[
        int, typer.Option(min=0, metavar="N", help="First wait until N nodes are connected.")
    ] = 0,
    within: Annotated[
        float,
        typer.Option(
            min=0, metavar="S", help="Seconds to wait for them; after that, exit status 1."
        ),
    ] = 120,
) -> None:
    """Show running programs, connected nodes, and the results of runs."""
    from curvfed.deployments.cluster import status

    folder = _open(ctx)
    if wait:
        status.wait(folder, wait, within)
    raise typer.Exit(status.show(folder))


@app.command()
def ledger(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STATE-PATH]", help="The node's state-path; default: as for supernode."
        ),
    ] = None,
) -> None:
    """Show each run, sum, revealed point and refusal in a node's ledger; for a server's folder, the
    actions of its users."""
    from curvfed.deployments.cluster import ledger

    ledger.show(folder)


@app.command()
def run(
    ctx: typer.Context,
    pairs: Pairs = None,
    retries: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="After a failure, resume from the checkpoint up to N times."
        ),
    ] = 0,
    debug: Debug = False,
) -> None:
    """Run a method and wait for its end."""
    from curvfed.deployments.cluster import submit

    folder = _open(ctx)
    raise typer.Exit(submit.run(folder, submit.configuration(all_pairs(pairs, debug)), retries))


@app.command()
def down(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...")] = None,
) -> None:
    """Stop all programs in the background, or some nodes by folder or name; on a node: name its
    folder."""
    from curvfed.deployments.cluster.daemons import stop_all
    from curvfed.deployments.cluster.folder import ServerFolder

    if nodes:
        folders = [ServerFolder(ctx.obj).find_node(name) for name in nodes]
        stopped = stop_all([node.running for node in folders if node.superlink])
    else:
        folder = _open(ctx)
        stopped = stop_all([*(node.running for node in folder.nodes()), folder.running])
    print("stopped: " + (", ".join(stopped) or "nothing was running in the background"))


@app.command()
def demo() -> None:
    """Demonstrate a cluster on this machine: start a SuperLink and three SuperNodes, make two runs,
    stop all programs."""
    from curvfed.deployments.cluster.demo import main

    raise typer.Exit(main())
