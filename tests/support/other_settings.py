"""A lying server that asks a node twice: first under other settings than those of its run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from app_runs import SMALL, Handle, dotted_keys, phase_of
from flwr.app import Message, RecordDict

from curvfed.client_app import app as client_app
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import RunConfig


def keys_under(folder: Path, settings: Mapping[str, Any], name: str = "run") -> RunConfig:
    """The configuration of `app_runs.run` with these settings."""
    return parse(SMALL | {"results-dir": str(folder), "run-name": name} | dotted_keys(settings))


class FirstUnder:
    """Sends each request of a phase twice, first as if the run had another configuration. Keeps the
    errors of the first replies, and the second replies."""

    def __init__(self, patch: pytest.MonkeyPatch, other: RunConfig, phase: str) -> None:
        self.patch = patch
        self.other = other
        self.phase = phase
        self.errors: list[str] = []
        self.replies: list[RecordDict] = []

    def __call__(self, request: Message, handle: Handle) -> Message:
        if phase_of(request.content) != self.phase:
            return handle(request)
        copy = RecordDict(dict(request.content))
        first = Message(copy, 1, request.metadata.message_type)
        first.__dict__.update({**request.__dict__, "_content": copy})
        with self.patch.context() as lied:
            lied.setattr(client_app, "_config", lambda _: self.other)
            self.errors.append(str(handle(first).content["header"]["error"]))
        reply = handle(request)
        self.replies.append(RecordDict(dict(reply.content)))
        return reply
