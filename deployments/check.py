"""The configuration alone: what a run would use, or the one thing that is wrong with it.

    python -m deployments.check method=flatland dataset=cora data-dir=~/data
    python -m deployments.check presets/flatland.toml seed=1

Where a key leaves the choice to the task or the method, an arrow leads to what it chooses. Of a secure sum it says who
must stay to its end, and of hull what every client would send, where the number of classes is known beforehand. Nothing is
started, read or downloaded. Exit status: 0 it can run, 2 it cannot.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deployments.pairs import NUM_SUPERNODES, UsageError, pairs_parser, pop_supernodes, read_pairs
from server_app.sinks import check_installed
from strategies.config import ConfigError, RunConfig, allowed, fields, flatten, parse
from strategies.defaults import settled
from strategies.hull.public import Public
from strategies.methods import METHODS
from strategies.point_data import point_spec, public
from strategies.secure_sum.errors import SecureSumError
from strategies.secure_sum.fixed_point import SUM_PRIME
from strategies.secure_sum.session import Session
from tasks.errors import DataError
from tasks.graphs import tu
from tasks.graphs.datasets import SOURCES, complete, locate, raw_folders
from tasks.graphs.tu import graph_dataset_names
from tasks.graphs.tu_files import find_files
from tasks.images.datasets import locate as locate_images
from tasks.images.datasets import locate_folder, source_of
from tasks.points import datasets as points
from tasks.points.readers import READERS
from tasks.registry import tasks_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the effective configuration, or the error, and return the exit status."""
    options = pairs_parser("check", __doc__).parse_args(arguments)
    console = Console()
    defaults = flatten(RunConfig())
    try:
        settings = read_pairs(options.pairs, defaults | {"num-supernodes": NUM_SUPERNODES})
        number = pop_supernodes(settings, NUM_SUPERNODES)
        config = parse(settings)
        check_installed(config)
        sets = len(graph_dataset_names(config.dataset) or [""])
        if number % sets:
            raise UsageError(f"num-supernodes is {number}; allowed for {sets} data sets is a multiple of {sets}")
        told = [where_data_are(config), *what_is_summed(settled(config, _task(config)), number)]
    except (UsageError, ConfigError) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        return 2
    table = Table("key", "value", "", "allowed")
    table.columns[0].no_wrap, table.columns[3].overflow = True, "fold"
    values, in_use = flatten(config), flatten(settled(config, _task(config)))
    for key, field in fields():
        origin, style = ("set", "bold") if key in settings else ("default", "")
        # Of a plain string the type says nothing, the description what it may be.
        words = allowed(field) if allowed(field) != "a string" else str(field.description)
        value = " → ".join(dict.fromkeys((_toml(values[key]), _toml(in_use[key]))))
        table.add_row(key, escape(value), origin, escape(words), style=style)
    console.print(table)
    for line in told:
        console.print(escape(line), soft_wrap=True, highlight=False)
    return 0


def _task(config: RunConfig) -> str:
    """The task of the run; where its data set may be for several of the method's, the first."""
    return next(task for task in tasks_of(config.dataset) if task in METHODS[config.method].tasks)


def where_data_are(config: RunConfig) -> str:
    """Where the files of the data set lie, in words.

    Raises
    ------
    ConfigError
        If `dataset` or `test-data` is a path and there is no file.
    """
    task = _task(config)
    if task == "points":
        return _where_points_are(config)
    return _where_images_are(config) if task == "images" else _where_graphs_are(config)


def what_is_summed(config: RunConfig, number: int) -> list[str]:
    """What follows for the secure sums of so many clients, in words; nothing without any. `config` is settled.

    Raises
    ------
    ConfigError
        If the threshold is none for so many clients, or bins, labels and cap of their hulls do not fit.
    """
    one_shot = METHODS[config.method].is_one_shot
    if not config.is_masked:
        return []
    asked = number if one_shot else max(1, round(config.fraction_train * number))
    keys = config.secure
    try:
        session = Session("", "", 0, SUM_PRIME, 1, tuple(range(asked)), keys.threshold, keys.neighbours)
    except SecureSumError as error:
        raise ConfigError(f"num-supernodes = {number}, of whom {asked} would be summed: {error}") from None
    told = [
        f"secure sum: {session.needed} of {asked} clients must stay to its end; each shares its secrets with "
        f"{session.degree} others"
    ]
    classes = _known_classes(config) if one_shot else 0
    return told + ([_what_hulls_cost(public(config, classes, number))] if classes else [])


