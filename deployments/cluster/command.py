"""The command line of `curvfed cluster`. What it does is in `actions`, which a command imports when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from curvfed.deployments.cluster.ports import API_PORT, FLEET_PORT, LAST_PORT
from curvfed.deployments.parameters import Debug, Pairs, all_pairs, expanded

DEFAULT_FOLDER = Path.home() / "curvfed" / "cluster"

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="""
A cluster of real machines: one SuperLink, a SuperNode beside each site's
data, TLS and a key per node.

[bold]On the server[/bold]
  curvfed cluster init --host fl.example.org --node north --node south
  curvfed cluster superlink --background
  curvfed cluster register
[bold]On a node, where its folder was brought[/bold]
  curvfed cluster supernode north --node-config 'partition-id=0 data-path="graph.pt"'
[bold]On the server[/bold]
  curvfed cluster run method=flatland num-rounds=20
  curvfed cluster status
  curvfed cluster down

Every command of Flower's is printed before it runs. Exit status: 0 done, 1
failed, 2 wrong usage, 128 + n stopped by signal n (130 for Ctrl-C). Wrong
usage is what can never be right, such as a port or a value of --node-config;
what is not there yet, or not on this machine, is 1.
""",
)

Days = Annotated[int, typer.Option(metavar="N", help="Until the server's certificate ends.")]
Background = Annotated[bool, typer.Option("--background", help="Return once it is up; `down` stops it.")]


@app.callback()
def cluster(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Option(parser=expanded, metavar="DIR", help="The server's folder.")] = DEFAULT_FOLDER,
) -> None:
    """Where the cluster is."""
    ctx.obj = folder.absolute()


@app.command()
def init(
    ctx: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name or address by which nodes reach the server; repeatable."),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A node to make a key for; repeatable.")
    ] = None,
    fleet_port: Annotated[int, typer.Option(metavar="P", help="For nodes.")] = FLEET_PORT,
    api_port: Annotated[int, typer.Option(metavar="P", help="For runs and registrations, on loopback.")] = API_PORT,
    days: Days = 365,
) -> None:
    """Make certificates, keys and settings; nothing is overwritten."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.init(ctx.obj, host or [], node or [], fleet_port, api_port, days))


@app.command()
def add(ctx: typer.Context, names: Annotated[list[str], typer.Argument(metavar="NAME...")]) -> None:
    """Make the keys of further nodes."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.add(ctx.obj, names))


@app.command()
def renew(
    ctx: typer.Context,
    host: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Other names than those of before.")] = None,
    days: Days = 365,
) -> None:
    """Make a new server certificate by the same authority."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.renew(ctx.obj, host or [], days))


@app.command()
def superlink(
    ctx: typer.Context,
    bind: Annotated[str, typer.Option(metavar="ADDRESS", help="Where nodes may come in.")] = "0.0.0.0",
    background: Background = False,
) -> None:
    """Run the SuperLink."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.superlink(ctx.obj, bind, background))


@app.command()
def supernode(
    ctx: typer.Context,
    node: Annotated[str, typer.Argument(metavar="NODE")],
    node_config: Annotated[
        str,
        typer.Option(
            metavar="'KEY=VALUE …'", help="partition-id and data-path of this node, and more: docs/deployment.md."
        ),
    ],
    superlink: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the SuperLink is, if not as init was told.")
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=LAST_PORT, metavar="P", help="Of its own API on loopback; 0 is any free one.")
    ] = 0,
    cold: Annotated[
        bool, typer.Option("--cold", help="Import everything anew for every message, as Flower does.")
    ] = False,
    background: Background = False,
) -> None:
    """Run a SuperNode. NODE is its folder, or its name where it runs beside the server."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.supernode(ctx.obj, node, node_config, superlink, port, cold, background))


@app.command()
def register(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NAME|FILE.pub]...")] = None,
) -> None:
    """Let nodes take part: those of these names or public keys, or all that init has made."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.register(ctx.obj, nodes or []))


@app.command()
def revoke(
    ctx: typer.Context,
    nodes: Annotated[list[str], typer.Argument(metavar="NAME...")],
) -> None:
    """Let nodes take part no more, by their names or by the ids that Flower gave them."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.revoke(ctx.obj, nodes))


@app.command()
def status(
    ctx: typer.Context,
    wait: Annotated[int, typer.Option(min=0, metavar="N", help="First wait until N nodes are connected.")] = 0,
) -> None:
    """Show what runs, who is connected, and how runs went."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.status(ctx.obj, wait))


@app.command()
def run(
    ctx: typer.Context,
    pairs: Pairs = None,
    retries: Annotated[
        int, typer.Option(min=0, metavar="N", help="After a failure go on from the checkpoint, up to N times.")
    ] = 0,
    debug: Debug = False,
) -> None:
    """Run a method and wait for its end."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.run(ctx.obj, all_pairs(pairs, debug), retries))


@app.command()
def down(
    ctx: typer.Context,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE]...")] = None,
) -> None:
    """Stop what runs in the background: all of it, or nodes by folder or name; on a node: its folder."""
    from curvfed.deployments.cluster import actions

    raise typer.Exit(actions.down(ctx.obj, nodes or []))


@app.command()
def demo() -> None:
    """Show all of it on this machine: a SuperLink, three SuperNodes, two runs, and an end to it."""
    from curvfed.deployments.cluster.demo import main

    raise typer.Exit(main())
