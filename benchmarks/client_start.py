"""How long a fresh client process takes to its first trained round, beyond `import torch`.

A real node starts a process per message, so this is paid in every round.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_SCRIPT = """
import time
started = time.perf_counter()
import torch
torch_done = time.perf_counter()
import json, sys
from flwr.app import Context, Message, RecordDict
from curvfed.client_app.app import app
imported = time.perf_counter()
from flwr.supercore.task_identity import TaskIdentity
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.run_config import RunConfig, flatten
from curvfed.strategies.config.parse import parse
from curvfed.strategies.wire.arrays import encode_arrays
from curvfed.strategies.wire.messages import (Facts, Header, Request, encode_request)
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.model_spec import build_model, model_spec
settings = json.loads(sys.argv[1])
node_config, facts = settings["node"], Facts("nodes", settings["features"], tuple(settings["classes"]))
run_config = defaults() | settings["config"]
config = settled(parse(run_config), "nodes")
shared = {n: p.detach().numpy() for n, p in build_model(model_spec(config, facts), 0).named_parameters()
          if n.split(".")[-1] not in ("time", "gate", "k")}
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
request = Request(Header(settings["run"], "train", 1), 0, facts, encode_arrays(shared))
message = Message(encode_request(request), 1, "train")
prepared = time.perf_counter()
reply = app(message, Context(1, 1, node_config, RecordDict(), run_config))
done = time.perf_counter()
assert not reply.content["header"]["error"], reply.content["header"]["error"]
print(json.dumps({"torch": torch_done - started, "imports": imported - torch_done, "handler": done - prepared}))
"""


def client_start(
    run: str, config: dict[str, Any], node: dict[str, Any], features: int, classes: list[str]
) -> dict[str, float]:
    """Seconds by part of one fresh process that answers one `train` message: torch, imports, handler."""
    settings = {"run": run, "config": config, "node": node, "features": features, "classes": classes}
    command = [sys.executable, "-c", _SCRIPT, json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures
