"""A cluster of real machines; and the errors of its commands."""

from curvfed.deployments.errors import MachineError


class ClusterError(MachineError):
    """A command cannot do its work; the text names the value, the place, and the allowed values or
    the remedy."""

    area = "cluster"


class WrongUsageError(ClusterError):
    """A command can never do this work, on any machine or at any later time."""

    status = 2


class ToleratedError(ClusterError):
    """A fault that may mend itself: a start and `status` print it as a note, and `doctor`
    counts it."""
