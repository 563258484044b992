"""What a test says of an error: its key, and what its text names."""

import contextlib
from collections.abc import Iterator

import pytest

from curvfed.tasks import plugins, shipped
from curvfed.tasks.errors import DataError, KeyedError


@contextlib.contextmanager
def refuses(
    key: str, *fragments: object, error: type[KeyedError] = DataError
) -> Iterator[pytest.ExceptionInfo[KeyedError]]:
    """Expect an `error` of kind `key`, such as "no-label-column", whose text holds all fragments:
    the value, the place, what is allowed. The caller may look at the yielded error afterwards."""
    with pytest.raises(error) as caught:
        yield caught
    # A tree without an extension says of a path that nobody reads there what it lacks.
    if plugins.absent_hint(*shipped.DATA) and caught.value.key == "data.unknown-format":
        return
    assert caught.value.key == f"{type(caught.value).area}.{key}", str(caught.value)
    missing = [str(fragment) for fragment in fragments if str(fragment) not in str(caught.value)]
    assert not missing, f"{caught.value!s} names no {missing}"
