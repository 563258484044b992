"""Export of a trained model as a program that needs neither curvfed nor the run's folder."""

import contextlib
import importlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.client_app.data import make_task
from curvfed.deployments.inputs import PredictError
from curvfed.deployments.predict import READERS
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.deployments.resources import check_output
from curvfed.extensions.exports.commands.classifier_program import ClassifierProgram
from curvfed.extensions.exports.commands.programs import Program, program_class
from curvfed.geometry.arrays import Array
from curvfed.strategies.run_log import logged_from
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.in_memory import KINDS, check_data
from curvfed.tasks.stored_files import write_atomically

SUFFIXES = (".pt2", ".onnx")
"""The endings of files; for a model of graphs the first alone."""

LIMIT = 1e-5
"""Largest error of an exported program's probabilities on the samples."""

SIZES = (6, 11)
"""Numbers of images, points, or nodes of a graph in the samples."""

ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")

Inputs = tuple[Tensor, ...]
Outputs = list[Array]
Answers = Callable[[Inputs], Outputs]


@logged_from(logging.WARNING)  # the made-up inputs of the comparison are no data of the user
def export(
    run: TrainedRun,
    out: Path,
    client: int | None = None,
    state_path: Path | None = None,
    calibrated: bool = True,
) -> dict[str, Any]:
    """Write a model as a program of torch (`.pt2`) or ONNX (`.onnx`), and return its metadata.

    The file is written only if its answers on random samples are those of the model.

    Parameters
    ----------
    run : TrainedRun
    out : Path
    client, state_path, calibrated
        As for `curvfed.deployments.predict.predict`.

    Raises
    ------
    UsageError, PredictError, MessageError, StoreError
        If the model is missing, if it cannot be exported, or if the program differs from it.
    """
    if run.facts.task not in KINDS:
        raise PredictError(
            f"the run is on {run.facts.task}, whose embedding is in model.safetensors; allowed are"
            f" runs of {', '.join(KINDS)}",
            key="other-task",
        )
    is_graph = KINDS[run.facts.task] in (RawGraph, RawGraphs)
    check_output(out, SUFFIXES[:1] if is_graph else SUFFIXES)
    write = _torch_program
    if out.suffix.lower() == ".onnx":
        _check_onnx(out)
        write = _onnx_program
    program, answers, metadata = _program(run, client, state_path, calibrated)
    generator = torch.Generator().manual_seed(0)
    facts = run.facts_of(client)
    program.eval().requires_grad_(False)  # some operations write where no gradient may be
    samples = [program.sample(facts, run.config, size, generator) for size in SIZES]
    try:
        with _quiet():
            content, exported = write(program, samples[0], metadata)
            error = max(_difference(exported(sample), answers(sample)) for sample in samples)
    except Exception as failure:  # of the many that torch and ONNX raise
        reason = str(failure).strip().partition("\n")[0]
        raise PredictError(
            f"{metadata['model']} cannot be exported as {out.suffix}: {type(failure).__name__}:"
            f" {reason}",
            key="no-export",
        ) from failure
    if not error <= LIMIT:
        raise PredictError(
            f"the exported program differs from the model by {error:.2g} in an output; allowed is"
            f" {LIMIT:g}, so {out} is not written",
            key="inexact-export",
        )
    write_atomically(out, content)
    return metadata | {"error": error}


def _check_onnx(out: Path) -> None:
    try:
        for name in ONNX_PACKAGES:
            importlib.import_module(name)
    except ImportError as error:
        raise PredictError(
            f"{out} needs a package that is not installed ({error.name}):"
            ' pip install "curvfed[onnx]"',
            key="missing-package",
        ) from None


