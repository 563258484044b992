"""Our clients and the start of our network, as tensors that other libraries can be given."""

from typing import Any

import torch
from torch import Tensor, nn

from curvfed.client_app.client import Client
from curvfed.client_app.description import describe
from curvfed.client_app.node import Node
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.config.build_method import build_model, fixed_head, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.dataset import ImageDataset

Labelled = tuple[Tensor, Tensor]

NAMES = {
    "first.weight": "conv1.lin.weight",
    "first.bias": "conv1.bias",
    "second.weight": "conv2.lin.weight",
    "second.bias": "conv2.bias",
    "head.weight": "clsif.weight",
    "head.bias": "clsif.bias",
}
"""Of the parameters of our graph network, as FED-PUB and OpenFGL call them."""


def clients(settings: dict[str, Any], number: int) -> list[Any]:
    """The `Client` that each node of a run with these settings sets up before its first message."""
    config = parse(settings)
    return [
        Client(config, "peers", Node(partition=k, num_partitions=number)) for k in range(number)
    ]


def network(client: Client) -> nn.Module:
    """Our network with the weights that the server of this client's run starts from."""
    about = describe(client)
    facts = Facts(about.task, about.num_features, about.class_names, about.shape)
    spec = model_spec(client.config, facts)
    seed = client.config.seed
    model = build_model(spec, seed)
    if client.config.network.head_from != "training":  # which the server sends
        load_arrays(fixed_head(spec, seed), model.state_dict())
    return model


def start_graph_network(client: Client, net: nn.Module) -> None:
    """Give a peer's network, whose parameters are called as in `NAMES`, the start of ours; masks
    stay as they are."""
    state = network(client).state_dict()
    theirs = net.state_dict()
    with torch.no_grad():
        for mine, name in NAMES.items():
            theirs[name].copy_(state[mine].view_as(theirs[name]))


def graph_part(graph: ClientGraph) -> dict[str, Any]:
    """The fields of a `torch_geometric.data.Data`."""
    return {
        "x": graph.features.to_dense(),
        "edge_index": graph.edge_index,
        "y": graph.labels,
        "train_mask": graph.train,
        "val_mask": graph.val,
        "test_mask": graph.test,
    }


def image_part(images: ClientImages) -> dict[str, Labelled]:
    """Normalised images and labels of the parts "train" and "test"."""
    shape = (-1, 1, 1)
    pixels = (images.images.float() / 255 - torch.tensor(images.mean).view(shape)) / torch.tensor(
        images.std
    ).view(shape)
    return {
        name: (pixels[mask], images.labels[mask])
        for name, mask in (("train", images.train), ("test", images.test))
    }


def global_test(client: Client) -> Labelled:
    """The images that score the global model."""
    config: Any = client.config
    test = ImageDataset.of_run(config, home() / "cache").test()
    assert test is not None, "a run with images.pooled has no global test set"
    return image_part(test)["test"]
