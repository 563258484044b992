"""Values of figures: those of a method as the files of a run store them, and checks of those that
clients send."""

from collections.abc import Mapping
from typing import Any

from curvfed.strategies.base.figures import SENT
from curvfed.strategies.wire.checks import MessageError


def native(value: Any) -> Any:
    """A value in Python's own types, which the files of a run can store: NumPy's and torch's
    numbers and arrays are converted, also in mappings and lists; values of other types become text.

    Examples
    --------
    >>> import numpy as np
    >>> native({"norm": np.float32(0.5), "of_layers": {"head": np.ones(2)}, "seen": {3}})
    {'norm': 0.5, 'of_layers': {'head': [1.0, 1.0]}, 'seen': '{3}'}
    """
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): native(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [native(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def check_sent(metrics: Mapping[str, float]) -> None:
    """Refuse unknown figures of a client, values out of their range, and counts that are not whole.

    Raises
    ------
    MessageError
        Names the first wrong one.
    """
    for name, value in metrics.items():
        if name not in SENT:
            raise MessageError(
                f'the metric "{name}" is unexpected; expected are {", ".join(sorted(SENT))}',
                key="unexpected-figure",
            )
        row = SENT[name]
        is_allowed = row.low <= value <= row.high
        if is_allowed and row.is_count:
            is_allowed = value == int(value)
        if not is_allowed:
            kind = "a whole number" if row.is_count else "a number"
            raise MessageError(
                f"{name} is {value}; allowed is {kind} from {row.low:g} to {row.high:g}",
                key="figure-out-of-range",
            )
