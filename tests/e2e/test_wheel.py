"""The installed wheel, without the checkout, from a folder of modules with our names."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hostile import LIGHT, PROBE, check_imports, hostile_folder
from packaging.metadata import Metadata

from curvfed.deployments.package_files import ROOMS
from curvfed.tasks.plugins import TESTS

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"

UNITS = ROOT / "extensions" / "cluster" / "systemd"
RUNS = {
    "flatland": ["method=flatland", "dataset=trees"],
    "hyperfed": ["method=hyperfed", "dataset=digits"],
    "spherefed": ["method=spherefed", "dataset=digits"],
    "hull": ["method=hull", "dataset=uniform"],
}
"""One of each family, on data that need no file."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """The interpreter of an environment with the wheel, and this environment's packages."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel], check=True
    )
    (site,) = folder.glob("lib/*/site-packages")
    others = next(path for path in map(Path, sys.path) if path.name == "site-packages")
    # As a folder of the path alone: its .pth files, and with them the checkout, are not read.
    (site / "others.pth").write_text(f"{others}\n")
    return python


@pytest.fixture
def hostile(tmp_path) -> Path:
    return hostile_folder(tmp_path / "working folder")


def call(python: Path, hostile: Path, *words: str, status: int = 0) -> str:
    """What a command says in the hostile folder, with a home of its own there."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, *words],
        cwd=hostile,
        env=environment | {"HOME": str(hostile / "home"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def test_the_wheel_is_whole(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = {name for name in opened.namelist() if not name.endswith("/")}
    wanted = {
        f"curvfed/{path.relative_to(ROOT).as_posix()}"
        for room in (*ROOMS, "deployments", "presets")
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".toml") and TESTS not in path.parts
    }
    wanted.add("curvfed/strategies/methods/index.json")
    wanted |= {f"curvfed/extensions/cluster/systemd/{path.name}" for path in UNITS.iterdir()}
    assert len(wanted) > 300
    assert wanted | {"curvfed/pyproject.toml", "curvfed/py.typed", "curvfed/__init__.py"} <= names
    assert all(name.startswith(("curvfed/", "curvfed-")) for name in names)
    assert not any({"studies", TESTS}.intersection(Path(name).parts) for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {Path(name).suffix for name in names if name.startswith("curvfed/")} == {
        *(".py", ".toml", ".typed", ".md", ".service", ".env", ".conf", ".json")
    }


LINK = re.compile(r"!?\[([^\]]*)\]\(([^)]*)\)")


def check_front_page(description: str) -> None:
    """README.md without its pictures; a link leads somewhere, or is words and a path."""
    assert [
        target for _, target in LINK.findall(description) if not re.match(r"https?://", target)
    ] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for words, target in LINK.findall(re.sub(r"!\[[^\]]*\]\([^)]*\)", "", readme)):
        path = target.partition("#")[0]
        assert re.match(r"https?://", target) or f"{words} (`{path}`)" in description
    headings = [
        line for line in readme.splitlines() if line.startswith(("#", "curvfed simulate", "| "))
    ]
    assert len(headings) > 15
    assert [
        line for line in headings if not LINK.search(line) and line not in description.splitlines()
    ] == []


def check_metadata(text: bytes) -> None:
    """What a package index reads is valid, and all that it shows is there."""
    notes = Metadata.from_email(text, validate=True)
    assert (notes.name, notes.license_expression, notes.license_files) == (
        "curvfed",
        "Apache-2.0",
        ["LICENSE"],
    )
    assert notes.description_content_type == "text/markdown"
    check_front_page(notes.description)
    assert notes.project_urls
    assert all(address.startswith("https://") for address in notes.project_urls.values())
    assert 10 < len(notes.summary) <= 200  # Flower's hub shows no more
    assert len(notes.keywords) >= 5
    # not beside an expression
    assert not [one for one in notes.classifiers if one.startswith("License ::")]
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13)} < set(
        notes.classifiers
    )


def test_the_metadata_of_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        check_metadata(opened.read(name))


@pytest.mark.long
def test_the_sources_make_the_same_wheel(wheel, tmp_path):
    subprocess.run([UV, "build", "--quiet", "--sdist", "--out-dir", tmp_path, ROOT], check=True)
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as opened:
        opened.extractall(tmp_path, filter="data")
    sources = tmp_path / packed.name.removesuffix(".tar.gz")
    check_metadata((sources / "PKG-INFO").read_bytes())
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "docs", "tests"} <= set(
        os.listdir(sources)
    )
    subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, sources], check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as again, zipfile.ZipFile(wheel) as first:
        content = [
            {one.filename: one.CRC for one in opened.infolist()} for opened in (again, first)
        ]
    assert content[0] == content[1]


def test_the_package_is_light_and_where_it_was_installed(installed, hostile):
    assert call(installed, hostile, "-c", LIGHT).strip() == "[]"
    notes = call(
        installed, hostile, "-c", "import curvfed; print(*curvfed.__path__, sep='\\n')"
    ).splitlines()
    assert [Path(place).parent.name for place in notes] == ["site-packages"]
    assert Path(notes[0]).is_relative_to(installed.parents[1])


FAMILIES = [
    pytest.param(name, marks=[] if name == "flatland" else pytest.mark.long) for name in RUNS
]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_run_of_each_family(installed, hostile, tmp_path, name):
    """In one process, which then tells where all of its modules came from."""
    notes = tmp_path / "told.json"
    call(
        installed,
        hostile,
        "-c",
        PROBE,
        str(notes),
        *RUNS[name],
        f"results-dir={tmp_path / 'results'}",
    )
    check_imports(notes, list(installed.parents[1].glob("lib/*/site-packages/curvfed")), hostile)
    assert next(tmp_path.glob("results/*/report.html")).stat().st_size > 10_000


@pytest.mark.long
def test_a_checkout_imports_nothing_twice(hostile, tmp_path):
    notes = tmp_path / "told.json"
    words = [
        sys.executable,
        "-c",
        PROBE,
        str(notes),
        *RUNS["flatland"],
        f"results-dir={tmp_path / 'results'}",
    ]
    subprocess.run(words, cwd=hostile, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    check_imports(notes, [ROOT / room for room in ("curvfed", *ROOMS, "deployments")], hostile)


def test_the_templates_of_a_report_are_there(installed, hostile):
    code = """
from curvfed.server_app.report.page import Table
print(Table("the templates are there", [], [], []).html)
"""
    assert "the templates are there" in call(installed, hostile, "-c", code)


@pytest.mark.long
def test_the_program_and_the_python_calls(installed, hostile):
    """By the name that one types; and a run made, opened and used for predictions in Python."""
    program = installed.with_name("curvfed")
    assert call(program, hostile, "--version").strip().startswith("curvfed ")
    assert "flatland.gate" in call(
        program, hostile, "check", "quick", "method=flatland", "dataset=trees"
    )
    code = """
import curvfed
made = curvfed.simulate("flatland", num_supernodes=2, num_rounds=1, run_name="mine", quiet=True)
found = curvfed.load("mine")
print(found.path == made.path, found.summary["status"], found.report().name, len(found.clients))
print(*found.predict("trees", client=1).columns)
"""
    notes = call(installed, hostile, "-c", code).splitlines()
    assert notes[-2:] == ["True completed report.html 2", "node class probability"]
