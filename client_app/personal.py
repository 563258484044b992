"""A client's files: personal parameters and moments, never sent, and the run's fixed parameters."""

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from curvfed.client_app.node import PREVIOUS, REFUSE, Node
from curvfed.geometry.arrays import Array
from curvfed.strategies.base.optimizer import NamedOptimizer
from curvfed.strategies.base.statistics import add_prefix, select_prefix
from curvfed.strategies.base.tensors import copy_tensors
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.store import LostState, Store, StoreError, file_parts, read
from curvfed.tasks.stored_files import make_private, write_atomically

PARAMETER = "parameter/"
OPTIMIZER = "optimizer/"
"""Prefixes of the names of personal tensors and of the optimiser's tensors."""

TRAINED = "trained"
"""Name of a real node's note that it has trained in a run."""

OWN_FILES = r"ledger-\d+\..*|digest\.key.*"
"""Names of the files beside the runs in a `state-path`: a ledger with its anchor and index, and the
secret."""

STATE_HINT = "give the run another run-name, or this node another state-path"
"""The remedy if the stored state belongs to another client."""

LOST_HINT = (
    "The node's lost-state = refuse keeps it out of the run; with previous it continues from its"
    " state of an earlier round, with fresh from a new one"
)
"""The remedy if a site's personal parameters are lost."""


def state_folder(results: Path, run: str, node: Node) -> Path:
    """The folder of a client's personal state.

    Simulated clients have it in the run directory, which can then be moved and resumed as a whole.
    A real node has it in its `state-path`, or below the user's folder.

    Raises
    ------
    MessageError
        If the run's name, sent by the server, is not a plain file name, or is that of one of a
        node's own files.
    """
    if not re.fullmatch(r"[\w.-]+", run) or run in (".", ".."):
        raise MessageError("the name of the run is not a plain file name", key="run-name")
    name = f"{node.partition:05d}"
    if node.is_real:
        if re.fullmatch(OWN_FILES, run):
            raise MessageError(
                f"the name of the run, {run}, is that of a file of the node", key="run-name"
            )
        return node.state_root / run / name
    return results / run / "checkpoint" / "clients" / name


def collect_state(
    personal: Mapping[str, Tensor], optimizer: NamedOptimizer | None
) -> dict[str, Array]:
    """The personal parameters and the state of the optimiser, if there is one, by name."""
    tensors: dict[str, Tensor] = add_prefix(PARAMETER, personal)
    if optimizer is not None:
        tensors |= add_prefix(OPTIMIZER, optimizer.state())
    return {key: tensor.numpy(force=True) for key, tensor in tensors.items()}


def restore_state(
    arrays: Mapping[str, Array],
    personal: Mapping[str, Tensor],
    optimizer: NamedOptimizer | None,
) -> None:
    """Inverse of `collect_state`.

    Raises
    ------
    StoreError
        If the arrays belong to another model.
    """
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    try:
        copy_tensors(tensors, add_prefix(PARAMETER, personal))
        if optimizer is not None:
            optimizer.load(select_prefix(tensors, OPTIMIZER))
    except (KeyError, ValueError) as error:
        raise StoreError(
            f"the stored personal state belongs to another model ({error}): {STATE_HINT}",
            key="other-model",
        ) from None


