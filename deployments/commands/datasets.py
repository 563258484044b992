"""`curvfed datasets`: the list of data sets."""

import re

from curvfed.deployments.tables import print_rows
from curvfed.tasks.registry import catalogue


def datasets() -> None:
    """List the data sets, with the task and the origin of each."""
    # Without long dotted names, which a narrow terminal breaks anywhere.
    rows = [
        (name, task, re.sub(r"\b([a-z_.]+)\.([A-Z]\w+)", r"\2 of \1", origin))
        for name, task, origin in catalogue()
    ]
    print_rows(("data set", "task", "where from"), rows)
