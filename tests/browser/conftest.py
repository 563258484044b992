"""A headless Chromium, the system's own, for all tests of this folder."""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

PATIENCE = 120_000
"""Milliseconds for anything, where other tests keep the machine busy."""
NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser", "chrome")


@pytest.fixture(scope="session")
def context() -> "Iterator[BrowserContext]":
    """What pages are opened in, without a network."""
    program = os.environ.get("CURVFED_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if program is None:
        pytest.skip(
            "no Chromium here: install one (Debian: apt-get install chromium), or name one by"
            " CURVFED_CHROMIUM"
        )
    from playwright.sync_api import sync_playwright

    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program, timeout=PATIENCE) as browser,
    ):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
        context.set_default_timeout(PATIENCE)
        yield context
        context.close()


@pytest.fixture
def tab(context: "BrowserContext") -> "Iterator[Page]":
    """An empty page."""
    page = context.new_page()
    yield page
    page.close()
