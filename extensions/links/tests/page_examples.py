"""Pages of runs on links, for the tests with a browser."""

from pathlib import Path

from app_runs import QUICK, run

from curvfed.server_app.report.run_page import write_report


def of_links(folder: Path) -> Path:
    """The page of a run on a tree."""
    return write_report(run(folder, method="links", **QUICK["links"]).path)


PAGES = {"links": of_links}
