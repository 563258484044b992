"""`curvfed cluster add`: keys for further nodes."""

import re
import shutil
from typing import Annotated

import tomli_w
import typer

from curvfed.deployments.cluster import certificates
from curvfed.deployments.cluster.errors import ClusterError, WrongUsageError
from curvfed.deployments.cluster.folder import NodeFolder, ServerFolder
from curvfed.deployments.cluster.options import open_folder
from curvfed.deployments.groups import Application

POLICY = """\
# What this node gives to a run, whatever the run requests: docs/security.md, "policy.toml".
# Every line is a comment: the default, or an example. Changes take effect with the next message.

[data]
# path = "/srv/cells.h5ad"        # the node's own data; or data-path in its --node-config
# Keys for reading a file of points. A run with other values of its points.* keys is refused:
# label-key = "label"
# embedding-key = "X_poincare"
# classes = ["a", "b"]            # without this line: all classes
# curvature = -1.0
# split-seed = 0                  # without this line: that of the run
# public = ["cora", "digits"]     # default, without own data: any named data set, no path

[runs]
# methods = ["hull", "fedavg"]    # without this line: all
# keys = { "local-epochs" = [1, 2], "hull.epsilon" = { min = 0.01 } }
# lost-state = "refuse"           # lost personal parameters: "refuse", "previous", "fresh"
# code = "installed"              # or "any", or digests of bundles whose own code may run here too
# starts = []                     # digests of allowed starts from a file (init-from), or "any"
# A run's "model" of another package, another "secure.clip", and for public data its "data-dir",
# must be listed in keys.

[leaves]
# secure-sum = false              # true: its parameters leave it only in secure sums
# share-statistics = false        # without this line: if the run requests them
# hull-max-share = 1.0            # the largest share of its points that hulls of all runs reveal
# hull-min-class-size = 5         # hull, moments or counts of a class with fewer examples stay here

[sums]
# contributors = 3                # minimum number of nodes in a secure sum
# weight-share = 0.5              # the largest share of a sum's examples that the node may have
# others-examples = 10            # minimum number of examples of all other nodes together
# regroups-per-quarter = 1        # how often its members may change: `curvfed cluster regroup`

[privacy]
# max-epsilon = 3.0               # budget of all runs together; without this line: none
# delta = 1e-05                   # the probability beside it
"""
"""The `policy.toml` of a new node; each line is a comment with the default."""

app = Application(add_completion=False)


@app.command()
def add(ctx: typer.Context, names: Annotated[list[str], typer.Argument(metavar="NAME...")]) -> None:
    """Make keys for further nodes."""
    folder = open_folder(ctx)
    for name in names:
        print(f"made: {add_node(folder, name, folder.superlink).path}")


def add_node(folder: ServerFolder, name: str, address: str) -> NodeFolder:
    """Make the folder of a node: key, policy, the authority's certificate, and the address of the
    SuperLink.

    Raises
    ------
    ClusterError
        If it exists.
    WrongUsageError
        If the name is no name of a node.
    """
    check_name(name)
    node = folder.node(name)
    if node.path.exists():
        raise ClusterError(
            f"{node.path} exists and is not overwritten; allowed is another name", key="exists"
        )
    new = NodeFolder(node.path.with_name(f".{name}.new"))
    shutil.rmtree(new.path, ignore_errors=True)  # a killed process may have left it
    new.path.mkdir(parents=True, mode=0o700)
    new.flower_home.mkdir(mode=0o700)  # the rest may be mounted read-only
    certificates.make_node_key(new.key, new.public_key)
    certificates.write_new(new.authority, folder.authority[0].read_bytes())
    certificates.write_new(new.policy, POLICY.encode())
    certificates.write_new(new.path / "node.toml", tomli_w.dumps({"superlink": address}).encode())
    new.path.rename(node.path)
    return node


def check_name(name: str) -> None:
    """Refuse a text that is no name of a node.

    Raises
    ------
    WrongUsageError
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise WrongUsageError(
            f"{name!r} is no name of a node; allowed are letters, digits, '.', '_' and '-'",
            key="node-name",
        )
