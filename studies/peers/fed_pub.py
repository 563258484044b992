"""FED-PUB's servers and clients on our parts of a graph, one client after the other in one
process.
"""

import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

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

HOLDS = ("parser.py", "models/fedpub/server.py", "modules/federated.py")


def run(job: Job) -> dict[str, Any]:
    """Scores in percent, and seconds of a round with scoring and files, without the peer's
    pauses.
    """
    check_clone(Path(job["clone"]), HOLDS)
    stand_in()
    from torch_geometric import loader
    from torch_geometric.data import Data

    sys.path.insert(0, job["clone"])
    sys.modules["modules.logger"] = logger = ModuleType("modules.logger")
    silent = SimpleNamespace(switch=lambda _: None, print=lambda _: None)
    logger.Logger = lambda *_, **__: silent  # type: ignore[attr-defined]
    for kind in (torch.Tensor, torch.nn.Module, Data):
        kind.cuda = lambda self, *_, **__: self  # type: ignore[method-assign]
    torch.load = partial(torch.load, weights_only=False)  # of what it wrote itself
    loader.DataLoader = lambda dataset, **_: dataset
    settings = job["settings"]
    ours = clients(job["settings"], job["clients"])
    parts = [Data(**graph_part(client.data), edge_attr=None) for client in ours]
    data, federated, parser = modules("data.loader", "modules.federated", "parser")
    data.get_data = lambda args, client_id: [parts[client_id]]
    federated.time = SimpleNamespace(sleep=lambda _: None, time=time.time)
    args = parser.Parser().parser.parse_args([])
    vars(args).update(
        model=job["name"],
        dataset="Cora",
        mode="disjoint",
        frac=1.0,
        n_rnds=job["rounds"],
        n_clients=job["clients"],
        n_eps=settings["local-epochs"],
        n_dims=settings["embedding-dim"],
        seed=settings["seed"],
        weight_decay=settings["weight-decay"],
        base_lr=settings["learning-rate"],
        laye_mask_one=True,
        clsf_mask_one=True,
        n_feat=parts[0].num_features,
        n_clss=len(ours[0].data.class_names),
        checkpt_path=f"{job['folder']}/state",
        log_path=f"{job['folder']}/log",
        **job["theirs"],
    )
    seed_all(settings["seed"])
    shared: dict[Any, Any] = {"is_done": False}
    server, client = (
        getattr(modules(f"models.{job['name']}.{half.lower()}")[0], half)(args, *rest)
        for half, rest in (("Server", (shared, 0)), ("Client", (0, 0, shared)))
    )
    start_graph_network(ours[0], server.model)
    curve = list[list[float]]()
    started = time.perf_counter()
    for number in range(job["rounds"]):
        server.on_round_begin(number)
        scores = []
        for k in range(job["clients"]):
            client.switch_state(k)
            client.on_receive_message(number)
            client.on_round_begin()
            client.save_state()
            scores.append([client.log[f"rnd_local_{part}_acc"][-1] for part in ("val", "test")])
        server.on_round_complete(list(range(job["clients"])))
        curve.append(np.mean(scores, axis=0).tolist())
    return at_best_validation(curve) | {"seconds": (time.perf_counter() - started) / job["rounds"]}


if __name__ == "__main__":
    serve(run)
