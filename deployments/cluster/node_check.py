"""A node's configuration, checked before its SuperNode starts."""


def check_node(node_config: str) -> str:
    """The configuration as Flower is given it."""
    return node_config
