"""The versions of Flower beside which curvfed installs: the pinned one and newer ones."""

from importlib.metadata import version
from pathlib import Path

import pytest

from curvfed.deployments.commands.command import main
from curvfed.deployments.flower_version import flower_and_transport

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("flower", "transport"),
    [
        ("1.39.0", "gRPC"),
        ("1.39.1rc1", "gRPC"),
        ("1.40.0", "HTTPS"),
        ("1.42.0.dev20261101", "HTTPS"),
        ("2.0", "HTTPS"),
    ],
)
def test_the_transport_of_clusters(flower, transport):
    expected = f"Flower {flower}: nodes of a cluster connect by {transport}"
    assert flower_and_transport(flower) == expected


def test_the_version_names_it(capsys):
    assert main(["--version"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"curvfed {version('curvfed')}", flower_and_transport(version("flwr"))]


def test_the_documented_line_is_the_one_that_is_tested():
    override = "--override <(echo 'flwr[simulation]>=1.40')"
    assert f"uv pip install {override} ." in (ROOT / "docs" / "install.md").read_text()
    assert override in (ROOT / "Makefile").read_text()
