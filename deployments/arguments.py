"""The one door for settings: words such as `key=value`, presets, files and Python's keywords become
the configuration of a run.

`read_request` reads the words of a command, `read_keywords` those of Python; both end in
`check_request`, which parses the configuration and refuses settings that cannot run on any machine.
The imports of a method and of torch, which take seconds, wait until the words are read.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curvfed.deployments.package_files import PRESETS, name_hint, package_files
from curvfed.strategies.base.keys import (
    EXTRA,
    dotted,
    kebab,
    python_value,
    read_value,
    toml_text,
)
from curvfed.strategies.base.run_keys import folder_of
from curvfed.strategies.config.checks import check_method_name
from curvfed.strategies.config.parse import check_format, parse
from curvfed.strategies.config.run_config import (
    RunConfig,
    defaults,
    flatten,
    key_hint,
    resolve_defaults,
)
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import listed
from curvfed.tasks import plugins, shipped
from curvfed.tasks.errors import DataError, KeyedError
from curvfed.tasks.graphs.data import is_path
from curvfed.tasks.kinds import tasks_as
from curvfed.tasks.public_data import find_path
from curvfed.tasks.registry import is_file_name, is_named, num_sets, path_text, tasks_of

Value = bool | int | float | str


NUM_SUPERNODES = 10
"""Clients of a simulation by default."""

NOTE = "note: "
"""The beginning of lines about data that each command prints."""


_KEY = re.compile(r"\s([\w.-]+)=")
"""The key of a further pair in a word."""


class UsageError(KeyedError, ValueError):
    """A wrong argument of a command."""

    area = "usage"


@dataclass(frozen=True)
class Request:
    """A checked request for a run.

    Attributes
    ----------
    settings : dict
        The keys that the user set.
    num_supernodes : int
    config : RunConfig
        The whole configuration, parsed.
    sets_number : bool
        Whether the user set the number of clients.
    """

    settings: dict[str, Value]
    num_supernodes: int
    config: RunConfig
    sets_number: bool = False

    @property
    def task(self) -> str:
        """The task of the run: the first that data set and method have in common."""
        allowed = self.config.row.tasks
        return tasks_as(tasks_of(self.config.dataset, self.config.data_path), allowed)[0]

    @property
    def resolved(self) -> RunConfig:
        """The configuration with the defaults of the task and the method resolved."""
        return resolve_defaults(self.config, self.task)


def read_request(words: Sequence[str]) -> Request:
    """Read the words of a command, and refuse values that are wrong on every machine.

    Raises
    ------
    UsageError, ConfigError
    """
    settings: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for origin, values in _read_words(words, defaults() | {"num-supernodes": NUM_SUPERNODES}):
        settings |= values
        origins |= dict.fromkeys(values, origin)
    number = pop_supernodes(settings, NUM_SUPERNODES)
    check_place(settings)
    return check_request(settings, number, origins)


def read_keywords(keywords: Mapping[str, Any]) -> dict[str, Value]:
    """The settings that a Python program gives: names with _ for -, tables as dicts, and paths;
    None is not given."""
    settings: dict[str, Value] = {}
    for name, value in dotted(keywords).items():
        key = kebab(name)
        if isinstance(value, os.PathLike):
            settings[key] = path_text(value)
        elif value is not None:
            settings[key] = python_value(value, defaults().get(key))
    return settings


def read_pairs(words: Sequence[str], keys: Mapping[str, Value]) -> dict[str, Value]:
    """Read words: `key=value` with strings without quotes, names of presets, or paths of `.toml`
    files.

    Later words override earlier ones.

    Parameters
    ----------
    words : sequence of str
    keys : mapping of key to value
        All keys, with their defaults; if a default is a string, `7` is read as text.

    Raises
    ------
    UsageError
        For any other word, an unreadable file, or an unknown key; names the nearest key.
    """
    settings: dict[str, Value] = {}
    for _, values in _read_words(words, keys):
        settings |= values
    return settings


def _read_words(
    words: Sequence[str], keys: Mapping[str, Value]
) -> Iterator[tuple[str, dict[str, Value]]]:
    """The settings of each word, after the preset or file that they come from."""
    pairs = [word.partition("=") for word in words]
    _check_spaces(words)
    _check_single(words, keys)
    check_keys({key: read_value(text, "") for key, equals, text in pairs if equals}, keys)
    for word, (key, equals, text) in zip(words, pairs, strict=True):
        if equals:
            yield "", {key: read_value(text, keys[key])}
        elif word.endswith(".toml"):
            yield word, _clients_of_run(Path(word), keys) | _read_file(Path(word), keys)
        elif word in package_files(PRESETS):
            yield f"preset {word}", _read_file(package_files(PRESETS)[word], keys)
        else:
            raise UsageError(
                f"{word!r} is not of the form key=value, nor a preset, nor the path of a .toml"
                f" file; {_pair_of(word, keys)}{name_hint(PRESETS, word)}",
                key="argument",
            )


def _clients_of_run(path: Path, keys: Mapping[str, Value]) -> dict[str, Value]:
    """The number of clients of the run that wrote this file, which is no key of the run config."""
    if "num-supernodes" not in keys or path.name != "config.toml":
        return {}
    from curvfed.server_app.directory.run_files import RunFiles

    number = RunFiles(path.parent).num_clients
    return {"num-supernodes": number} if number else {}


def _check_single(words: Sequence[str], keys: Mapping[str, Value]) -> None:
    """Refuse several pairs in one word, as `flwr run --run-config` takes them.

    Raises
    ------
    UsageError
    """
    for word in words:
        for place in _KEY.finditer(word):
            before = word[: place.start()]
            # Within quotes it is a part of the value.
            if place[1] in keys and before.count('"') % 2 == 0 and before.count("'") % 2 == 0:
                raise UsageError(
                    f"{word!r} is several pairs in one word; allowed is a word for each, without"
                    f" quotes around all: {word}",
                    key="argument",
                )


def _check_spaces(words: Sequence[str]) -> None:
    """Refuse a space beside the `=` of a pair, which may stand in one word or in several.

    Raises
    ------
    UsageError
    """
    for word in words:
        key, equals, text = word.partition("=")
        if equals and (not key or key != key.rstrip() or text != text.lstrip()):
            pair = "=".join(part.strip().strip("'\"") for part in (key, text))
            hint = f", here {pair}" if key.strip() and text.strip() else ""
            raise UsageError(
                f'{word!r} has a space beside its "="; allowed is key=value without one{hint}',
                key="argument",
            )


def check_place(settings: dict[str, Value]) -> None:
    """Refuse a missing path of a data set, before the imports of a method and torch, which take
    seconds.

    Raises
    ------
    ConfigError
    """
    keys = defaults() | settings
    dataset = str(keys["dataset"])
    if is_file_name(dataset) or (is_path(dataset) and not Path(dataset).suffix):
        folder = folder_of(str(keys["data-dir"]), "data")
        try:
            find_path(dataset, folder)
        except (DataError, RuntimeError) as error:  # or an unknown user
            raise ConfigError(f'dataset = "{dataset}": {error}', key="data") from None


def check_request(
    settings: dict[str, Value], number: int, origins: Mapping[str, str] | None = None
) -> Request:
    """Parse the settings of a run with its server in this process, and refuse those that cannot run
    on any machine.

    Parameters
    ----------
    settings : dict
    number : int
        The number of clients.
    origins : mapping, optional
        The preset or file of each key, for errors; "" for a word of the command line.

    Raises
    ------
    UsageError, ConfigError
    """
    origins = origins or {}
    try:
        config = parse(settings)
    except ConfigError as error:
        places = {key: origins[key] for key in error.settings if origins.get(key)}
        notes = "".join(f"\n{key} is set in {place}" for key, place in places.items())
        raise ConfigError(f"{error}{notes}", key=error.kind) from None
    if settings.pop(EXTRA, ""):  # its keys count like any others
        default = defaults()
        settings |= {key: value for key, value in flatten(config).items() if value != default[key]}
    request = Request(settings, number, config, "num-supernodes" in origins)
    if config.model is not None and plugins.is_model(config.model):
        try:
            plugins.factory_of(config.model)
        except DataError as error:
            raise ConfigError(str(error), key="model") from None
    # These imports take seconds, and a wrong key is reported at once.
    from curvfed.client_app.resources import check_memory
    from curvfed.server_app.callbacks.choice import callback_classes
    from curvfed.server_app.sinks import sinks_class

    sinks_class().check_installed(config.sinks)
    callback_classes(config)
    if config.min_replies > number:
        raise UsageError(
            f"min-replies is {config.min_replies}; allowed for num-supernodes = {number} is up to"
            f" {number}",
            key="min-replies",
        )
    _check_number_of_resumed(config, number)
    sets = num_sets(config.dataset)  # client p has a part of data set p modulo their number
    if number % sets:
        raise UsageError(
            f"num-supernodes is {number}; allowed for {sets} data sets is a multiple of {sets}",
            key="num-supernodes",
        )
    check_memory(config, number)
    if request.resolved.is_masked:
        from curvfed.server_app.secure.groups import check_secure_sums

        check_secure_sums(request.resolved, number)
    return request


def _pair_of(word: str, defaults: Mapping[str, Value]) -> str:
    """A hint at the pair for a word without `=`; "" if none fits."""
    path = Path(word)
    if word in defaults:
        pair = f"{word}=VALUE, without spaces"
    elif word.lower() in listed():
        pair = f"method={word.lower()}"
    elif is_named(word) or path.exists() or is_file_name(word):
        pair = f"dataset={word}"
    else:
        return ""
    return f"did you mean {pair}? "


def _check_number_of_resumed(config: RunConfig, number: int) -> None:
    """Refuse to resume a simulation with another number of clients.

    Raises
    ------
    UsageError
    """
    if not config.resume:
        return
    from curvfed.server_app.directory.run_files import RunFiles

    began = RunFiles(config.results_path / config.run_name).num_clients
    if began and began != number:
        raise UsageError(
            f"resume = true: num-supernodes is {number}; the run began with {began}: allowed is"
            f" num-supernodes={began}",
            key="num-supernodes",
        )


def pop_supernodes(config: dict[str, Value], default: int) -> int:
    """Remove `num-supernodes`, the number of clients, from the settings: it is not a key of the run
    config.

    Raises
    ------
    UsageError
        If it is not a whole number of at least 1.
    """
    return pop_count(config, "num-supernodes", default)


def pop_count(config: dict[str, Value], key: str, default: Value, minimum: int = 1) -> int:
    """Remove a number that is not a key of the run config, and return it.

    Raises
    ------
    UsageError
        If it is not a whole number of at least `minimum`.
    """
    number = python_value(config.pop(key, default), default)
    if type(number) is not int or number < minimum:
        raise UsageError(
            f"{key} is {number!r}, but must be a whole number of at least {minimum}", key="count"
        )
    return number


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a user's TOML file.

    Raises
    ------
    UsageError
        If it is missing, cannot be read, or is not TOML.
    """
    try:
        if path.expanduser().is_fifo():  # reading would block
            raise OSError(None, "it is a pipe")
        text = toml_text(path.expanduser().read_bytes())
        check_format(text)
        return tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", key="unreadable") from None
    except (RuntimeError, ConfigError) as error:  # an unknown user, or a format of another version
        raise UsageError(f"{path} cannot be read: {error}", key="unreadable") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path} is not TOML: {error}", key="unreadable") from None


def _read_file(path: Path, defaults: Mapping[str, Value]) -> dict[str, Value]:
    settings = dotted(read_toml(path))
    config: dict[str, Value] = {
        key: python_value(value, defaults.get(key)) for key, value in settings.items()
    }
    check_keys(config, defaults, f"{path}: ")
    for key, value in config.items():
        if not isinstance(value, Value):
            raise UsageError(
                f"{path}: {key} is {value!r}; allowed is a number, a string, true or false",
                key="value",
            )
    return config


def check_keys(settings: Mapping[str, Any], defaults: Mapping[str, Value], where: str = "") -> None:
    """Refuse unknown keys in one error, with the nearest known key of each. An unknown method is
    refused in their place, because its own keys are unknown, too.

    Raises
    ------
    UsageError, ConfigError
    """
    unknown = [
        f'{where}"{key}" is not a key of the run config{key_hint(key, defaults)}'
        for key in settings
        if key not in defaults
    ]
    if unknown:
        method = settings.get("method")
        if isinstance(method, str):
            check_method_name(method)
        raise UsageError("\n".join(unknown) + plugins.absent_hint(*shipped.KEYS), key="unknown-key")
