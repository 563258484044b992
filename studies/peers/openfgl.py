"""OpenFGL's trainer, clients and servers on our parts of a graph."""

import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from studies.peers.clients import clients, graph_part, start_graph_network
from studies.peers.job import (
    Job,
    at_best_validation,
    check_clone,
    modules,
    seed_all,
    serve,
    stand_in,
)

HOLDS = ("openfgl/config.py", "openfgl/flcore/trainer.py")
ABSENT = ("fvcore", "fvcore.nn", "munkres", "sknetwork", "sknetwork.clustering")


class Net(nn.Module):
    """Our network of PyTorch Geometric's layers, with our start."""

    def __init__(self, client: Any, num_out: int) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        width = client.config.embedding_dim
        self.dropout = client.config.dropout
        self.conv1 = GCNConv(client.data.num_features, width)
        self.conv2 = GCNConv(width, width)
        self.clsif = nn.Linear(width, num_out)
        start_graph_network(client, self)

    def forward(self, data: Any) -> tuple[Tensor, Tensor]:
        """The second convolution's output and logits."""
        hidden = F.dropout(F.relu(self.conv1(data.x, data.edge_index)), self.dropout, self.training)
        hidden = F.relu(self.conv2(hidden, data.edge_index))
        return hidden, self.clsif(hidden)


def run(job: Job) -> dict[str, Any]:
    """Scores in percent, and seconds of a round with scoring."""
    check_clone(Path(job["clone"]), HOLDS)
    stand_in(*ABSENT)
    sys.path.insert(0, str(Path(job["clone"]) / "openfgl"))
    sys.modules["data.distributed_dataset_loader"] = dataset = ModuleType(
        "data.distributed_dataset_loader"
    )
    ours = clients(job["settings"], job["clients"])
    algorithm = job["name"]
    dataset.FGLDataset = lambda args: _dataset(ours, job["folder"])  # type: ignore[attr-defined]
    trainers, tasks, nodes, gcn, config = modules(
        "flcore.trainer", "task.base", "task.node_cls", "model.gcn", "config"
    )
    args = config.args
    settings = job["settings"]
    gcn.GCN = lambda output_dim, **_: Net(ours[0], output_dim)
    nodes.NodeClsTask.load_train_val_test_split = _take_split
    trainers.Logger = lambda *_: SimpleNamespace(add_log=lambda *_: None, save=lambda: None)
    if settings["optimizer"] == "sgd":
        tasks.Adam = torch.optim.SGD
    if job["theirs"]:
        modules(f"flcore.{algorithm}.{algorithm}_config")[0].config.update(job["theirs"])
    if algorithm == "adafgl":  # instead of a library in C that stands beside it
        [op] = modules("flcore.adafgl.op")
        op.csr_sparse_dense_matmul = lambda adjacency, features: adjacency.dot(features).astype(
            np.float32
        )
    vars(args).update(
        dataset=["Cora"],
        model=["gcn"],
        metrics=["accuracy"],
        fl_algorithm=algorithm,
        use_cuda=False,
        num_clients=job["clients"],
        num_rounds=job["rounds"],
        num_epochs=settings["local-epochs"],
        hid_dim=settings["embedding-dim"],
        lr=settings["learning-rate"],
        weight_decay=settings["weight-decay"],
        dropout=settings["dropout"],
        seed=settings["seed"],
    )
    seed_all(settings["seed"])
    trainer = trainers.FGLTrainer(args)
    if algorithm == "fedpub":
        start_graph_network(ours[0], trainer.server.task.model)
    curve = list[list[float]]()

    def evaluate() -> None:
        scores = [client.task.evaluate(mute=True) for client in trainer.clients]
        curve.append(
            [
                float(np.mean([score[f"accuracy_{part}"] for score in scores]))
                for part in ("val", "test")
            ]
        )

    trainer.evaluate = evaluate
    started = time.perf_counter()
    trainer.train()
    return at_best_validation(curve) | {"seconds": (time.perf_counter() - started) / len(curve)}


def _dataset(ours: list[Any], folder: str) -> SimpleNamespace:
    from torch_geometric.data import Batch, Data

    parts = [Data(**graph_part(client.data)) for client in ours]
    offset = 0
    for part in parts:
        part.num_global_classes = len(ours[0].data.class_names)
        part.global_map = {node: offset + node for node in range(part.num_nodes)}
        offset += part.num_nodes
    fields = [
        Data(**{name: value for name, value in part if isinstance(value, Tensor)}) for part in parts
    ]
    whole = Batch.from_data_list(fields)
    whole.num_global_classes = parts[0].num_global_classes
    return SimpleNamespace(local_data=parts, global_data=whole, processed_dir=folder)


def _take_split(task: Any) -> None:
    """The masks that come with the data, instead of files."""
    masks = {name: task.data[name] for name in ("train_mask", "val_mask", "test_mask")}
    vars(task).update(masks, splitted_data={"data": task.data, **masks})
    task.processed_data = task.splitted_data


if __name__ == "__main__":
    serve(run)