def _known_classes(config: RunConfig) -> int:
    """The number of classes of a run on points, 0 where it is told by the data alone."""
    built_in = 2 if config.dataset.lower() == "uniform" else 0
    return config.hull.num_classes or len(point_spec(config).kept) or built_in


def _what_hulls_cost(values: Public) -> str:
    form = "a sum for every bin" if values.is_dense else "power sums"
    return (
        f"hulls: epsilon = {values.epsilon:g} makes {values.quantizer.num_bins:,} bins; for {values.num_classes} classes "
        f"every client sends {values.length:,} numbers modulo {values.prime} ({values.length * 8 / 1000:,.1f} kB), {form}"
    )


def _where_points_are(config: RunConfig) -> str:
    key, dataset, data_dir = "dataset", config.dataset.lower(), config.data_path.expanduser()
    try:
        if dataset == "uniform":
            told = "data: uniform, generated by the run"
        elif dataset != "olsson":
            told = f"data: points in {points.locate(config.dataset, data_dir)}"
        elif (file := data_dir / points.OLSSON).is_file():
            told = f"data: Olsson, {file}"
        else:
            told = f"data: Olsson is not in {file.parent}; the run would try to download it, as does\n"
            told += points.command(data_dir)
        if config.test_data not in ("auto", "none"):
            key, file = "test-data", Path(config.test_data).expanduser()
            if file.suffix.lower() not in READERS or not file.is_file():
                raise DataError(f"no file {file}, or no file of points, {', '.join(READERS)}")
            told += f"\ntest data: points in {file}"
    except DataError as error:
        raise ConfigError(f'{key} = "{getattr(config, key.replace("-", "_"))}": {error}') from None
    return told


def _where_images_are(config: RunConfig) -> str:
    data_dir, source = config.data_path.expanduser(), source_of(config.dataset)
    key = "dataset"
    try:
        if source is None:
            told = f"data: images in {_folders(locate_images(config.dataset, data_dir).files)}"
        elif not source.folders:
            told = f"data: {source.title}, built in"
        elif (found := source.find(data_dir)) is not None:
            told = f"data: {source.title}, all files in {_folders(found.files)}"
        else:
            looked = " nor in ".join(map(str, source.looked_in(data_dir)))
            told = f"data: {source.title} is not in {looked}; the run would try to download it, as does\n"
            told += source.command(data_dir)
        if config.test_data not in ("auto", "none"):
            key = "test-data"
            told += f"\ntest data: images in {_folders(locate_folder(Path(config.test_data)).files)}"
    except DataError as error:
        raise ConfigError(f'{key} = "{getattr(config, key.replace("-", "_"))}": {error}') from None
    return told


def _folders(files: Sequence[Path]) -> str:
    return " and ".join(dict.fromkeys(str(path if path.is_dir() else path.parent) for path in files))


def _where_graphs_are(config: RunConfig) -> str:
    source = SOURCES.get(config.dataset.lower())
    if source is not None:
        return _found(source.name, complete(source, config.data_path), raw_folders(source, config.data_path))
    names = graph_dataset_names(config.dataset)
    if names is not None and not tu.is_path(config.dataset):
        where = ((name, tu.complete(name, config.data_path), tu.raw_folders(name, config.data_path)) for name in names)
        return "\n".join(_found(*one) for one in where)
    if names is not None:
        try:
            return f"data: {find_files(Path(config.dataset).expanduser())[0]}"
        except DataError as error:
            raise ConfigError(f'dataset = "{config.dataset}": {error}') from None
    if config.dataset.lower() == "trees":
        return "data: trees, generated by the run"
    try:
        return f"data: {locate(config.dataset, config.data_path).files[0]}"
    except DataError as error:
        raise ConfigError(f'dataset = "{config.dataset}": {error}; allowed is the path of a .pt graph') from None


def _found(name: str, folder: Path | None, looked: list[Path]) -> str:
    if folder is not None:
        return f"data: {name}, all files in {folder}"
    return f"data: {name} is neither in {' nor in '.join(map(str, looked))}; the run would try to download it"


def _toml(value: bool | int | float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":
    sys.exit(main())
