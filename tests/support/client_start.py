"""How long a fresh client process takes to its first trained round: a real node starts one per
message.

Run with a JSON object of config, node, features and classes; prints seconds by part: torch,
imports, handler.
"""

import time

started = time.perf_counter()
import torch  # noqa: F401, E402

torch_done = time.perf_counter()
import json  # noqa: E402
import sys  # noqa: E402

from flwr.app import Context, Message, RecordDict  # noqa: E402

from curvfed.client_app.app import app  # noqa: E402

imported = time.perf_counter()


def main(settings: dict) -> str:
    """Make the message of a first round, and have it answered."""
    from flwr.supercore.task_identity import TaskIdentity

    from curvfed.strategies.config.build_method import build_model, model_spec
    from curvfed.strategies.config.parse import parse
    from curvfed.strategies.config.run_config import defaults, resolve_defaults
    from curvfed.strategies.methods import METHODS
    from curvfed.strategies.wire.codec import encode_arrays, encode_request
    from curvfed.strategies.wire.messages import Facts, Header, Request

    facts = Facts("nodes", settings["features"], tuple(settings["classes"]))
    run_config = defaults() | settings["config"]
    config = resolve_defaults(parse(run_config), "nodes")
    model, is_personal = (
        build_model(model_spec(config, facts), 0),
        METHODS[config.method].is_personal,
    )
    shared = {
        name: p.detach().numpy() for name, p in model.named_parameters() if not is_personal(name)
    }
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    request = Request(Header("start", "train", 1), 0, facts, encode_arrays(shared))
    message = Message(encode_request(request), 1, "train")
    prepared = time.perf_counter()
    reply = app(message, Context(1, 1, settings["node"], RecordDict(), run_config))
    done = time.perf_counter()
    if error := reply.content["header"]["error"]:
        sys.exit(str(error))
    return json.dumps(
        {
            "torch": torch_done - started,
            "imports": imported - torch_done,
            "handler": done - prepared,
        }
    )


print(main(json.loads(sys.argv[1])))