class FixedFile:
    """The fixed parameters of a run on disk: the server sends them once, and a real node has a new
    process for each message.

    Parameters
    ----------
    folder : Path
        The folder of the client's personal state.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fixed.safetensors"
        self._arrays: dict[str, Array] = {}

    def write(self, arrays: Mapping[str, Array], run: str) -> None:
        """Store the parameters of a run."""
        make_private(self._path.parent)
        self._arrays = dict(arrays)
        write_atomically(
            self._path, b"".join(file_parts(arrays, {"json": json.dumps(run)})), private=True
        )

    def read(self, run: str) -> dict[str, Array]:
        """The stored parameters.

        Raises
        ------
        StoreError
            If those of this run are missing; the server then sends them again.
        """
        if not self._arrays:
            try:
                arrays, header = read(self._path)
                if json.loads(header["json"]) != run:
                    raise StoreError(f"{self._path.name} belongs to another run", key="other-run")
                self._arrays = arrays
            except (OSError, KeyError, ValueError) as error:
                raise StoreError(
                    f"the fixed parameters of this run are not stored ({type(error).__name__})",
                    key="no-fixed-parameters",
                ) from None
        return self._arrays


class Notes:
    """A client's notes about a run, apart from its personal state, as lists by name.

    Parameters
    ----------
    path : Path
    durable : bool
        Whether the file must survive a power failure.
    """

    def __init__(self, path: Path, durable: bool) -> None:
        self._path = path
        self._durable = durable

    def read(self, name: str) -> list[Any]:
        """The list of this name; empty if nothing was written."""
        return list(self._all().get(name, []))

    def write(self, name: str, values: list[Any]) -> None:
        """Replace the list of this name."""
        notes = self._all()
        if notes.get(name) != values:
            make_private(self._path.parent)
            content = json.dumps(notes | {name: values}).encode()
            write_atomically(self._path, content, private=True, durable=self._durable)

    def _all(self) -> dict[str, list[Any]]:
        with contextlib.suppress(FileNotFoundError):
            return dict(json.loads(self._path.read_bytes()))
        return {}


class ClientFiles:
    """All files of a client.

    Parameters
    ----------
    folder : Path
    binding : dict
        The run, partition, method and data of the stored state.
    durable : bool
        Whether a file must survive a power failure.

    Attributes
    ----------
    store : Store
        The personal state by round.
    fixed : FixedFile
    notes : Notes
    """

    def __init__(self, folder: Path, binding: dict[str, Any], durable: bool = False) -> None:
        self.store = Store(folder)
        self.fixed = FixedFile(folder)
        self.notes = Notes(folder / "notes.json", durable)
        self._tuned = Store(folder / "tuned")
        self._binding = binding
        self._durable = durable

    def load(
        self,
        stamp: int,
        personal: Mapping[str, Tensor],
        optimizer: NamedOptimizer | None,
        lost_state: str = REFUSE,
    ) -> int:
        """Restore the state of round `stamp`. If only the optimiser's moments are lost, they start
        afresh.

        Parameters
        ----------
        lost_state : str
            The action if the personal parameters are lost: `REFUSE`, `PREVIOUS` or `FRESH`.

        Returns
        -------
        int
            The round of the restored state: `stamp`, or with `PREVIOUS` an earlier one. 0 if
            nothing is restored: the caller starts afresh.

        Raises
        ------
        StoreError
            If the personal parameters are lost and the node refuses, or the state has another
            binding.
        """
        try:
            self._load(stamp, personal, optimizer)
            return stamp
        except LostState as error:
            partition = self._binding["partition"]
            if not personal and optimizer is not None:
                log.warning(
                    "partition %s: its optimiser's moments are lost and start afresh: %s",
                    partition,
                    error,
                )
                optimizer.reset()
                return stamp
            if lost_state == REFUSE:
                raise LostState(f"{error}. {LOST_HINT}", key="lost-state") from None
            log.warning("partition %s: its personal parameters are lost: %s", partition, error)
        if lost_state != PREVIOUS:
            return 0
        for earlier in reversed([saved for saved in self.store.stamps() if saved < stamp]):
            with contextlib.suppress(LostState):
                self._load(earlier, personal, optimizer)
                return earlier
        return 0

    def _load(
        self, stamp: int, personal: Mapping[str, Tensor], optimizer: NamedOptimizer | None
    ) -> None:
        arrays, metadata = self.store.load(stamp)
        differ = [name for name, value in self._binding.items() if metadata.get(name) != value]
        if differ:
            raise StoreError(
                f"the state of round {stamp} in {self.store.folder} belongs to another"
                f" {' and '.join(differ)}: {STATE_HINT}",
                key="other-state",
            )
        restore_state(arrays, personal, optimizer)

    def save(
        self,
        stamp: int,
        personal: Mapping[str, Tensor],
        optimizer: NamedOptimizer | None,
        base: int,
    ) -> None:
        """Store the state of round `stamp`, and keep that of round `base`."""
        self.store.save(
            stamp, collect_state(personal, optimizer), self._binding, base, self._durable
        )

    def save_tuned(self, stamp: int, model: Mapping[str, Tensor]) -> None:
        """Store the fine-tuned model of round `stamp`. Models of later rounds, from before the run
        was resumed, are discarded."""
        self._tuned.discard_after(stamp)
        self._tuned.save(stamp, collect_state(model, None), self._binding, stamp, self._durable)
