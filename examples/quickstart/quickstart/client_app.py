"""The ClientApp. It knows nothing of the server's strategy, but for which parameters it keeps to
itself."""

from fnmatch import fnmatchcase

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quickstart.task import Net, accuracy, initial_model, load_data, train

PERSONAL = "personal"

app = ClientApp()


def is_personal(name: str, context: Context) -> bool:
    """Whether the parameter of this name stays here."""
    return any(
        fnmatchcase(name, pattern) for pattern in str(context.run_config["personal"]).split()
    )


def model_of(message: Message, context: Context) -> Net:
    """The shared parameters from the message, the personal ones from this client's state."""
    model = initial_model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict(), strict=False)
    if PERSONAL in context.state:
        model.load_state_dict(context.state[PERSONAL].to_torch_state_dict(), strict=False)
    return model


def data_of(context: Context) -> tuple:
    """This client's part of the digits."""
    return load_data(
        int(context.node_config["partition-id"]), int(context.node_config["num-partitions"])
    )


@app.train()
def fit(message: Message, context: Context) -> Message:
    """Train, send what is shared, keep what is personal."""
    model = model_of(message, context)
    x, y, _, _ = data_of(context)
    loss = train(
        model,
        x,
        y,
        int(context.run_config["local-epochs"]),
        float(context.run_config["learning-rate"]),
    )
    state = model.state_dict()
    kept = {name: tensor for name, tensor in state.items() if is_personal(name, context)}
    if kept:
        context.state[PERSONAL] = ArrayRecord(kept)
    shared = ArrayRecord({name: tensor for name, tensor in state.items() if name not in kept})
    metrics = MetricRecord({"num-examples": len(y), "loss": loss})
    return Message(RecordDict({"arrays": shared, "metrics": metrics}), reply_to=message)


@app.evaluate()
def score(message: Message, context: Context) -> Message:
    """Score this client's model on its own test images."""
    _, _, x, y = data_of(context)
    metrics = MetricRecord(
        {"num-examples": len(y), "accuracy": accuracy(model_of(message, context), x, y)}
    )
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
