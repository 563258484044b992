"""What is looked at before a run begins, in a command that makes it on this machine."""

from collections.abc import Sequence

from curvfed.deployments.data_check import look_at_data
from curvfed.deployments.request import Request, read_request
from curvfed.strategies.device import pick_device


def preflight(pairs: Sequence[str]) -> Request:
    """Read the arguments of a simulation, and refuse what cannot run here: nothing is started, and no folder made.

    The data are loaded as the clients will load them, which then find them prepared in the cache. Public data sets that
    are not there are left for the run to download.

    Raises
    ------
    UsageError, ConfigError
        Wrong arguments, a device that this machine has not, data that are absent or unfit.
    """
    request = read_request(pairs)
    pick_device(request.config.device)
    look_at_data(request)
    return request
