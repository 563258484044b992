"""Cases of a parametrised test about a method of an extension that was deleted."""

from collections.abc import Iterator
from typing import Any

import pytest
from method_page import documented_methods

from curvfed.strategies.methods import METHODS
from curvfed.tasks.plugins import SHIPPED, extension_files


def methods_in(value: Any) -> Iterator[str]:
    """All texts in the parameters of a case; of `method=NAME` the name."""
    if isinstance(value, str):
        yield value.partition(" ")[0].removeprefix("method=")
    elif isinstance(value, dict):
        yield from methods_in([*value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from methods_in(part)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases with a method of docs/methods.md that this tree lacks.

    In the whole tree there is none: a wrong name fails its test.
    """
    if len(extension_files()) == len(SHIPPED):
        return
    absent = documented_methods().keys() - set(METHODS)
    parameters = {item: getattr(item, "callspec", None) for item in items}
    left = [
        item
        for item, case in parameters.items()
        if case is not None and not absent.isdisjoint(methods_in(case.params))
    ]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
