"""Servers and clients of PFLlib, and of FedTGP's code, which is made like it, on our clients'
images."""

import copy
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from studies.peers.clients import Labelled, clients, global_test, image_part, network
from studies.peers.job import Job, as_users_run, check_clone, modules, seed_all, serve

HOLDS = ("system/main.py", "system/flcore/servers/serverbase.py")
FILES = {"LG-FedAvg": "lg", "pFedMe": "pFedMe"}
"""Of servers that are not called as their method without Fed, in small letters."""

PROTOTYPES = {"FedProto", "FedTGP"}
"""Methods whose clients predict by prototypes."""

OWN_ONLY = {"FedRep", "FedPer", "LG-FedAvg", "APPLE", "FedBN"} | PROTOTYPES
"""Methods without a model that is for all."""

SPLIT = {"FedAvg", "FedPer", "FedRep", "FedROD", "MOON", "FedBABU", "LG-FedAvg", "FedDBE"}
SPLIT |= PROTOTYPES
"""Methods whose network is given as a body and a head."""


def run(job: Job) -> dict[str, Any]:
    """Scores in percent, and seconds of a round without scoring."""
    check_clone(Path(job["clone"]), HOLDS)
    sys.path.insert(0, str(Path(job["clone"]) / "system"))
    settings = job["settings"]
    name = job["name"]
    ours = clients(settings, job["clients"])
    parts = [image_part(client.data) for client in ours]
    lists = [
        {kind: list(zip(*labelled, strict=True)) for kind, labelled in part.items()}
        for part in parts
    ]
    utils, base, server_base, models = modules(
        "utils.data_utils",
        "flcore.clients.clientbase",
        "flcore.servers.serverbase",
        "flcore.trainmodel.models",
    )

    def read(dataset: str, idx: int, is_train: bool = True, few_shot: int = 0) -> list[Any]:
        return lists[idx]["train" if is_train else "test"]

    utils.read_client_data = base.read_client_data = server_base.read_client_data = read
    # PFLlib drops the last batch of training alone, and shuffles it; FedTGP's code does not shuffle.
    base.DataLoader = lambda data, size, drop_last, shuffle: DataLoader(
        data, size, shuffle=drop_last
    )
    [servers] = modules(f"flcore.servers.server{FILES.get(name, name.removeprefix('Fed').lower())}")
    [kind] = [
        member
        for member in vars(servers).values()
        if isinstance(member, type) and issubclass(member, server_base.Server)
        if member is not server_base.Server
    ]
    if job["theirs"].get("as_published"):
        MENDED[name](kind)
    seed_all(settings["seed"])
    start: Any = network(ours[0])
    if name == "FedBN":
        _name_batch_norm(start)
    model = nn.Sequential(start.body, start.head)
    if name == "FedTGP":
        torch.load = partial(torch.load, weights_only=False)
        base.BaseHeadSplit = lambda *_: BodyAndHead(start.body, start.head)
    elif name in SPLIT:
        model = models.BaseHeadSplit(start.body, start.head)
    fixed = Namespace(
        device="cpu",
        dataset="",
        num_classes=10,
        join_ratio=1.0,
        random_join_ratio=False,
        few_shot=0,
        time_select=False,
        time_threthold=1e9,
        top_cnt=100,
        auto_break=False,
        client_drop_rate=0.0,
        train_slow_rate=0.0,
        send_slow_rate=0.0,
        dlg_eval=False,
        dlg_gap=100,
        batch_num_per_client=2,
        num_new_clients=0,
        fine_tuning_epoch_new=0,
        goal="",
        learning_rate_decay=False,
        learning_rate_decay_gamma=0.99,
        server_learning_rate=1.0,
        save_folder_name=job["folder"],
    )
    args = Namespace(
        **vars(fixed)
        | {
            "algorithm": name,
            "num_clients": job["clients"],
            "global_rounds": job["rounds"] - 1,
            "eval_gap": 1 if as_users_run(settings) else job["rounds"] + 1,
            "local_epochs": settings["local-epochs"],
            "batch_size": settings["batch-size"],
            "local_learning_rate": settings["learning-rate"],
            "head": copy.deepcopy(start.head),
            "model": model,
        }
        | job["theirs"]
    )
    server = kind(args, 0)
    # of which it prints the largest
    server.rs_test_acc = [0.0]
    server.rs_test_acc_per = [0.0]
    silent = ["save_results", "save_global_model"]
    if not as_users_run(settings):
        silent += ["evaluate", "evaluate_personalized"]
    for place in silent:
        setattr(server, place, lambda *_, **__: None)
    tested = np.array([len(part["test"][1]) for part in parts])
    scores = list[dict[str, float]]()

    def score_then(act: Callable[[], None]) -> None:
        """Score the clients after their training, and go on."""
        own = [
            accuracy(_own_model(name, client), *part["test"])
            for client, part in zip(server.clients, parts, strict=True)
            if len(part["test"][1])
        ]
        pooled = np.average(own, weights=tested[tested > 0])
        scores.append({"personal": 100 * float(np.mean(own)), "pooled": 100 * float(pooled)})
        act()

    if name in PROTOTYPES:  # our clients, too, are scored with the prototypes of their training
        server.receive_protos = partial(score_then, server.receive_protos)
    server.train()
    if name not in PROTOTYPES:
        score_then(lambda: None)
    answer = scores[-1] | {"seconds": float(np.mean(server.Budget))}
    if name in OWN_ONLY:
        return answer
    shared = server.global_model
    shares = (lambda images: args.head(shared(images))) if name == "FedBABU" else shared
    test: Labelled = global_test(ours[0])
    return answer | {"global": 100 * accuracy(shares, *test)}


