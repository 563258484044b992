"""Reading of a node's `policy.toml`, with the line of each error."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from curvfed.client_app.node.policy import Policy, toml
from curvfed.strategies.base.keys import toml_text
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins, shipped


def read_policy(path: Path | None) -> Policy:
    """Read the policy of a real node; without a file it has the defaults.

    Raises
    ------
    ConfigError
        If its file cannot be read, or has values that are not allowed; a line for each error.
    """
    if path is None:
        return Policy()
    try:
        text = toml_text(path.read_bytes())
        return Policy.model_validate(tomllib.loads(text))
    except OSError as error:
        raise ConfigError(
            f"policy: {path} cannot be read ({error.strerror})", key="unreadable-policy"
        ) from None
    except ValidationError as error:
        problems = error.errors()
        lines = dict.fromkeys(_line(text, problem) for problem in problems)
        words = "\n".join(f"policy: {path}, {line}" for line in lines)
        refusal = ConfigError(words + plugins.absent_hint(*shipped.KEYS), key="policy-value")
        of_data = [problem["loc"] for problem in problems if problem["loc"][0] == "data"]
        refusal.names = tuple(toml(_value(text, location)[1]) for location in of_data)
        raise refusal from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigError(
            f"policy: {path} cannot be read ({error})", key="unreadable-policy"
        ) from None


def _line(text: str, problem: ErrorDetails) -> str:
    """The place of an error in a policy, with its reason, or the value and the allowed values."""
    section, key = (*map(str, problem["loc"]), "")[:2]
    place = _place(text, section, key)
    if reason := problem.get("ctx", {}).get("error"):
        return f"{place}: [{section}] {key}: {reason}"
    table: Any = Policy
    if section in Policy.model_fields:
        table = Policy.model_fields[section].annotation
        if not key:
            value = _value(text, problem["loc"])[1]
            return f"{place}: {section} = {toml(value)}; allowed is a table [{section}]"
    field = table.model_fields.get(key.replace("-", "_"))
    if field is not None:
        names, value = _value(text, problem["loc"])
        said = ", ".join((f"[{section}] {key}", *(f'"{name}"' for name in names[2:])))
        return f"{place}: {said} = {toml(value)}; allowed is {field.description}"
    keys = ", ".join(name.replace("_", "-") for name in table.model_fields)
    return f'{place}: there is no "{key or section}"; allowed are {keys}'


def _value(text: str, location: tuple[int | str, ...]) -> tuple[list[str], Any]:
    """The value at a place of a policy, at most that of one key of a run, and the names of its
    tables and keys."""
    names: list[str] = []
    value: Any = tomllib.loads(text)
    for name in map(str, location[:3]):
        if not isinstance(value, Mapping) or name not in value:
            break
        names.append(name)
        value = value[name]
    return names, value


def _place(text: str, section: str, key: str) -> str:
    """The line of a key in a policy, or of its table."""
    heading = ""
    places: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("=")[0].strip('[]" ')
        if line.startswith("["):
            heading = name
        places.setdefault((heading, name), number)
    table = f"{section}.{key}"
    for candidate in ((section, key), (table, table), (section, section), ("", section)):
        if candidate in places:
            return f"line {places[candidate]}"
    return "in a table"
