"""Which kind of task a data set is, known without opening it."""

from tasks.graphs.datasets import SOURCES


def task_of(dataset: str) -> str:
    """The task of a named data set or of a user's file, by its name alone.

    Returns
    -------
    str
        "nodes": node classification on graphs.

    Raises
    ------
    ValueError
        If the name is neither a data set nor a path of a kind that is read; names the nearest data set.
    """
    import difflib

    name = dataset.lower()
    graphs = ["trees", *SOURCES]
    if name in graphs or name.endswith(".pt"):
        return "nodes"
    near = difflib.get_close_matches(name, graphs, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else ""
    raise ValueError(f"no such data set{hint}; allowed are {', '.join(graphs)}, or the path of a .pt graph")
