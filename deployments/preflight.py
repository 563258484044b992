"""What is looked at before a run begins, in a command that makes it on this machine."""

from curvfed.deployments.data_check import look_at_data
from curvfed.deployments.request import Request
from curvfed.server_app.directory.run_directory import check_name
from curvfed.strategies.config.device import pick_device


def preflight(request: Request) -> Request:
    """Refuse a simulation that cannot run here: nothing is started, and no folder made.

    The data are loaded as the clients will load them, which then find them prepared in the cache. Public data sets that
    are not there are left for the run to download.

    Raises
    ------
    UsageError, ConfigError
        A name that is taken, a device that this machine has not, data that are absent or unfit.
    """
    check_name(request.config)
    pick_device(request.config.device)
    look_at_data(request)
    return request
