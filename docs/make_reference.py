"""Write `docs/configuration.md` and the defaults in `pyproject.toml` anew, from the model of the configuration.

make reference
"""

import json
import re
from pathlib import Path

from curvfed.strategies.config.parse import allowed, fields
from curvfed.strategies.config.run_config import RunConfig, flatten

ROOT = Path(__file__).parents[1]
PAGE, PROJECT = ROOT / "docs" / "configuration.md", ROOT / "pyproject.toml"
SECTION = "tool.flwr.app.config"

HEAD = """\
# Configuration

Every key of the run configuration. This page is made by `make reference` from `strategies/config/run_config.py`.

The same keys work everywhere:

```sh
flwr run . --run-config 'method="fedavg" num-rounds=20 flatland.gate=false'      # values as TOML, strings in quotes
flwr run . --run-config presets/flatland.toml                                    # or a file, alone
curvfed simulate method=fedavg num-rounds=20 flatland.gate=false    # strings need no quotes here
curvfed simulate flatland num-rounds=20                             # a shipped preset, and what is to be otherwise
curvfed check method=fedavg num-rounds=20                           # shows what a run would use
```

A number whose default has a decimal point takes whole numbers too. The number of clients is the number of nodes in the
federation: `--federation-config 'num-supernodes=10'`, or `num-supernodes=10` for the commands of curvfed.
"""

TABLE = ["| key | default | allowed | meaning |", "| --- | --- | --- | --- |"]


def page() -> str:
    """The text of the page: one table for the keys of every run, one for each part with keys of its own."""
    defaults = flatten(RunConfig())
    sections: dict[str, list[str]] = {}
    for key, field in fields():
        default = defaults[key]
        shown = str(default).lower() if isinstance(default, bool) else repr(default).replace("'", '"')
        cells = (f"`{key}`", f"`{shown}`", allowed(field), field.description or "")
        sections.setdefault(key.rpartition(".")[0], []).append(_row(*cells))
    parts = [HEAD]
    for name, rows in sections.items():
        title = [f"## `{name}`", ""] if name else []
        parts.append("\n".join([*title, *TABLE, *rows]) + "\n")
    return "\n".join(parts)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def project() -> str:
    """`pyproject.toml` with the defaults as they are: Flower takes no key that is not there."""
    sections: dict[str, list[str]] = {}
    for key, value in flatten(RunConfig()).items():
        table, _, name = key.rpartition(".")
        sections.setdefault(table, []).append(f"{name} = {json.dumps(value)}\n")
    titled = (f"[{SECTION}{'.' * bool(table)}{table}]\n{''.join(lines)}\n" for table, lines in sections.items())
    text = PROJECT.read_text(encoding="utf-8")
    found = re.search(rf"^\[{re.escape(SECTION)}\]\n.*?(?=^\[(?!{re.escape(SECTION)}))", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return text[: found.start()] + "".join(titled) + text[found.end() :]


if __name__ == "__main__":
    for path, content in ((PAGE, page()), (PROJECT, project())):
        path.write_text(content, encoding="utf-8")
        print(path)
