"""README and docs/: links lead somewhere, commands are understood, the front page is one."""

import re
import shlex
from collections import Counter
from pathlib import Path

import click
import pytest
from typer.main import get_command

from curvfed.deployments.commands.command import app
from curvfed.deployments.package_files import PRESETS, package_files
from curvfed.deployments.package_files import ROOMS as PACKAGE_ROOMS
from curvfed.extensions.sweeps import SHIPPED

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "tests" / "README.md",
]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What links into a page may name: its headings, as GitHub writes them."""
    seen: Counter[str] = Counter()
    result = set()
    for heading in re.findall(
        r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    ):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        result.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return result


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures, but for those on the web."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [target for target in targets if not re.match(r"\w+:", target)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


PROMISES = {"privacy": 30, "differential-privacy": 8}
"""Pages with a table of promises, and the minimum number of its rows."""

PROTECTION = {
    "privacy": 12_000,
    "secure-sums": 9_000,
    "differential-privacy": 8_000,
    "values": 9_000,
}
"""Pages on the protection of data, and the bytes that each may have."""


def section(page: str, heading: str) -> str:
    """The text below a heading of the second level."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("page", PROMISES)
def test_each_promise_names_its_tests(page):
    lines = section(page, "What is promised").splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    promises = [row for row in rows if not row.startswith("| ---")]
    assert len(promises) >= PROMISES[page]
    for promise in promises:
        paths = re.findall(r"`((?:\w+/)+test_\w+\.py)`", promise)
        assert paths, promise
        for path in paths:
            folder = ROOT if path.startswith("extensions/") else ROOT / "tests"
            assert "\ndef test_" in (folder / path).read_text(encoding="utf-8"), path


@pytest.mark.parametrize("page", PROMISES)
def test_a_page_of_promises_says_what_is_not_promised(page):
    assert section(page, "What is not promised").count("\n* **") >= 8


def test_pages_on_protection_are_short():
    sizes = {page: (ROOT / "docs" / f"{page}.md").stat().st_size for page in PROTECTION}
    assert [page for page, size in sizes.items() if size > PROTECTION[page]] == []
    assert sum(sizes.values()) <= 35_000


LONGEST = 20_000
"""Bytes that a page of docs/ may have."""

COMMANDS_WRITE = 60_000
"""Bytes of all pages of docs/measured and docs/results; long tables are CSV beside them."""


def test_a_page_is_read_in_one_sitting():
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert [page.name for page in pages if page.stat().st_size > LONGEST] == []
    written = [page for page in pages if page.parent.name in ("measured", "results")]
    assert sum(page.stat().st_size for page in written) <= COMMANDS_WRITE


PARTS = {"fedbabu", "fedbn", "fedper", "lg-fedavg", "local"}
"""Methods whose whole definition is the part of the parameters that is averaged."""

METHODS = sorted((ROOT / "docs" / "methods").glob("*.md"))


@pytest.mark.parametrize("page", METHODS, ids=lambda page: page.stem)
def test_a_method_has_its_formula(page):
    text = page.read_text(encoding="utf-8").split("\n## Keys\n")[0]
    assert text.count("$") % 2 == 0
    assert ("$" in text) != (page.stem in PARTS)


def test_the_messages_of_the_page_on_faults_are_those_of_the_code():
    text = (ROOT / "docs" / "wrong.md").read_text(encoding="utf-8")
    messages = re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)
    rooms = [*PACKAGE_ROOMS, "deployments", "curvfed"]
    files = [file for room in rooms for file in (ROOT / room).rglob("*.py")]
    code = "".join(file.read_text(encoding="utf-8") for file in files if "tests" not in file.parts)
    joined = re.sub(r"\"\s*\n\s*f?\"", "", code)
    assert len(messages) >= 15
    assert [message for message in messages if message not in joined] == [
        "[code: 2004]"
    ]  # Flower's


def test_the_pages_are_read_in_an_evening():
    """The text outside tables and commands."""
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")]
    lines = "".join(FENCED.sub("", page) for page in pages).splitlines()
    text = "\n".join(line for line in lines if not line.startswith("|"))
    assert len(text.encode()) <= 120_000


