"""A mark for tests that export to ONNX."""

from importlib.util import find_spec

import pytest

from curvfed.extensions.exports.commands.export import ONNX_PACKAGES

needs_onnx = pytest.mark.skipif(
    not all(map(find_spec, ONNX_PACKAGES)),
    reason='exports to ONNX need its packages: pip install "curvfed[onnx]"',
)
