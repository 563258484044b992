"""The split of a real node's own data, which no run changes. A keyed hash of each record decides,
with shares from the policy or else from the first run."""

from curvfed.client_app.node import Node
from curvfed.client_app.node.keys import has_secret, split_key
from curvfed.client_app.node.ledger_file import LedgerFile, ledger_path
from curvfed.client_app.node.ledger_memory import SPLIT
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.record_split import RecordSplit

SHARES = ("train_size", "test_size")

ROUNDING = 1e-9
"""Allowed excess of the sum of the shares."""


def own_split(
    node: Node, config: RunConfig, task: str, kept: tuple[float, ...] = ()
) -> RecordSplit | None:
    """The split of a node's own data for a task; None in a simulation, and for public data.

    A share comes from the first source that has it: the policy, the ledger, the request of a first
    run, the default of the task.

    Parameters
    ----------
    kept : tuple of float
        Shares of training and test records in the ledger; empty before the first run.

    Raises
    ------
    ConfigError
        If a run asks for another share than the node's; names both.
    """
    if node.rules is None or not node.owns_data:
        return None
    recorded = dict(zip(SHARES, kept, strict=False))
    lines = node.rules.data.model_dump(include=set(SHARES), exclude_none=True)
    decided = recorded | lines
    names = SHARES if KINDS[task].has_validation else SHARES[1:]
    for name in names:
        requested = getattr(config, name)
        if requested is not None and decided.get(name, requested) != requested:
            source = "[data] in its policy" if name in lines else "its first run"
            raise ConfigError(
                f"{kebab(name)} = {requested:g}: this node splits its own data by {kebab(name)} ="
                f" {decided[name]:g}, of {source}, whatever a run asks; allowed is that value, or"
                " auto",
                key="own-split",
            )
    resolved = resolve_defaults(config, task)
    shares = {name: decided.get(name, getattr(resolved, name)) for name in SHARES}
    if not KINDS[task].has_validation:
        shares["train_size"] = 1 - shares["test_size"]
    if shares["train_size"] + shares["test_size"] > 1 + ROUNDING:
        # The defaults leave validation records, so at most one of the shares is a default.
        free = [name for name in names if name not in decided and getattr(config, name) is None]
        if not free:
            raise ConfigError(
                f"train-size = {shares['train_size']:g} and test-size = {shares['test_size']:g}:"
                " this node's [data] in its policy, its first run and this run leave shares whose"
                " sum is above 1",
                key="own-split",
            )
        (name,) = free
        other = sum(shares.values()) - shares[name]
        shares[name] = 1 - other
    return RecordSplit(split_key(node), shares["train_size"], shares["test_size"])


def recorded_splits(node: Node) -> list[RecordSplit]:
    """The splits of a real node's own data on this machine, the first one first; none without its
    secret or its ledger."""
    if not has_secret(node):
        return []
    key = split_key(node)
    ledger = LedgerFile(ledger_path(node))
    shares = dict.fromkeys(tuple(line["shares"]) for line in ledger.lines(SPLIT))
    return [RecordSplit(key, *pair) for pair in shares]