def accuracy(model: Callable[[Tensor], Tensor], images: Tensor, labels: Tensor) -> float:
    """The share of images that a model classifies rightly."""
    with torch.no_grad():
        return (model(images).argmax(1) == labels).double().mean().item()


def _own_model(name: str, client: Any) -> Any:
    """The model that a client has at the end."""
    if name == "FedROD":
        return lambda images: client.model(images) + client.head(client.model.base(images))
    if name == "pFedMe":
        client.update_parameters(client.model, client.personalized_params)
    if name == "FedDBE":
        return lambda images: client.model.head(client.model.base(images) + client.client_mean)
    if name == "FedProto":
        return _by_prototypes(client.model, client.global_protos)
    if name == "FedTGP":
        [base] = modules("flcore.clients.clientbase")
        load = partial(base.load_item, item_path=client.save_folder_name)
        return _by_prototypes(load(client.role, "model"), load("Server", "global_protos"))
    if name == "FedBN":
        client.model.eval()
    return client.model_per if name == "Ditto" else client.model


class BodyAndHead(nn.Module):
    """Our network in the two parts that PFLlib's clients call."""

    def __init__(self, base: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.base = copy.deepcopy(base)
        self.head = copy.deepcopy(head)


def _by_prototypes(model: Any, prototypes: Mapping[int, Any] | None) -> Any:
    """A model that predicts the class of the nearest prototype."""
    if prototypes is None:
        return lambda images: model.head(model.base(images))
    labels = [label for label, prototype in prototypes.items() if isinstance(prototype, Tensor)]
    centres = torch.stack([prototypes[label] for label in labels])

    def nearness(images: Tensor) -> Tensor:
        logits = torch.full((len(images), max(labels) + 1), -torch.inf)
        logits[:, labels] = -torch.cdist(model.base(images), centres)
        return logits

    return nearness


def _name_batch_norm(model: nn.Module) -> None:
    """Let the layers that FedBN keeps be called bn, by which PFLlib knows them."""
    for layer in model.modules():
        for name, part in list(layer.named_children()):
            delattr(layer, name)
            layer.add_module(f"bn{name}" if isinstance(part, nn.BatchNorm2d) else name, part)


def _with_square(server: Any) -> None:
    """FedDyn with the square of the distance, which PFLlib's loss lacks."""
    [clients] = modules("flcore.clients.clientdyn")
    clients.torch = SimpleNamespace(
        **vars(torch) | {"norm": lambda distance, _: distance @ distance}
    )


def _with_cores(server: Any) -> None:
    """APPLE whose clients see the cores of the round before, keep their own core, and follow the
    sum over all parameters.

    In PFLlib all clients train on the same objects, so that a client already sees what those before
    it have learned in this round; its core is then replaced by its personal model; and its
    relations follow a mean over the entries.
    """
    [clients] = modules("flcore.clients.clientapple")
    train = clients.clientAPPLE.train

    def send(self: Any) -> None:
        for client in self.clients:
            client.set_models([copy.deepcopy(other.model_c) for other in self.clients])

    def train_core(self: Any, number: int) -> None:
        count = len(list(self.model.parameters()))  # by which PFLlib divides
        clients.torch = SimpleNamespace(
            **vars(torch) | {"mean": lambda entries: count * entries.sum()}
        )
        self.model_c = core = self.model_cs[self.id]
        train(self, number)
        self.model_c = core

    server.send_models = send
    clients.clientAPPLE.train = train_core


MENDED = {"FedDyn": _with_square, "APPLE": _with_cores}


if __name__ == "__main__":
    serve(run)
