"""Unforeseen errors of simulated clients: logged once, and kept as the cause of the run's error."""

import pickle
import traceback
from collections.abc import Callable
from typing import NamedTuple

from curvfed.strategies.run_log import log


def portable_error(error: BaseException) -> BaseException:
    """A copy of an error without frames that can be pickled; a `RuntimeError` with its class and
    text if its own class or arguments cannot.

    Examples
    --------
    >>> portable_error(KeyError("absent"))
    KeyError('absent')
    >>> portable_error(ValueError(lambda: 0)).args[0].startswith("ValueError: <function")
    True
    """
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever the methods of a user's class raise
        return RuntimeError("".join(traceback.format_exception_only(error)).strip())
    return copy


class ClientTraceback(Exception):
    """The traceback of a client in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class Failure(NamedTuple):
    """An unforeseen error of a client.

    Attributes
    ----------
    error : BaseException
    where : str
        Client, phase and round.
    text : str
        The traceback.
    places : tuple of str
        Where it was raised, which other clients may have in common.
    round : int
        The round of the message.
    """

    error: BaseException
    where: str
    text: str
    places: tuple[str, ...]
    round: int

    @property
    def portable(self) -> "Failure":
        """This failure with an error without frames, for another process."""
        return self._replace(error=portable_error(self.error))

    @property
    def received(self) -> "Failure":
        """This failure without the frames of its error, which hold the client's model; the cause of
        the error has them as text."""
        error = self.error.with_traceback(None)
        error.__context__ = None
        error.__cause__ = ClientTraceback(self.text)
        return self._replace(error=error)


_known: set[tuple[str, ...]] = set()


def log_once(failure: Failure) -> None:
    """Log a traceback, unless another client of the run had the same."""
    if failure.places in _known:
        return
    _known.add(failure.places)
    log.error(
        "%s failed; the same error of other clients is not repeated\n%s",
        failure.where,
        failure.text,
    )


_receiver: Callable[[Failure], None] = log_once


def receive_failures(receiver: Callable[[Failure], None]) -> None:
    """Let a function have the failures of the clients in this process; a new run begins."""
    global _receiver
    _known.clear()
    _receiver = receiver


def note_failure(error: BaseException, where: str, round_number: int) -> None:
    """Give a client's unforeseen error to the run, which logs it.

    Parameters
    ----------
    error : BaseException
    where : str
        Client, phase and round.
    round_number : int
    """
    text = "".join(traceback.format_exception(error))
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames]
    _receiver(Failure(error, where, text, (type(error).__name__, *places), round_number))
