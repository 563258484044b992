"""The code that a node runs for a message: its own installed curvfed, or that of a bundle which its
policy names.

Flower's program `flwr-clientapp` imports the app that the server sends. `guard_program` replaces
the functions by which it does so, in this process. Code of the server's bundle is then imported
only if `[runs] code` of the node's policy allows it.
"""

import logging
import sys
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

PROGRAM = "flwr.supernode.runtime.run_clientapp"
"""The module of Flower's program."""

REPLACED = (
    "pull_task_input",
    "install_from_fab",
    "install_app_dependencies",
    "get_load_client_app_fn",
)
"""Its functions that fetch a message and the app for it."""

FIRST = "query.describe"
"""The type of a run's first message."""

NAME = "curvfed"

App = Callable[..., Any]
"""Answers a message, of a context."""

log = logging.getLogger(NAME)


class _Guard:
    """Functions in place of those of Flower's program, for its one message.

    Raises
    ------
    AttributeError
        If this Flower's program has other functions: then it runs no code at all.
    """

    def __init__(self) -> None:
        program = import_module(PROGRAM)
        self._own = {name: getattr(program, name) for name in REPLACED}
        self._node_config: dict[str, Any] = {}
        self._is_first = False
        self._app: App | None = None

    def pull_task_input(self, client: Any) -> Any:
        message, context, run, fab = self._own["pull_task_input"](client)
        self._node_config = dict(context.node_config)
        self._is_first = message.metadata.message_type == FIRST
        return message, context, run, fab

    def install_from_fab(self, bundle: bytes, **options: Any) -> Any:
        self._app = chosen_app(bundle, self._node_config, self._is_first)
        return self._flowers("install_from_fab", bundle, **options)

    def install_app_dependencies(self, *names: Any, **options: Any) -> Any:
        return self._flowers("install_app_dependencies", *names, **options)

    def get_load_client_app_fn(self, **options: Any) -> Any:
        app = self._app
        if app is None:
            return self._flowers("get_load_client_app_fn", **options)
        return lambda *identity: app

    def _flowers(self, name: str, *arguments: Any, **options: Any) -> Any:
        """The result of Flower's own function if any code may run; else None."""
        if self._app is None:
            return self._own[name](*arguments, **options)
        return None


def guard_program() -> None:
    """Make Flower's program, in this process, run only code that the node's policy allows.

    Raises
    ------
    AttributeError
        If it lacks the functions that must be replaced.
    """
    guard = _Guard()
    program = import_module(PROGRAM)
    for name in REPLACED:
        setattr(program, name, getattr(guard, name))


def chosen_app(bundle: bytes, node_config: Mapping[str, Any], is_first: bool = False) -> App | None:
    """The app that answers a message of a run.

    Parameters
    ----------
    bundle : bytes
        Flower's file (FAB) with the code of the run, as the server sent it.
    node_config : mapping
        Of the SuperNode.
    is_first : bool
        Whether the message is the run's first: then the log says if the bundle has other code than
        the installed one, which runs.

    Returns
    -------
    callable or None
        The installed app, that of an allowed bundle, or one that refuses; None if the policy allows
        any code.
    """
    from curvfed.client_app.app import app, refuse
    from curvfed.client_app.node import Node
    from curvfed.client_app.node.policy import ANY, Policy
    from curvfed.strategies.errors import ConfigError

    digest = f"sha256:{sha256(bundle).hexdigest()}"
    try:
        code = (Node.read(node_config).rules or Policy()).runs.code
        if code == ANY:
            _forget_installed()
            return None
        if digest in code:
            return _app_of(bundle, digest)
        _check_version(bundle, digest)
    except ConfigError as error:
        return partial(refuse, error=error)
    if is_first:
        _log_difference(bundle, digest)
    return app


def installed_code() -> str:
    """The installed curvfed: its version, and the digest of its code."""
    from curvfed.strategies.config.masked import code_digest

    return f"{NAME} {version(NAME)} (sha256:{code_digest().hex()})"


def _check_version(bundle: bytes, digest: str) -> None:
    """Refuse a bundle of another app or version than the installed one.

    Its files may differ: they do not run.

    Raises
    ------
    ConfigError
    """
    from flwr.common.config import get_fab_config

    from curvfed.strategies.errors import ConfigError

    try:
        project = get_fab_config(bundle)["project"]
        app = f"{project['name']} {project['version']}"
    except (ValueError, KeyError, zipfile.BadZipFile):
        app = "no readable app"
    if app != f"{NAME} {version(NAME)}":
        raise ConfigError(
            f"this node runs its own {installed_code()}, and the run brought {app} (bundle"
            f" {digest}); allowed is the same version on both sides, or [runs] code ="
            f" [\"{digest}\"] in the node's policy.toml, which lets the bundle's code run there",
            key="other-code",
        )


def _log_difference(bundle: bytes, digest: str) -> None:
    from curvfed.strategies.config.masked import ROOMS, code_digest, digest_of_code
    from curvfed.strategies.run_log import log_to_stdout
    from curvfed.tasks.plugins import ENTRIES

    code = {}
    with zipfile.ZipFile(BytesIO(bundle)) as files:
        for name in files.namelist():
            parts = PurePosixPath(name.removeprefix(f"{NAME}/")).parts
            if parts[:1] and parts[0] in ROOMS and name.endswith((".py", ENTRIES)):
                code[parts] = files.read(name)
    if digest_of_code(code) != code_digest():
        log_to_stdout()
        log.warning(
            "the run's bundle %s has other code for nodes than %s, which runs here",
            digest,
            installed_code(),
        )


def _app_of(bundle: bytes, digest: str) -> App:
    """The app of an allowed bundle.

    Flower names the folder of a bundle by eight digits of its digest, which another bundle can
    have; this one has a folder named by all of them.
    """
    from flwr.cli.install import install_from_fab
    from flwr.clientapp.client_app import LoadClientAppError
    from flwr.common.config import get_project_config
    from flwr.supercore.object_ref import load_app
    from flwr.supercore.utils import get_flwr_home

    place = get_flwr_home() / "allowed" / digest.removeprefix("sha256:")
    folder = install_from_fab(bundle, place, skip_prompt=True)
    reference = get_project_config(folder)["tool"]["flwr"]["app"]["components"]["clientapp"]
    _forget_installed()
    return load_app(reference, LoadClientAppError, folder)


def _forget_installed() -> None:
    """Forget the imported modules of this curvfed, before the bundle's are imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]
