"""Other libraries get our clients and our network's start; tables and errors."""

import pytest
import torch
from torch import nn

from curvfed.client_app.client import Client
from curvfed.client_app.node import Node
from curvfed.strategies.config.parse import parse
from studies.peers.clients import (
    NAMES,
    clients,
    graph_part,
    image_part,
    network,
    start_graph_network,
)
from studies.peers.settings import COMMON, PAIRS


def test_a_part_of_a_graph_is_our_clients():
    federation = clients({"dataset": "trees", "method": "fedavg"}, 3)
    for k, client in enumerate(federation):
        fields, graph = graph_part(client.data), client.data
        assert fields["x"].shape == (len(graph.labels), graph.num_features)
        assert fields["x"].layout == torch.strided
        assert torch.equal(fields["edge_index"], graph.edge_index)
        assert torch.equal(fields["y"], graph.labels)
        assert (
            fields["train_mask"].int() + fields["val_mask"].int() + fields["test_mask"].int()
        ).max() == 1
        rebuilt = Client(
            parse({"dataset": "trees", "method": "fedavg"}),
            "run",
            Node(partition=k, num_partitions=3),
        )
        assert rebuilt.data.digest == graph.digest


def test_images_are_our_clients_normalised_and_split():
    [client, _] = clients({"dataset": "digits", "method": "fedavg"}, 2)
    fields, images = image_part(client.data), client.data
    assert fields["train"][0].shape == (int(images.train.sum()), *images.images.shape[1:])
    assert torch.equal(fields["test"][1], images.labels[images.test])
    [mean], [std] = images.mean, images.std
    assert torch.allclose(
        fields["train"][0] * std + mean, images.images[images.train] / 255, atol=1e-6
    )


def test_a_peers_network_starts_as_ours_and_keeps_its_masks():
    [client] = clients({"dataset": "trees", "method": "fedavg", "embedding-dim": 4}, 1)
    theirs = nn.Module()
    for mine, name in NAMES.items():
        *path, leaf = name.split(".")
        place = theirs
        for step in path:
            if not hasattr(place, step):
                place.add_module(step, nn.Module())
            place = getattr(place, step)
        place.register_parameter(
            leaf, nn.Parameter(torch.zeros_like(network(client).state_dict()[mine]))
        )
    theirs.register_parameter("mask", nn.Parameter(torch.ones(2)))
    start_graph_network(client, theirs)
    state = network(client).state_dict()
    assert all(torch.equal(theirs.state_dict()[name], state[mine]) for mine, name in NAMES.items())
    assert theirs.state_dict()["mask"].tolist() == [1, 1]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.peer}/{pair.name}")
def test_our_side_of_every_pair_is_a_configuration(pair):
    config = parse(pair.of_ours(1, 0.5 if pair.task == "images" else None))
    assert config.method == pair.ours
    assert config.seed == 1
    assert config.num_rounds == pair.settings.get("num-rounds", COMMON[pair.task]["num-rounds"])
