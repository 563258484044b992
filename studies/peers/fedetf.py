"""The clients and the server of FedETF's code on our clients' images."""

import copy
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from studies.peers.clients import Labelled, clients, global_test, image_part, network
from studies.peers.job import Job, check_clone, modules, seed_all, serve, stand_in

HOLDS = ("client_funct.py", "server_funct.py", "models_dict/proto_classifiers.py")
ABSENT = ("pyhessian", "six")


class Net(nn.Module):
    """Our network up to its features, and the authors' prototypes."""

    def __init__(self, client: Any, prototypes: nn.Module) -> None:
        super().__init__()
        self.layers, self.linear_proto = network(client).body  # type: ignore[misc]
        self.proto_classifier = copy.deepcopy(prototypes)
        self.scaling_train = nn.Parameter(torch.tensor(1.0))

    def forward(self, images: Tensor) -> tuple[Tensor, None, None]:
        """Directions of features, in the place of three outputs."""
        return F.normalize(self.linear_proto(self.layers(images))), None, None


def run(job: Job) -> dict[str, Any]:
    """Scores in percent."""
    check_clone(Path(job["clone"]), HOLDS)
    stand_in(*ABSENT)
    sys.path.insert(0, job["clone"])
    for kind in (Tensor, nn.Module):
        kind.cuda = lambda self, *_: self  # type: ignore[method-assign]
    local, server, nodes, made = modules(
        "client_funct", "server_funct", "nodes", "models_dict.proto_classifiers"
    )
    settings = job["settings"]
    ours = clients(settings, job["clients"])
    parts = [image_part(client.data) for client in ours]
    seed_all(settings["seed"])
    prototypes = made.Proto_Classifier(settings["embedding-dim"], 10)
    args = Namespace(
        client_method="fedetf",
        server_method="fedavg",
        E=settings["local-epochs"],
        momentum=settings["momentum"],
        local_wd_rate=settings["weight-decay"],
    )

    def node(client: Any, trains: Labelled, tests: Labelled) -> SimpleNamespace:
        size = settings["batch-size"]
        net = Net(client, prototypes)
        node = SimpleNamespace(
            num_classes=10,
            model=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=settings["learning-rate"]),
            local_data=DataLoader(TensorDataset(*trains), size, shuffle=True),
            validate_set=DataLoader(TensorDataset(*tests), size),
        )
        node.sample_per_class = nodes.Node.generate_sample_per_class(node, node.local_data)
        return node

    held = {
        number: node(client, part["train"], part["test"])
        for number, (client, part) in enumerate(zip(ours, parts, strict=True))
    }
    test = global_test(ours[0])
    central = node(ours[0], test, test)
    chosen = list(held)
    weights = [len(part["train"][1]) for part in parts]
    for _ in range(job["rounds"]):
        held, _ = local.Client_update(args, held, central, chosen)
        personal = local.Client_validate(args, held, chosen)
        central = server.Server_update(args, central, held, chosen, weights)
    if settings["fine-tune-epochs"]:
        held, _ = local.Client_personalization(args, held, central, chosen)
        personal = local.Client_validate(args, held, chosen)
    shared = local.validate(args, central, which_dataset="local")
    return {"personal": personal, "global": shared, "seconds": 0.0}


if __name__ == "__main__":
    serve(run)
