"""The warnings of a run on these data before its first round, as the run logs them."""

from collections.abc import Mapping

from curvfed.client_app.data import Data, statistics
from curvfed.client_app.description import description_of
from curvfed.server_app.added_warnings import AddedWarnings
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.facts import facts_for, remove_unlike
from curvfed.server_app.federation import Federation
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError


def start_warnings(config: RunConfig, held: Mapping[int, Data]) -> list[str]:
    """The warnings of the configuration and of the data of all clients.

    Parameters
    ----------
    config : RunConfig
        Without missing values.
    held : dict of int to Data
        The data of all clients of the run, by partition.

    Raises
    ------
    ConfigError
        If no run can begin with these clients.
    """
    descriptions = {
        client: description_of(data, config, data.digest, statistics=statistics(data, config))
        for client, data in held.items()
    }
    refused = remove_unlike(descriptions)
    reasons = {f"client {client}": reason for client, reason in refused.items()}
    try:
        facts = facts_for(descriptions, config)
    except FederationError as error:
        raise ConfigError(str(error), key=error.kind) from None
    federation = Federation(
        {client: client for client in descriptions}, descriptions, facts, reasons
    )
    return list(AddedWarnings(config, federation).texts(State(), is_complete=False).values())
