"""The installed version of Flower, and how it connects the nodes of a cluster."""

from importlib.metadata import version

LAST_GRPC = (1, 39)
"""The last version whose SuperNodes use gRPC; later ones use HTTPS."""


def is_grpc(flower: str) -> bool:
    """Whether nodes of this version of Flower connect by gRPC."""
    major, minor = flower.split(".")[:2]
    return (int(major), int(minor)) <= LAST_GRPC


def flower_and_transport(flower: str | None = None) -> str:
    """A version of Flower, by default the installed one, and its transport, in words."""
    flower = flower or version("flwr")
    transport = "gRPC" if is_grpc(flower) else "HTTPS"
    return f"Flower {flower}: nodes of a cluster connect by {transport}"
