"""What a client's differentially private replies cost of the budget in its node's policy."""

from typing import TYPE_CHECKING

from curvfed.client_app.client import Client
from curvfed.client_app.node.policy import Policy
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.privacy import planned_releases, sum_releases

if TYPE_CHECKING:
    from curvfed.strategies.secure_sum.session import Session


def check_budget(client: Client) -> None:
    """Refuse a run whose replies would cost more than the policy leaves.

    Raises
    ------
    ConfigError
    """
    rules = client.node.rules
    if client.ledger is None or rules is None:
        return
    config = client.config
    if sum_releases(config):
        _check_small_classes(client, rules)
    plan = planned_releases(config, int(client.data.train.sum()))
    client.ledger.check_budget(client.run, plan, rules.privacy, config.dp.unit)


def pay_for_sum(client: Client, session: "Session") -> None:
    """Write the cost of a sum into the ledger, before the signature leaves without which the
    masked vector stays hidden. Each session has noise of its own, and costs once.

    Raises
    ------
    ConfigError
        If the run has had all its sums, or the policy's budget is spent.
    """
    rules = client.node.rules
    if client.ledger is None or rules is None:
        return
    _check_small_classes(client, rules)
    release, planned = sum_releases(client.config)[session.phase]
    client.ledger.pay(
        client.run,
        release,
        planned,
        rules.privacy,
        phase=session.phase,
        reply=session.digest.hex(),
        round=session.round,
        unit=client.config.dp.unit,
    )


def _check_small_classes(client: Client, rules: Policy) -> None:
    """Refuse private sums, which have small classes too, of a node that bounds no epsilon.

    Raises
    ------
    ConfigError
    """
    if rules.privacy.max_epsilon is None and client.node.min_class_size > 1:
        raise ConfigError(
            "dp.unit: in private sums noise alone hides small classes: this node takes part in"
            " them with a line [privacy] max-epsilon in its policy",
            key="no-privacy-budget",
        )
