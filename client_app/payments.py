"""Under a node's budget of differential privacy nothing leaves without its cost in the ledger."""

from curvfed.client_app.client import Client
from curvfed.client_app.contribution import Contribution
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import TRAIN


def check_contribution(client: Client, phase: str, contribution: Contribution) -> None:
    """Refuse a contribution that is not paid for; see `check_paid`. A client without training
    examples returns the parameters that it received, at no cost."""
    if not _has_budget(client):
        return
    if phase == TRAIN and not client.task.num_examples and not contribution.figures:
        return
    check_paid(client, phase, contribution.digest)


def check_paid(client: Client, phase: str, reply: str) -> None:
    """Refuse a reply whose cost is not in the ledger of a node with a budget.

    Parameters
    ----------
    reply : str
        The digest that the line names: of the contribution, or of the session of a sum.

    Raises
    ------
    ConfigError
    """
    if client.ledger is None or not _has_budget(client):
        return
    with client.ledger.locked():
        paid = [
            cost["reply"] == reply and cost.get("phase", phase) == phase
            for cost in client.ledger.memory.costs
            if cost["run"] == client.run
        ]
    if not any(paid):
        raise ConfigError(
            f"{phase}: the run's guard has written no cost of this reply into the node's ledger, so"
            " the reply stays: [privacy] max-epsilon in its policy",
            key="unpaid-reply",
        )


def _has_budget(client: Client) -> bool:
    rules = client.node.rules
    return rules is not None and rules.has_budget
