"""The model card of a run, in Markdown with the heading of Hugging Face's cards.

It repeats `summary.json` and the configuration in words, and holds nothing else about a client.
"""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curvfed.extensions.reports.intervals import mean_interval
from curvfed.server_app.run import Run
from curvfed.strategies.base.figure import METRIC, RUN
from curvfed.strategies.base.figures import PERSONAL_ACCURACY, find, names, words_of
from curvfed.strategies.config.build_method import curvature_key, server_class
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.amounts import amount
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.plugins import additions
from curvfed.tasks.registry import num_sets
from curvfed.tasks.stored_files import write_atomically

FLAT = "none: the model's space is flat"

SPACES = {
    "flat": FLAT,
    "split": FLAT,
    "lorentz": "−1/K of a hyperboloid; the parameter `k` sets K, and k = 0 is a curvature of −1",
    "disc": "that of the Poincaré disc of the points, in `config.toml` (`points.curvature`)",
    "hyperbolic": "that of its hyperbolic space, in `config.toml` (`{key}`) or learned",
}
"""The curvature, by the method's space."""

EXPORT = """
`curvfed export . --out model.pt2{option}` writes a program that needs torch alone.
"""

TEXT = """\
---
library_name: curvfed
tags: {tags}
model-index:
- name: {quoted_name}
  results:
  - task:
      type: {task}
    dataset:
      name: {quoted_dataset}
      type: {quoted_dataset}
    metrics:
{metrics}
---

# {name}

A model that curvfed has trained {origin}.

* **Method**: {method}: {description}
* **Data**: {dataset}, of {clients}
* **Rounds**: {rounds}, seed {seed}
* **Network**: {network}
* **Curvature**: {curvature}
* **Secure sums**: {is_masked}
* **Differential privacy**: {privacy}
* **Made with**: {versions}

## Figures

| figure | value | 95% interval |
| --- | --- | --- |
{figures}

The interval is that of the mean over the clients, by Student's t. Personal figures are
of the clients' own test examples, after local training.

## Intended use

{use}

## Limits

{limits}

## Use

In this folder:

```python
import curvfed

run = curvfed.load(".")
model = run.model({client})  # a torch module in evaluation mode
```
{export}
## License

None is stated. Who publishes the model chooses it, and adds `license:` to the heading.
"""


def write_card(run: Run, summary: Mapping[str, Any]) -> None:
    """Write `model-card.md` of a completed run, next to the model; without a model there is none.

    Parameters
    ----------
    run : Run
    summary : mapping
        The content of `summary.json`.
    """
    folder = run.directory.path
    if not (folder / "model.safetensors").exists():
        return
    first = min(run.federation.nodes, default=0)
    task = run.federation.facts.task
    origin = _origin(run, task)
    card = model_card(run.config, task, summary, run.directory.name, origin, first)
    write_atomically(folder / "model-card.md", card.encode(), private=True)


def _origin(run: Run, task: str) -> str:
    """Whose data a run trained on, in words: parts of one data set stand for those of owners."""
    if not run.federation.shares_public_data:
        return "on the data of several owners, which stayed with them"
    number = num_sets(run.config.dataset)
    data = "one data set" if number == 1 else f"{number} data sets"
    # Sets of graphs are shared out without a partition of the configuration.
    means = "" if KINDS[task].has_spaces else f" by {run.config.partition}"
    return f"on {data}, cut among {amount(len(run.federation.nodes), 'client')}{means}"


