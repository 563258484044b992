"""The error that data raise."""


class DataError(ValueError):
    """Data that are absent, unreadable or unfit for a run.

    The text travels to the server: it names files, shapes and what is allowed, never a value of the data.
    """
