"""The SuperLink's database, `superlink.db`, with a check, a backup and the restore.

It holds the registered nodes and the outcome of each run. The backup next to it is made at each
start, registration and revocation.
"""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

from curvfed.deployments.processes import LOOPBACK, is_open
from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.folder import ServerFolder, cluster_command
from curvfed.tasks.stored_files import replacing


def check_database(folder: ServerFolder) -> str:
    """Report that the database is sound, or that it does not exist yet.

    Raises
    ------
    ClusterError
        If it is damaged.
    """
    path = folder.database
    backup = folder.database_backup
    if not backup.exists() and not (path.exists() and path.stat().st_size):
        return "none yet; the SuperLink's first start makes it"
    if reason := _damage(path):
        raise ClusterError(f"{path} is damaged ({reason})", key="damaged-database")
    return f"{path}: sound"


def database_remedy(folder: ServerFolder) -> str:
    """The remedy for a damaged database."""
    if folder.database_backup.exists():
        restore = cluster_command("doctor --restore", folder.path)
        return f"`{restore}` puts its backup there, {folder.database_backup}"
    return (
        "there is no backup: move it away, start the SuperLink, and register every node anew."
        " Results and checkpoints are not in it"
    )


def back_up_database(folder: ServerFolder) -> None:
    """Copy a sound database, which may be in use. Only a complete copy replaces the older
    backup."""
    if not _damage(folder.database):
        source = contextlib.closing(sqlite3.connect(folder.database))
        with replacing(folder.database_backup) as new, source as connection:
            connection.execute("VACUUM INTO ?", (str(new),))


def restore_database(folder: ServerFolder) -> None:
    """Put the backup in the place of a damaged database, and rename the damaged one.

    Raises
    ------
    ClusterError
        If the SuperLink runs, the database is sound, or a sound backup is missing.
    """
    if is_open(LOOPBACK, folder.api_port):
        raise ClusterError(
            "the SuperLink runs, and uses its database; stop it first",
            key="running",
        )
    damaged = folder.database.with_suffix(".damaged.db")
    if not _damage(folder.database) or _damage(folder.database_backup):
        raise ClusterError(
            f"{folder.database} is sound, or {folder.database_backup} is not; nothing was done",
            key="sound-database",
        )
    with replacing(folder.database) as new:
        # The copy comes first, so that a full disk or a kill changes nothing.
        shutil.copyfile(folder.database_backup, new)
        for end in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{folder.database}{end}", f"{damaged}{end}")
    print(f"restored: {folder.database}; the damaged one is {damaged}")


def _damage(path: Path) -> str:
    """The damage of a database; empty if it is sound."""
    try:
        # Opened for writing too: only then SQLite recovers the files left by a killed SuperLink.
        with contextlib.closing(
            sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)
        ) as connection:
            connection.execute("SELECT node_id FROM node").fetchall()
            ((state,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        return str(error)
    return "" if state == "ok" else str(state)
