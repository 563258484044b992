"""A cluster of real machines; and the errors of its commands."""

from curvfed.deployments.errors import MachineError


class ClusterError(MachineError):
    """A command cannot do its work; the text names the value, the place, and what is allowed or to
    be done."""

    area = "cluster"


class WrongUsageError(ClusterError):
    """A command can never do what was asked for, on any machine or at any later time."""

    status = 2


class ToleratedError(ClusterError):
    """A fault that may mend itself: a start and `status` print it as a note, and `doctor`
    counts it."""
