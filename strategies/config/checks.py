"""Checks that the keys of a configuration fit together."""

import errno
import json
from pathlib import Path

from curvfed.strategies.base.keys import kebab
from curvfed.strategies.base.run_keys import READ_WITH
from curvfed.strategies.base.shared_tables import FLOWER
from curvfed.strategies.config.run_config import RunConfig, aggregation_row
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS, foreign_methods, readers
from curvfed.tasks import plugins, shipped
from curvfed.tasks.amounts import with_article
from curvfed.tasks.errors import did_you_mean
from curvfed.tasks.kinds import KINDS

_SHOWN = 80
"""Maximum number of characters of an impossible path in an error."""


def conflict(config: RunConfig, keys: str, allowed: str) -> ConfigError:
    """The error for keys that do not fit together.

    Parameters
    ----------
    config : RunConfig
    keys : str
        The keys, separated by spaces; the text names each with its value.
    allowed : str
    """
    names = keys.split()
    values = [f"{name} = {json.dumps(config[name], ensure_ascii=False)}" for name in names]
    kind = "-with-".join(names).replace(".", "-")
    error = ConfigError(f"{' and '.join(values)}: allowed is {allowed}", key=kind)
    error.settings = tuple(names)
    return error


def check_method_name(method: str) -> None:
    """Refuse a method that does not exist; its file is not imported.

    Raises
    ------
    ConfigError
    """
    if method in METHODS:
        return
    if reason := foreign_methods()[1].get(method):
        raise ConfigError(f'method = "{method}" is left out: {reason}', key="method-left-out")
    if "," in method:
        compare = plugins.lister("compare")
        raise ConfigError(
            f'method = "{method}" is several; allowed is one method a run'
            + (f"; {compare} takes methods={method}" if compare else ""),
            key="several-methods",
        )
    hint = did_you_mean(method, METHODS, plugins.lister("methods"))
    where = _file_here(method) or f"the package of a method {plugins.EVERYWHERE}"
    raise ConfigError(
        f'method = "{method}" is not known{hint}; {where}'
        f"{plugins.absent_hint(shipped.METHOD_FOLDERS)}",
        key="no-such-method",
    )


def _file_here(method: str) -> str:
    """The file of a method in a clone that is not the curvfed which runs, in words; "" if there is
    none."""
    name = method.replace("-", "_")
    file = Path("strategies", "methods", f"{name[:_SHOWN]}.py")
    installed = Path(__file__).resolve().parents[2]
    if not name.isidentifier() or not file.is_file() or installed in file.resolve().parents:
        return ""
    return f"{file} lies here, but curvfed is installed in {installed}: pip install -e ."


def check_method(config: RunConfig) -> None:
    """Check the keys that only some methods use."""
    method = config.row
    for keys, allowed in config.own_keys.conflicts(config):
        raise conflict(config, keys, allowed)
    if config.aggregation is not None and aggregation_row(method.aggregation) is None:
        raise conflict(config, "aggregation method", "aggregation = auto, the method's own")
    _check_flower(config)
    if config.fine_tune == "closed-form":
        from curvfed.strategies.config.build_method import learner_class  # imports torch

        if not learner_class(method).closed_form:
            raise conflict(config, "fine-tune method", "closed-form with spherefed")


def _check_flower(config: RunConfig) -> None:
    """Refuse keys of the table `flower` that the chosen strategy does not use."""
    arguments = FLOWER.get(config.aggregation, ())
    for name, value in config.flower:
        if value is not None and name not in arguments:
            keys = ", ".join(f"flower.{kebab(argument)}" for argument in arguments)
            raise conflict(
                config, f"flower.{kebab(name)} aggregation", keys or "no key of the table flower"
            )


def unread_keys(config: RunConfig) -> str:
    """The changed keys that the run does not read, with the methods that read them; "" for none."""
    texts = []
    is_of_aggregations = True
    for key, value in config.unread.items():
        names = ", ".join(readers(key)) or "methods with rounds"
        is_of_aggregations = is_of_aggregations and names.startswith("aggregation = ")
        texts.append(f"{key} = {json.dumps(value, ensure_ascii=False)} is a key of {names}")
    if not texts:
        return ""
    part = "aggregation" if is_of_aggregations else "method"
    keys = "it" if len(texts) == 1 else "them"
    return (
        f"{'; '.join(texts)}: {part} = {config[part]} does not read {keys} and trains as without"
        f" {keys}; remove {keys}, or choose {with_article(part)} that reads {keys}"
    )


def idle_keys(run: RunConfig, task: str) -> dict[str, str]:
    """The keys of every run that have no effect on this run, with the reasons.

    Parameters
    ----------
    run : RunConfig
        With resolved defaults.
    task : str
        The kind of the data.
    """
    reasons = dict.fromkeys(KINDS[task].unread, f"a run on {task} does not read it")
    for key, (other, values) in READ_WITH.items():
        if run[other] not in values:
            reasons[key] = f"a run reads it with {other} = {' or '.join(values)}"
    return reasons


def check_paths(config: RunConfig) -> None:
    """Check the keys that are paths; `dataset` may be one."""
    for key in ("data-dir", "results-dir", "test-data", "init-from"):
        check_path(key, str(config[key] or ""))


def check_path(key: str, path: str) -> None:
    """Refuse a path that cannot exist, or that the files of a run cannot hold.

    Raises
    ------
    ConfigError
    """
    try:
        path.encode()
        Path(path).expanduser().stat()
    # no such user; an impossible name; not there
    except (RuntimeError, ValueError, OSError) as error:
        if getattr(error, "errno", None) not in (errno.ELOOP, errno.ENAMETOOLONG, None):
            return
        reason = getattr(error, "strerror", None) or str(error).rstrip(".").lower()
        if isinstance(error, UnicodeEncodeError):
            reason = "its bytes are not UTF-8; rename it"
        shown = path if len(path) <= _SHOWN else f"{path[:_SHOWN]}…"
        what = "a name or a path" if key == "dataset" else "a path"
        raise ConfigError(
            f"{key} = {shown!r}: allowed is {what} that can exist ({reason})",
            key="impossible-path",
        ) from None


def check_groups(config: RunConfig) -> None:
    """Refuse keys that do not fit the groups of real nodes.

    Raises
    ------
    ConfigError
    """
    for key, value in {"secure.group-size": "auto", "hull.groups": 1}.items():
        if config[key] != value:
            allowed = f"{key} = {value}, for real nodes are summed in the groups of their roster"
            raise conflict(config, key, allowed)


def check_together(config: RunConfig) -> None:
    """Check all other conditions on several keys."""
    if config.secure.group_size is not None and not config.is_masked:
        raise conflict(
            config, "secure.group-size secure-sum", "secure-sum = true, which masks updates"
        )
    # The value is not repeated, since others read the files and messages that errors are in.
    if "@" in config.mlflow.tracking_uri:
        raise ConfigError(
            "mlflow.tracking-uri has an @: allowed is an address without user and password, which"
            " MLflow takes from MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD where the"
            " server runs",
            key="password-in-address",
        )
    if config.wire_precision != "float32" and config.is_masked:
        raise conflict(
            config,
            "wire-precision secure-sum method",
            "float32 with secure sums, which need 61 bits: with 31 bits, weights and number of"
            " clients leave too little precision",
        )
    for key, allowed in config.row.refused.items():
        if config[key]:
            raise conflict(config, f"{key} method", allowed)
    if config.resume and not config.run_name:
        raise conflict(config, "resume run-name", "the run-name of the run to resume")
