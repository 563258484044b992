"""The places of a run's data, in words."""

from collections.abc import Sequence
from pathlib import Path

from curvfed.client_app.data.load import Data, describe_size
from curvfed.deployments.arguments import NOTE, Request
from curvfed.strategies.base.run_keys import home
from curvfed.tasks import plugins
from curvfed.tasks.formats import format_of
from curvfed.tasks.images.sources import source_of
from curvfed.tasks.public_data import PublicData, find_path


def places(request: Request) -> list[tuple[str, bool]]:
    """The place of each data set of the run, in words, and whether the data exist."""
    dataset = request.config.dataset
    data_dir = request.config.data_path.expanduser()
    name = dataset.lower()
    if plugins.data_set(dataset) is not None:
        return [(f"{dataset}, by a package that is installed here", True)]
    if (images_source := source_of(dataset)) is not None:
        from curvfed.tasks.images.datasets import find

        located = find(images_source, data_dir)
        return [_public(images_source, located.files if located else None, data_dir)]
    from curvfed.tasks.graphs.data.sources import SOURCES
    from curvfed.tasks.graphs.data.tu import graph_dataset_names, is_path, tu_files
    from curvfed.tasks.points.datasets import OLSSON

    source = OLSSON if name == "olsson" else SOURCES.get(name)
    names = graph_dataset_names(dataset)
    if source is None and (is_path(dataset) or names is None):
        return [(_own_data(request.task, dataset, data_dir), True)]
    sources = [source] if source else map(tu_files, names or ())
    folders = {public: public.folder(data_dir) for public in sources}
    return [
        _public(public, [folder] if folder else None, data_dir)
        for public, folder in folders.items()
    ]


def _public(public: PublicData, files: Sequence[Path] | None, data_dir: Path) -> tuple[str, bool]:
    """The place of a public data set, or the target of its download."""
    if files is not None:
        place = f"all files in {_folders(files)}" if files else "built in"
        return f"{public.title}, {place}", True
    target = f"{data_dir}" if data_dir.is_dir() else f"{data_dir}, a new folder"
    folders = " nor in ".join(map(str, public.search_folders(data_dir)))
    line = (
        f"{public.title} is not in {folders}; the run would try to download it to {target}, as does"
    )
    return f"{line}\n{public.command(data_dir)}", False


def _own_data(task: str, dataset: str, data_dir: Path) -> str:
    """The place of a user's own data."""
    if task == "points":
        from curvfed.tasks.points import datasets as points

        return f"points in {points.locate(dataset, data_dir)}"
    if task == "images":
        from curvfed.tasks.images import datasets as images

        located = images.locate(dataset, data_dir)
        notes = [f"{NOTE}{note}" for note in located.notes]
        form = f"{located.title}, " if located.title else ""
        is_file = len(located.files) == 1 and located.files[0].is_file()
        folders = str(located.files[0]) if is_file else _folders(located.files)
        return "\n".join([f"{form}images in {folders}", *notes])
    from curvfed.tasks.graphs.data.datasets import locate
    from curvfed.tasks.graphs.data.tu_files import find_files

    if dataset.lower().endswith(".pt"):
        return str(locate(dataset, data_dir).files[0])
    path = find_path(dataset, data_dir, Path.is_dir)
    if (other := format_of(path)) is not None:
        return f"{other.title}, {path}"
    return str(find_files(path)[0])


def test_data(request: Request, client: Data | None) -> str:
    """The server's test data, in words: those of the path `test-data`, or the test images of the
    client's data set.

    Raises
    ------
    DataError
        If they are unfit.
    """
    config = request.resolved
    path = Path(config.test_data).expanduser()
    if request.task == "images":
        from curvfed.strategies.config.image_data import image_spec
        from curvfed.tasks.images import data as images
        from curvfed.tasks.images.client_images import check_test
        from curvfed.tasks.images.datasets import locate_folder

        spec = image_spec(config, config.images)
        cache = home() / "cache"
        if config.test_data == "auto":
            test = images.load_test(spec, cache)
            place = ""
        else:
            test = images.load_test_folder(path, spec, cache)
            place = f", in {_folders(locate_folder(path).files)}"
        if client:
            check_test(test, client.shape, client.class_names)
        return f"test data: {describe_size(test)}{place}"
    from curvfed.strategies.config.point_data import point_spec
    from curvfed.tasks.points import data as points

    test_points = points.load_test_file(path, point_spec(config, config.points))
    return f"test data: {describe_size(test_points) if test_points else 'no points'}, in {path}"


def _folders(files: Sequence[Path]) -> str:
    folders = [str(path if path.is_dir() else path.parent) for path in files]
    return " and ".join(dict.fromkeys(folders))
