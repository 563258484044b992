"""Reports in a browser: nothing is fetched or wrong, every picture is there, light and dark."""

import pytest
from app_runs import EVERY, QUICK, run
from browser_page import check_page
from hull_nodes import hull_run
from report_page import HOSTILE

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary
from curvfed.server_app.report.run_page import write_report
from curvfed.strategies.config.parse import parse


@pytest.mark.long
@pytest.mark.parametrize(("method", "task"), EVERY)
@pytest.mark.usefixtures("own_home")
def test_the_page_of_every_method(method, task, tab, tmp_path):
    result = run(tmp_path, method=method, **QUICK[task])
    assert result.summary["status"] == "completed"
    # which has no rounds
    check_page(tab, write_report(result.path), pictures=1 if method == "discriminant" else 2)


@pytest.mark.parametrize("text", [HOSTILE, "x" * 1000], ids=["hostile", "one long word"])
def test_the_page_of_a_run_that_failed(text, tab, tmp_path):
    config = parse({"results-dir": str(tmp_path), "run-name": "failed"})
    directory = RunDirectory.open(config)
    directory.write_summary(failed_summary(text, "config", config))
    check_page(tab, write_report(directory.path), pictures=0)


FAULTS = {
    "script": "<script>console.error('so')</script>",
    "error": "<script>so()</script>",
    "fetched": '<img src="http://localhost:9/so.png" alt="">',
    "broken": '<img src="data:," alt="">',
    "wide": '<div style="width: 90rem">so</div>',
    "small": "<style>svg { display: none !important }</style>",
    "cut": (
        "<div style='overflow: hidden; width: 3rem; white-space: nowrap'>so it is not all"
        " shown</div>"
    ),
    "beyond": (
        "<svg viewBox='0 0 100 100' width='100' height='100'><text x='60' y='50'>so on</text></svg>"
    ),
    "white": "<div style='background: white; height: 3rem'></div>",
    "scrolled": "<div style='overflow: auto; width: 9rem'><table><tr><td>"
    + "so_wide" * 9
    + "</td></tr></table></div>",
    "folded": "<style>details::details-content { content-visibility: hidden !important }</style>",
    "dark paper": "<style>@media print { body { background: black !important } }</style>",
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page with which nothing is wrong."""
    return write_report(hull_run(tmp_path_factory.mktemp("sound")).path).read_text()


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_page_is_found(fault, sound, tab, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(sound.replace("</main>", f"</main>{FAULTS[fault]}"))
    with pytest.raises(AssertionError):
        check_page(tab, path)
