"""The name of a run, and whether a run may begin under it or resume the run of that name."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.run_lock import has_begun
from curvfed.strategies.base.run_keys import OF_THE_SERVER, RunKeys
from curvfed.strategies.config.parse import parse, read_settings
from curvfed.strategies.config.run_config import RunConfig, flatten, plain
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.store import Store
from curvfed.tasks import plugins
from curvfed.tasks.registry import OWN, is_own_data
from curvfed.tasks.stored_files import write_fault

FREE_TO_CHANGE = OF_THE_SERVER | {"num-rounds", "data-dir", "device", "threads", "early-stopping"}
"""Keys that may change when a run is resumed: the results so far do not depend on them. So may the
method's own `resumable` keys."""

PATHS = ("dataset", "data-dir", "test-data", "init-from")
"""Keys with values that may be paths of what a run reads."""


def named(config: RunConfig) -> RunConfig:
    """The configuration with a run-name; a run that is resumed must have one."""
    if config.run_name or config.resume:
        return config
    return config.model_copy(update={"run_name": default_name(config)})


def default_name(config: RunKeys) -> str:
    """method-dataset-seed-time, the time in UTC."""
    dataset = Path(config.dataset).stem.lower()
    safe = "".join(
        letter if (letter.isascii() and letter.isalnum()) or letter in "._-" else "-"
        for letter in dataset
    )
    method = config.method.replace("+", "plus")
    return f"{method}-{safe[:64]}-{config.seed}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"


def check_name(config: RunConfig) -> None:
    """Refuse the run's name for the same reasons as `RunDirectory.open`; nothing stays created.

    Raises
    ------
    ConfigError
        If a run of that name exists although `resume` is false, or does not exist or differs
        although it is true; or if its directory cannot be made or written.
    """
    path = config.results_path / config.run_name
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a folder that this user may not enter, or too long a name
        raise unwritable(config, path, error.strerror) from None
    if (config.resume or config.run_name) and not is_new(config, path):
        check_same_run(config, path)
        check_rounds(config, checkpoints_of(path))
    place = next(place for place in (path, *path.absolute().parents) if place.exists())
    if fault := write_fault(place):
        raise unwritable(config, path, fault)


def unwritable(config: RunConfig, path: Path, reason: str | None) -> ConfigError:
    """The error for a run directory that cannot be made or written."""
    return ConfigError(
        f'results-dir = "{config.results_dir}": {path} cannot be made ({reason}); needed is a'
        " folder that can be written, and room on its disk",
        key="unwritable",
    )


def is_new(config: RunConfig, path: Path) -> bool:
    """Whether a run begins in a folder, and does not resume there.

    Raises
    ------
    ConfigError
        If there is a run although `resume` is false.
    """
    begun = has_begun(path)
    if begun and not config.resume:
        raise ConfigError(
            f'run-name = "{path.name}": {path} exists; allowed is a new name, or resume = true to'
            " continue that run",
            key="run-exists",
        )
    return not begun and (path.exists() or not config.resume)


def check_same_run(config: RunConfig, path: Path) -> dict[str, Any]:
    """Refuse to resume a run with another configuration.

    Returns
    -------
    dict
        The keys that the resume changes, with their values before.

    Raises
    ------
    ConfigError
        If there is no run in the folder, its configuration cannot be read, or a key differs that
        may not change.
    """
    try:
        earlier = parse(read_settings(path / "config.toml", written_by_run=True))
    except FileNotFoundError:
        raise ConfigError(
            f"resume = true: there is no run in {path}; allowed is the run-name of an existing run",
            key="no-run",
        ) from None
    except (OSError, ValueError) as error:  # not TOML, or written by another version
        reason = error if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
        raise ConfigError(
            f"resume = true: {path / 'config.toml'} cannot be read ({reason}): it is damaged, or"
            " was written by another version of the app",
            key="unreadable-config",
        ) from None
    if earlier.run_name != path.name and (path / "checkpoint" / "clients").exists():
        raise ConfigError(
            f'run-name = "{path.name}": {path} is the renamed folder, or a copy, of the run'
            f' "{earlier.run_name}", and what its clients keep there belongs to that name;'
            " give it that name again to continue the run, a copy in another results-dir",
            key="renamed-run",
        )
    before = flatten(earlier)
    now = flatten(config)
    free = FREE_TO_CHANGE | config.resumable_keys
    changed = {}
    for key, value in now.items():
        began = before.get(key)
        fixed = key not in free or (
            key == "num-rounds" and earlier.fixed_by_num_rounds != config.fixed_by_num_rounds
        )
        # The run has named itself, and may have learned from its clients that they have data of
        # their own.
        named_by_run = key == "run-name" or (key == "dataset" and began == OWN)
        is_equal = located(key, began) == located(key, value)
        if named_by_run or is_equal:
            continue
        if fixed:
            raise ConfigError(
                f"resume = true: {key} = {_quoted(value)}, but the run began with {_quoted(began)};"
                f" allowed is {key}={plain(began)}",
                key="changed-key",
            )
        changed[key] = began
    check_model_code(path, config.model)
    return changed


def _quoted(value: Any) -> str:
    """A value as `config.toml` has it."""
    return json.dumps(value, ensure_ascii=False)


def checkpoints_of(path: Path) -> Store:
    """The server's checkpoints in a run directory."""
    return Store(path / "checkpoint" / "server")


def check_rounds(config: RunConfig, checkpoints: Store) -> None:
    """Refuse to resume a run with fewer rounds than it has done.

    Raises
    ------
    ConfigError
    """
    done = max(checkpoints.stamps(), default=0)
    if done > config.num_rounds:
        raise ConfigError(
            f"resume = true: num-rounds = {config.num_rounds}, but the run has done {done}; allowed"
            f" is {done} or more",
            key="too-few-rounds",
        )


def located(key: str, value: Any) -> Any:
    """The value of a key; a relative path of a file or folder that is there, as an absolute one."""
    if key not in PATHS or value in ("", "auto", "none") or str(value).startswith("~"):
        return value
    if key == "dataset" and not is_own_data(value):
        return value
    path = Path(value)
    return value if path.is_absolute() or not path.exists() else str(path.resolve())


def check_model_code(path: Path, model: str | None) -> None:
    """Refuse a run's model if its code has changed since the run began, by `check` of the group
    `curvfed.model-code`.

    Raises
    ------
    ConfigError
    DataError
        If the model cannot be imported.
    """
    stored = RunFiles(path).described
    if stored and "check" in plugins.additions(plugins.MODEL_CODE):
        plugins.addition(plugins.MODEL_CODE, "check")(stored, path, model)
