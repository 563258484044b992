"""The budget of a node: the cost of private replies, in the lines of its ledger."""

from collections.abc import Mapping, Sequence
from typing import Any

from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.ledger_memory import PRIVACY
from curvfed.client_app.node.policy import Privacy
from curvfed.extensions.privacy.accountant import Release, epsilon_of
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.amounts import amount


def check_budget(
    ledger: Ledger,
    run: str,
    plan: Mapping[str, tuple[Release, int]],
    rules: Privacy,
    unit: str,
) -> None:
    """Refuse a run if its remaining private replies and all earlier releases together would cost
    more than the policy allows.

    Parameters
    ----------
    ledger : Ledger
    run : str
    plan : mapping of str to (Release, int)
        By phase, the releases of one reply, and the number of replies of the run, those given
        included.
    rules : Privacy
        The policy's budget.
    unit : str
        The unit that the run hides, `dp.unit`.

    Raises
    ------
    ConfigError
    """
    with ledger.locked():
        left = []
        for phase, (release, number) in plan.items():
            replies = max(0, number - ledger.memory.num_answered(run, phase))
            left.append(release._replace(times=replies * release.times))
        _check_cost(ledger.memory.costs, left, unit, rules)


def is_paid(ledger: Ledger, reply: str) -> bool:
    """Whether the cost of a reply with this digest is recorded."""
    with ledger.locked():
        return any(cost["reply"] == reply for cost in ledger.memory.costs)


def pay(
    ledger: Ledger,
    run: str,
    release: Release,
    planned: int,
    rules: Privacy,
    *,
    phase: str,
    reply: str,
    unit: str,
    **fields: Any,
) -> None:
    """Record the cost of a private reply, once.

    Parameters
    ----------
    ledger : Ledger
    run : str
    release : Release
    planned : int
        The number of replies in the phase for which the run has planned its noise.
    rules : Privacy
        The policy's budget.
    phase : str
    reply : str
        Digest of the reply.
    unit : str
        The unit that the run hides, `dp.unit`.
    **fields
        Further fields of the line.

    Raises
    ------
    ConfigError
        If the run has had all its replies, or the budget is spent.
    """
    with ledger.locked() as file:
        memory = ledger.memory
        if any(cost["reply"] == reply for cost in memory.costs):
            return
        answered = memory.num_answered(run, phase)
        if answered >= planned:
            raise ConfigError(
                f"this node has answered {amount(answered, 'round')} of the run {run} ({phase}),"
                " for"
                " which its noise was planned; another run needs another run-name",
                key="rounds-spent",
            )
        _check_cost(memory.costs, [release], unit, rules)
        costs = {"unit": unit, "phase": phase, **release._asdict()}
        ledger.write(file, PRIVACY, run=run, reply=reply, **costs, **fields)


def _check_cost(
    paid: Sequence[Mapping[str, Any]], planned: Sequence[Release], unit: str, rules: Privacy
) -> None:
    if rules.max_epsilon is None:
        return
    costs = [*paid, *({"unit": unit, **each._asdict()} for each in planned)]
    is_mixed = len({cost["unit"] for cost in costs}) > 1
    releases = []
    for cost in costs:
        # One record can turn a client's update into another one, up to 2 dp.clip away; removing
        # the client moves it by dp.clip. So the noise for clients counts half if records count too.
        shrink = 2 if is_mixed and cost["unit"] == "client" else 1
        releases.append(Release(cost["noise"] / shrink, cost["rate"], cost["times"]))
    epsilon = epsilon_of(releases, rules.delta)
    spent = releases[: len(paid)]
    if epsilon > rules.max_epsilon:
        raise ConfigError(
            f"this node's privacy budget: epsilon would be {epsilon:.3g} at delta ="
            f" {rules.delta:g}, of which {epsilon_of(spent, rules.delta):.3g} is spent;"
            f" [privacy] max-epsilon = {rules.max_epsilon:g} in its policy",
            key="privacy-budget",
        )
