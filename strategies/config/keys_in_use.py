"""Which configuration keys a run uses: the keys without a table, and the tables of its method and its data."""

from curvfed.strategies.config.model_spec import encoder
from curvfed.strategies.config.run_config import RunConfig

PARTS = {"lorentz": "flatland", "split": "flatland", "consistent": "hyperfed"}
"""Encoders and aggregations that several methods use: their keys stand in the table of the method they come from."""


def is_in_use(key: str, config: RunConfig, task: str) -> bool:
    """Whether a run uses the key, or at least the table that it is in; `config` is settled.

    A method's table is called as the method is, or as those that it is an ablation or a variant of, `hyperfed-fixed` or
    `fedsage+`, as one of the parts of its row, or as what comes before the dot in a key that the row names.
    """
    table, dot, _ = key.partition(".")
    if not dot:
        return True
    row = config.row
    keys = (named.partition(".")[0] for named in (row.proximal, row.sparsity, row.selection))
    aggregation = config.aggregation.partition(":")[0]
    parts = {config.method, aggregation, encoder(config, task), *row.after, *keys}
    tables = {task, *row.keys, *config.sinks.split(","), *(PARTS.get(part, part) for part in parts)}
    if config.is_masked:
        tables.add("secure")
    return any(name == table or name.startswith((f"{table}-", f"{table}+")) for name in tables)
