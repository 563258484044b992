"""`curvfed cluster renew`: a new certificate of the server."""

import os
from typing import Annotated

import typer

from curvfed.deployments.cluster import certificates
from curvfed.deployments.cluster.options import SERVER_DAYS, Days, open_folder
from curvfed.deployments.groups import Application

app = Application(add_completion=False)


@app.command()
def renew(
    ctx: typer.Context,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="New names; default: those of the old certificate."),
    ] = None,
    days: Days = SERVER_DAYS,
) -> None:
    """Make a new server certificate by the same authority."""
    folder = open_folder(ctx)
    names = certificates.server_names(host) if host else certificates.names_of(folder.server[0])
    certificates.check_days(days, certificates.time_left(folder.authority[0]).days)
    certificate, key = (path.with_name(f"{path.name}.new") for path in folder.server)
    for path in (certificate, key):
        path.unlink(missing_ok=True)
    certificates.make_server(certificate, key, folder.authority, names, days)
    os.replace(certificate, folder.server[0])
    os.replace(key, folder.server[1])
    print(f"renewed: {folder.server[0]}; it takes effect when the SuperLink starts again")
