"""The rounds of a run as a bar in a notebook, instead of a line per round."""

import contextlib
import html
import logging
import sys
from collections.abc import Iterator
from typing import Any

log = logging.getLogger("curvfed")


class _Bar(logging.Handler):
    """Draws the log lines about rounds as a bar."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        """Redraw the bar; errors of the notebook are ignored."""
        if _is_other(record):
            return
        done, rounds = record.rounds  # type: ignore[attr-defined]
        text = html.escape(record.getMessage())
        with contextlib.suppress(Exception):
            from IPython.display import HTML, display

            bar = HTML(f'<progress value="{done}" max="{rounds}"></progress> {text}')
            if self._shown is None:
                self._shown = display(bar, display_id=True)
            else:
                self._shown.update(bar)


@contextlib.contextmanager
def round_bar() -> Iterator[None]:
    """Within the block a notebook shows the rounds as a bar, if the log shows them."""
    module = sys.modules.get("IPython")
    if not hasattr(module and module.get_ipython(), "kernel"):  # a terminal's IPython has none
        yield
        return
    bar = _Bar()
    lines = log.handlers.copy()
    for handler in lines:
        handler.addFilter(_is_other)
    log.addHandler(bar)
    try:
        yield
    finally:
        log.removeHandler(bar)
        for handler in lines:
            handler.removeFilter(_is_other)


def _is_other(record: logging.LogRecord) -> bool:
    return not hasattr(record, "rounds")
