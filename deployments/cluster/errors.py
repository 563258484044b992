"""What a command of a cluster cannot do."""


class ClusterError(RuntimeError):
    """The text names what, where, and what is allowed or to be done."""


class WrongUsageError(ClusterError):
    """What was asked for can never be done, on no machine and at no later time."""
