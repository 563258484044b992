"""A data set: its place, its reader, and its partition among the clients of a run."""

import copy
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

from curvfed.tasks import plugins, shipped
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import DataError
from curvfed.tasks.formats import UNKNOWN, decide
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.places import Place, folders_of, place_of
from curvfed.tasks.public_data import Located, PublicData, find_path
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import data_set_of_package, source_of

log = logging.getLogger("curvfed")


@dataclass(frozen=True)
class Spec:
    """The settings that determine the data of a run; each kind of data adds its own.

    Attributes
    ----------
    dataset : str
        A name of `curvfed.tasks.registry`, in any case, or the path of a user's file or folder.
    data_dir : Path
        The folder of the public data sets.
    """

    dataset: str
    data_dir: Path

    @classmethod
    def of_run(cls, run: Any, keys: Any = None, **settings: Any) -> Self:
        """The given settings of a run, and those that a table of its keys or the run itself has by
        the same names."""
        values = {"data_dir": run.data_path, **settings}
        for name in cls.__dataclass_fields__:
            for table in (keys, run):
                if hasattr(table, name):
                    values.setdefault(name, getattr(table, name))
        return cls(**values)


class Dataset(ABC):
    """The data set of a run, or a node's own data of this kind.

    The raw data come from a public data set, from a data set of another package, from a user's
    path, or from memory. All of them are partitioned, split and normalised in the same way.

    Parameters
    ----------
    spec : Spec
    cache : Path or None
        The folder of prepared clients, so that a client process does not read and partition the
        whole data set; None: nothing is stored.

    Attributes
    ----------
    record_split : RecordSplit or None
        The split of records by their content: a node's own, and that of every run which hides
        single records. None: the settings draw the split of each client.
    """

    examples: ClassVar[type]
    """The class of a client's examples."""

    raw: ClassVar[tuple[type, ...]]
    """The classes of the data before partitioning."""

    tasks: ClassVar[tuple[str, ...]]
    """The tasks of such data, names of `curvfed.tasks.kinds.KINDS`."""

    place_words: ClassVar[str] = ""
    """The beginning of a user's place."""

    spec: Any

    def __init__(self, spec: Spec, cache: Path | None = None) -> None:
        self.spec = spec
        self.cache = cache
        self.record_split: RecordSplit | None = None

    @classmethod
    def of_run(cls, run: Any, cache: Path | None = None) -> Self:
        """The data set of a run's configuration with resolved defaults."""
        dataset = cls.configured(run, cache)
        if run.guard.unit == "record":
            dataset.record_split = RecordSplit.of_seed(run)
        return dataset

    @classmethod
    @abstractmethod
    def configured(cls, run: Any, cache: Path | None = None) -> Self:
        """The data set, with the settings of its kind."""

    def split_by(self, record_split: RecordSplit | None) -> Self:
        """This data set with another split of the records, if there is one."""
        if record_split is None:
            return self
        dataset = copy.copy(self)
        dataset.record_split = record_split
        return dataset

    def find(self, source: PublicData) -> Located[Any] | None:
        """The files of a public data set, or None if they are absent."""
        return source.locate(self.spec.data_dir)

    @abstractmethod
    def locate_files(self, path: Path) -> Located[Any]:
        """The files of a user's path in a format of curvfed's."""

    @abstractmethod
    def part(self, partition_id: int, num_partitions: int) -> Any:
        """The examples of one client; its number is already checked."""

    @abstractmethod
    def own_data(self, raw: Any) -> Any:
        """All examples of a node's own data."""

    @staticmethod
    @abstractmethod
    def task(run: Any, examples: Any, class_names: tuple[str, ...], device: Any, model: Any) -> Any:
        """A client's `curvfed.tasks.task.Task` for a model, as the run's configuration says."""

    @staticmethod
    @abstractmethod
    def model_spec(
        run: Any,
        facts: Any,
        model: str,
        options: Mapping[str, Any],
        num_features: int,
        num_classes: int,
    ) -> Any:
        """The settings of the network that a run trains on such data.

        Parameters
        ----------
        run : RunConfig
            With its defaults resolved.
        facts : Facts
            Of all clients.
        model : str
            The name of the network; "" for none.
        options : mapping of str to value
            Further settings that the method sets.
        num_features, num_classes : int
            Those of the client, for facts without them.

        Raises
        ------
        ModelError
            If such data cannot have the network.
        """

    @staticmethod
    def unused(run: Any, examples: Any, model: str) -> list[str]:
        """Parts of a client's examples that a network does not use, in words."""
        return []

    def locate(self, name: str = "") -> Located[Any]:
        """Find the files of the data set, or of the one of several with this name.

        Absent files of a public data set are downloaded. A relative path is looked up in the
        working folder, then in the data folder.

        Raises
        ------
        DataError
            An unknown name, an absent path, or a failed download; names the folders searched and
            the command to download the files.
        """
        name = name or self.spec.dataset
        source = source_of(name)
        if source is not None:
            return source.find_or_download(self.spec.data_dir, lambda: self.find(source))
        data_set = data_set_of_package(name)
        if data_set is not None:
            return self._of_package(name, data_set)
        return self.locate_own(find_path(name, self.spec.data_dir))

    def locate_own(self, path: Path) -> Located[Any]:
        """The files of a user's path.

        Raises
        ------
        DataError
            If they are absent, incomplete or ambiguous, or in a format of other data than this
            run's.
        """
        decision = decide(path)
        form = decision.form
        if form is UNKNOWN and plugins.absent_hint(*shipped.DATA):
            raise DataError(
                f"{path}: {decision.reason}{plugins.absent_hint(*shipped.DATA)}",
                key="unknown-format",
            )
        if not {*form.tasks} & {*self.tasks}:
            raise DataError(
                f"{path} is {form.title}, with {' or '.join(form.tasks)} ({decision.reason}); the"
                f" run needs {' or '.join(self.tasks)}{plugins.absent_hint(*shipped.DATA)}",
                key="other-data",
            )
        located = decision.locate() if form.reader else self.locate_files(path)
        return replace(located, path=path)

    def _of_package(self, name: str, data_set: plugins.DataSet) -> Located[Any]:
        """The files of another package's data set, including its module, and their reader."""
        folder = self.spec.data_dir.expanduser()

        def read() -> Any:
            try:
                raw = data_set.load(folder)
            except DataError:
                raise
            except Exception as error:
                raise DataError(
                    f'the data set "{name}" cannot be loaded ({type(error).__name__}: {error}) by'
                    f" {data_set.load!r}",
                    key="plugin-data-set",
                ) from error
            if not isinstance(raw, self.raw):
                allowed = " or ".join(kind.__name__ for kind in self.raw)
                raise DataError(
                    f'the data set "{name}" is loaded as {type(raw).__name__}; allowed is'
                    f" {allowed}",
                    key="plugin-data-set",
                )
            return self.checked(f'the data set "{name}"', raw)

        module = sys.modules[plugins.module_of("datasets", name)]
        return Located((*data_set.files(folder), Path(str(module.__file__))), read)

    def checked(self, where: str, raw: Any) -> Any:
        """Another package's data; DataError if their parts do not fit together."""
        return raw

    def client(self, partition_id: int, num_partitions: int) -> Any:
        """The examples of client `partition_id` of `num_partitions`.

        The first call prepares all clients and stores them in the cache; later calls read one file.

        Raises
        ------
        DataError
            Absent or unfit data, too few examples, or a `partition_id` out of range.
        """
        if not 0 <= partition_id < num_partitions:
            raise DataError(
                f"partition-id is {partition_id}; with {amount(num_partitions, 'client')} it must"
                f" be in 0..{num_partitions - 1}",
                key="partition-id",
            )
        examples = self.part(partition_id, num_partitions)
        return _log_history(self.spec.dataset, examples, partition_id)

    def own(self, path: Path) -> Any:
        """All examples of a node's own file or folder, split by its own parts or by
        `record_split`, without which the split is random.

        A real node starts a process per message: with a cache the prepared examples are stored
        there, readable only for its user.

        Raises
        ------
        DataError
            Absent or unfit data.
        """
        located = self.locate_own(path.expanduser())
        if self.cache is None:
            return _log_history(str(path), self.own_data(located.read()))

        def prepare() -> list[Any]:
            for note in located.notes:
                log.warning("%s", note)
            return [self.own_data(located.read())]

        examples = self.prepared(located, 0, self.own_settings(), prepare)
        return _log_history(str(path), examples)

    def own_settings(self) -> dict[str, Any]:
        """The settings that determine a node's own examples."""
        return {}

    def in_memory(self, raw: Any) -> Any:
        """All examples of a node's own data in memory."""
        return _log_history("data in memory", self.own_data(raw))

    def test(self, path: Path | None = None) -> Any:
        """The server's test examples: those of a path, or the test part of the data set; None if
        missing."""
        return None

    def prepared(
        self,
        located: Located[Any],
        number: int,
        settings: Mapping[str, Any],
        prepare: Callable[[], Iterable[Any]],
    ) -> Any:
        """Client `number` of those that `prepare` makes from these files and settings; from the
        cache if it is there."""
        if self.cache is None:
            return next(islice(prepare(), number, None))
        from curvfed.tasks import examples  # imports torch, which points do not need

        if self.record_split is not None:
            settings = {**settings, "record_split": self.record_split.name}
        folder = self.cache / examples.cache_key(settings, located.files)
        return examples.load_prepared(self.examples, folder, number, prepare)

    def sources(self) -> list[PublicData]:
        """The public data sets of the run."""
        source = source_of(self.spec.dataset)
        return [] if source is None else [source]

    def places(self) -> list[Place]:
        """The place of each data set of the run; nothing is downloaded.

        Raises
        ------
        DataError
            If a user's own data are absent or unfit, or absent data cannot be downloaded.
        """
        sources = self.sources()
        if sources:
            data_dir = self.spec.data_dir
            return [place_of(source, partial(self.find, source), data_dir) for source in sources]
        if data_set_of_package(self.spec.dataset) is not None:
            return [Place(f"{self.spec.dataset}, by a package that is installed here")]
        located = self.locate()
        form = f" ({located.title})" if located.title else ""
        text = f"{self.place_words}{self.where(located)}{form}"
        decision = decide(located.path) if located.path else None
        return [Place(text, notes=located.notes, decision=decision)]

    def where(self, located: Located[Any]) -> str:
        """The file or the folders of a user's own data, in words; of another tool's format, the
        path that the user gave."""
        if located.title:
            return str(located.path)
        if len(located.files) == 1 and not located.files[0].is_dir():
            return str(located.files[0])
        return folders_of(located.files)


def dataset_class(task: str) -> type[Dataset]:
    """The implementation for a task, imported where a run has such data."""
    implementation: type[Dataset] = KINDS[task].part("dataset")
    return implementation


def _log_history(source: str, examples: Any, partition_id: int = 0) -> Any:
    """Log how the first client's data were split and partitioned, and return the examples."""
    history = getattr(examples, "history", "")
    if history and not partition_id:
        log.info("%s: %s", source, history)
    return examples
