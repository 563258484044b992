"""The pictures and tables that this extension adds to a run's page."""

from collections.abc import Sequence
from dataclasses import replace

from curvfed.extensions.reports import class_scores, data_figures, run_tables
from curvfed.extensions.reports.array_files import global_test_of, hulls_of
from curvfed.extensions.reports.class_tables import class_tables, worst_clients
from curvfed.extensions.reports.run_settings import commands, configuration
from curvfed.server_app.directory.array_files import read_npz
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report.page import Table
from curvfed.server_app.report.parts import CURVES, Draw, Parts
from curvfed.server_app.report.run_figures import curvature_by_round, loss, score
from curvfed.strategies.wire.messages import FINE_TUNE
from curvfed.tasks.kinds import ADDED


def add(run: RunFiles, parts: Parts) -> Parts:
    """The parts of a page with those of this extension."""
    parts = replace(
        parts,
        tables=[*_tables(run), *parts.tables],
        headline=run_tables.headline(run),
        commands=commands(run),
        configuration=configuration(run) if run.config else None,
    )
    if _has_added_arrays(run):  # the pictures of their extension
        return parts
    pictures = [draw for draw in parts.pictures if draw not in CURVES]
    main = _main(run, parts.main)
    return replace(parts, pictures=[*_pictures(run), *pictures], main=main)


def _has_added_arrays(run: RunFiles) -> bool:
    """Whether the run has the arrays of an added kind of data."""
    files = filter(None, (kind.arrays_file for kind in ADDED.values()))
    return any(run.optional(name, read_npz) for name in files)


def _tables(run: RunFiles) -> list[Table]:
    """The tables of the run, its classes and clients."""
    return [
        *run_tables.result_tables(run),
        *class_tables(run),
        worst_clients(run),
        run_tables.client_table(run),
        run_tables.phase_table(run),
        run_tables.dropped_table(run),
    ]


def _main(run: RunFiles, main: Sequence[Draw]) -> Sequence[Draw]:
    """The candidates for the single picture of a run: the disc, or the accuracies of the server's
    model first."""
    if hulls_of(run) is not None:
        from curvfed.extensions.reports import hull_figures

        return [hull_figures.disc]
    if not _has_global_model(run):
        return main
    from curvfed.extensions.reports import model_figures

    return [model_figures.accuracy, *main]


def _pictures(run: RunFiles) -> Sequence[Draw]:
    """The functions that draw the pictures of this run, in order; each imports the modules that
    it alone needs."""
    if hulls_of(run) is not None:
        from curvfed.extensions.reports import hull_figures

        return [hull_figures.disc, hull_figures.confusion]
    curves = [score, loss, class_scores.confusion]
    of_clients = [curvature_by_round, data_figures.curvature_by_graph, data_figures.classes]
    if not _has_global_model(run):
        return [*curves, *of_clients]
    from curvfed.extensions.reports import model_figures

    of_model = [model_figures.examples, model_figures.features, model_figures.weights]
    return [model_figures.accuracy, *curves, *of_model, *of_clients]


def _has_global_model(run: RunFiles) -> bool:
    """Whether the global or the fine-tuned models were scored, or the aggregation has weights of
    its own."""
    scored = run.rounds.get("global_accuracy", ())
    weighted = run.scores.get("weight", ())
    return (
        any(scored)
        or any(weighted)
        or FINE_TUNE in run.rounds.get("phase", ())
        or global_test_of(run) is not None
    )