def _program(
    run: TrainedRun, client: int | None, state_path: Path | None, calibrated: bool
) -> tuple[Program, Answers, dict[str, Any]]:
    """The program, the model's own answers to its inputs, and the metadata."""
    metadata: dict[str, Any] = {
        "method": run.config.method,
        "task": run.facts.task,
        "outputs": ["class", "probabilities"],
        "versions": {name: version(name) for name in ("curvfed", "torch")},
    }
    kind = KINDS[run.facts.task]
    model, metadata["model"] = model_of(run, client, state_path, calibrated)
    if isinstance(model, ClassifierProgram):
        classifier = model.classifier
        metadata["outputs"].append("unknown")
        metadata["classes"] = [run.class_names[group] for group in classifier.groups]

        def answers_of_classifier(inputs: Inputs) -> Outputs:
            points = inputs[0].numpy()
            numbers = np.searchsorted(classifier.groups, classifier.predict(points))
            return [numbers, classifier.probabilities(points), classifier.unknown(points)]

        return model, answers_of_classifier, metadata | {"inputs": model.words}
    facts = run.facts_of(client)
    make = program_class(kind, run.config)

    def examples(inputs: Inputs) -> Any:
        raw = check_data("the sample", make.in_memory(*inputs), facts.class_names)
        return READERS[kind](run, raw, client, state_path).data

    def answers_of_model(inputs: Inputs) -> Outputs:
        task = make_task(
            examples(inputs), run.config, facts.class_names, torch.device("cpu"), model
        )
        logits = task.logits(model).double()
        return [logits.argmax(dim=1).numpy(), logits.softmax(dim=1).numpy()]

    sample = make.sample(facts, run.config, SIZES[0], torch.Generator())
    program = make(model, run.config, examples(sample))
    metadata |= {"classes": facts.class_names, "inputs": program.words}
    return program, answers_of_model, metadata


def _exported(program: Program, sample: Inputs) -> torch.export.ExportedProgram:
    sizes: dict[str, torch.export.Dim] = {}
    for dimensions in program.inputs.values():
        sizes |= {name: torch.export.Dim(name) for name in dimensions.values() if name not in sizes}
    shapes = {
        name: {place: sizes[size] for place, size in dimensions.items()}
        for name, dimensions in program.inputs.items()
    }
    with torch.no_grad():
        exported = torch.export.export(program, sample, dynamic_shapes=shapes, strict=False)
    # The source files of its operations, on this machine, are left out.
    for module in exported.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                node.meta.pop("stack_trace", None)
    return exported


def _torch_program(
    program: Program, sample: Inputs, metadata: dict[str, Any]
) -> tuple[bytes, Answers]:
    """The content of a `.pt2` file, and its answers."""
    buffer = io.BytesIO()
    extra = {"curvfed.json": json.dumps(metadata)}
    torch.export.save(_exported(program, sample), buffer, extra_files=extra)
    loaded = torch.export.load(io.BytesIO(buffer.getvalue())).module()
    return buffer.getvalue(), lambda inputs: [output.numpy() for output in loaded(*inputs)]


def _onnx_program(
    program: Program, sample: Inputs, metadata: dict[str, Any]
) -> tuple[bytes, Answers]:
    """The content of an `.onnx` file, and its answers."""
    import onnxruntime

    decompositions = torch.export.default_decompositions()
    decompositions[torch.ops.aten._cdist_forward.default] = _pairwise_distances
    exported = _exported(program, sample).run_decompositions(decompositions)
    written = torch.onnx.export(
        exported,
        sample,
        dynamo=True,
        verbose=False,
        input_names=list(program.inputs),
        output_names=metadata["outputs"],
    )
    assert written is not None
    for node in written.model.graph.all_nodes():
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)  # has this machine's paths
    for name, value in metadata.items():
        written.model.metadata_props[name] = value if isinstance(value, str) else json.dumps(value)
    content = written.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def answers(inputs: Inputs) -> Outputs:
        values = dict(zip(program.inputs, (tensor.numpy() for tensor in inputs), strict=True))
        return list(session.run(None, values))

    return content, answers


def _pairwise_distances(x: Tensor, y: Tensor, p: float, mode: int | None = None) -> Tensor:
    """`torch.cdist` of order 2 in operations that ONNX has."""
    return (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1).sqrt()


def _difference(outputs: Sequence[Any], expected: Outputs) -> float:
    """The largest difference in any output; NaN counts as different."""
    pairs = zip(outputs, expected, strict=True)
    return max(float(np.abs(a.astype(float) - b.astype(float)).max()) for a, b in pairs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Within the block the exporters' warnings and logs are left out."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