PICTURES = [*(ROOT / "docs" / "images").glob("*.svg"), *(ROOT / "docs" / "measured").glob("*.svg")]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_follow_the_theme_and_others_are_turned_by_the_site(picture):
    """Not both: the dark colours of a picture would become light ones on dark paper."""
    follows = "prefers-color-scheme:dark" in picture.read_text(encoding="utf-8")
    rules = (ROOT / "docs" / "static" / "site.css").read_text(encoding="utf-8")
    turned = re.findall(r"img:is\(([^)]*)\) \{ filter", rules)
    assert len(turned) == 2
    assert all((f'"{picture.name}"' in names) != follows for names in turned)
    assert not any('".svg"' in names for names in turned)
    assert follows or picture.parent.name != "images"
    assert picture.stat().st_size < 300_000


def test_the_contents_have_every_page():
    contents = ROOT / "docs" / "README.md"
    named = {(contents.parent / target).resolve() for target in links(contents)}
    site = contents.with_name("index.md")  # the contents again, with the order of the site
    assert {*(ROOT / "docs").glob("*.md")} - {contents, site} <= named


def commands(page: Path) -> list[list[str]]:
    """Lines of a page's shell blocks that begin with `curvfed`, less incomplete ones."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    return commands_of("".join(blocks))


def commands_of(block: str) -> list[list[str]]:
    """The words of each line that begins with `curvfed`, before any redirection."""
    lines = block.replace("\\\n", " ").splitlines()
    return [
        shlex.split(line.partition(" > ")[0], comments=True)[1:]
        for line in lines
        if line.startswith("curvfed ") and "…" not in line
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_commands_are_understood(page):
    """Subcommands, options, names of presets and sweeps exist; what is left are files."""
    for words in commands(page):
        command, name = get_command(app), "curvfed"
        while isinstance(command, click.Group):
            while words[0].startswith("--"):  # an option of the group, with its value
                words = words[2:]
            name, *words = words
            command = command.get_command(click.Context(command), name)
        result = command.make_context(name, words).params
        takes_names = name in (
            "simulate",
            "run",
            "check",
            "curvature",
            "compare",
            "sweep",
            "report",
        )
        named = (result.get("pairs") or [result["name"]]) if takes_names else []
        for word in named:
            known = package_files(SHIPPED if name in ("sweep", "report") else PRESETS)
            is_data = name == "curvature" and word.endswith(".tsv")
            assert "=" in word or word.endswith(".toml") or word in known or is_data, word


FOLLOWED = ("tutorial-*", "running", "data", "images", "points", "sweeps")
"""Pages whose data the page makes; the others name files of the reader's hosts."""
DOWNLOADED = "~/data"


def files_read(words: list[str]) -> list[str]:
    """Paths that a command names: values with a suffix or a folder, but no outputs."""
    outputs = [
        words[number + 1]
        for number, word in enumerate(words[:-1])
        if word in ("--out", "--to", "--results")
    ]
    values = [word.rpartition("=")[2].strip("'\"") for word in words if word not in outputs]
    shipped_names = {*package_files(PRESETS), *package_files(SHIPPED)}
    looks_like_a_path = re.compile(r"^[~.\w$/-]+(/|\.(pt|csv|npz|h5ad|toml))")
    return [
        value for value in values if looks_like_a_path.match(value) and value not in shipped_names
    ]


SECTION = re.compile(
    r"^```(?P<kind>\w+)\n(?P<text>.*?)^```|^Saved? (it )?as `(?P<name>[\w.-]+)`",
    re.MULTILINE | re.DOTALL,
)


LOOP = re.compile(r"^for (\w+) in ([\w ]+); do$(.*?)^done$", re.MULTILINE | re.DOTALL)


def turns_of_loops(code: str) -> str:
    """The commands of shell loops over words, with each word in place of the variable."""
    turns = ""
    for variable, words, commands in LOOP.findall(code):
        for word in words.split():
            turns += commands.replace(f"${variable}", word)
    return turns


@pytest.mark.parametrize(
    "page",
    [page for name in FOLLOWED for page in (ROOT / "docs").glob(f"{name}.md")],
    ids=lambda page: page.stem,
)
def test_a_page_makes_the_files_that_its_commands_read(page):
    """A block above writes each, or a command above made it as a run, or it is downloaded."""
    before = ""
    for section in SECTION.finditer(page.read_text(encoding="utf-8")):
        for words in commands_of(section["text"] or "") if section["kind"] == "sh" else []:
            for value in files_read(words):
                name = (
                    Path(value).parent.name if value.endswith(".safetensors") else Path(value).name
                )
                made = name in before or value.startswith((DOWNLOADED, "/shared/"))
                assert made, f"{' '.join(words)}: {value} is not made on this page"
            before += " ".join(words)
        before += turns_of_loops(section["text"] or "")
        before += section["name"] or (section["text"] if section["kind"] == "python" else "")