def model_card(
    config: RunConfig,
    task: str,
    summary: Mapping[str, Any],
    name: str,
    origin: str,
    first_client: int = 0,
) -> str:
    """The text of the card.

    Parameters
    ----------
    config : RunConfig
        With its defaults resolved.
    task : str
    summary : mapping
        The content of `summary.json`.
    name : str
        The run's name.
    origin : str
        Where the data were, in words.
    first_client : int
        The partition of the client in the example, where clients have models of their own.
    """
    row = config.row
    dataset = Path(str(summary["dataset"])).name  # of a path the last part alone
    space = row.space
    key = curvature_key(config, task)
    if space == "flat" and key:  # a network of the data or the user, whatever the method
        space = "hyperbolic"
    curvature = SPACES.get(space, space).format(key=key or row.curvature_key)
    kind = KINDS[task]
    has_export = kind.has_classes and "export" in additions("commands")
    if config.network.head == "prototypes":
        number = config.network.options["curvature"]
        curvature = f"{number:g}, of the space of the classes' prototypes"
        space = "hyperbolic" if number else "flat"
    has_own_models = row.has_network and bool(row.personal or not server_class(row).is_global)
    option = f" --client {first_client}" if has_own_models else ""
    values = _figures(summary)
    tags = ["federated-learning", config.method, space]
    versions = [f"{key} {value}" for key, value in summary["versions"].items()]
    limits = [f"* {limit}" for limit in _limits(config, summary)]
    quoted_name = _quoted(name)
    quoted_dataset = _quoted(dataset)
    return TEXT.format(
        tags=json.dumps(tags),
        quoted_name=quoted_name,
        quoted_dataset=quoted_dataset,
        metrics="\n".join(_metrics(values)),
        name=name,
        origin=origin,
        method=config.method,
        description=row.summary,
        dataset=dataset,
        clients=amount(summary["num_clients"], "client"),
        rounds=summary["rounds"],
        seed=summary["seed"],
        network=summary["settled"].get("model") or config.model or "none",
        curvature=curvature,
        task=kind.words.task,
        use=kind.words.use,
        is_masked="yes" if config.is_masked else "no",
        privacy=config.guard.promise or "none",
        versions=", ".join(versions),
        figures="\n".join(_rows(summary, values)),
        limits="\n".join(limits),
        client=f"client={first_client}" if has_own_models else "",
        export=EXPORT.format(option=option) if has_export else "",
    )


def _quoted(text: str) -> str:
    """A text in YAML: as in JSON, but a pair of surrogates is not a character there."""
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08x}"
        for letter in json.dumps(text, ensure_ascii=False)
    )


def _figures(summary: Mapping[str, Any]) -> dict[str, float]:
    """The figures of the run and its metrics that are numbers, by name, without zeros that tables
    hide: times that no client has sent are no time."""
    values = {name: summary.get(name) for name in names(RUN)}
    values |= {name: summary["metrics"].get(name) for name in names(METRIC)}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
        if value or not find(name).hides_zero
    }


def _metrics(values: Mapping[str, float]) -> Iterator[str]:
    """The accuracies in the heading."""
    for name in names(RUN):
        if name in values and name.endswith(("accuracy", "mean", "decile")):
            yield "    - type: accuracy"
            yield f"      name: {_quoted(words_of(name, values))}"
            yield f"      value: {values[name]:.6g}"


def _rows(summary: Mapping[str, Any], values: Mapping[str, float]) -> Iterator[str]:
    """The rows of the table of figures."""
    count = summary["num_clients"] - summary["metrics"].get("clients_left_out", 0)
    for name, value in values.items():
        figure = find(name)
        bounds = None
        if name == PERSONAL_ACCURACY:
            bounds = mean_interval(value, summary["personal_accuracy_std"], count)
        interval = " to ".join(map(figure.text, bounds or ()))
        yield f"| {words_of(name, values)} | {figure.text(value)} | {interval} |"


def _limits(config: RunConfig, summary: Mapping[str, Any]) -> Iterator[str]:
    yield "A figure says nothing about data that differ from those of the clients."
    yield "Probabilities are the model's own; whether they are calibrated is not measured."
    if config.row.personal:
        patterns = ", ".join(f"`{pattern}`" for pattern in config.row.personal)
        yield f"The parameters {patterns} are each client's own, and not in `model.safetensors`."
    for warning in summary["warnings"]:
        yield " ".join(warning.split())
