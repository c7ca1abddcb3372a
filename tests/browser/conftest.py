"""What the tests of the page share: the demonstration, a browser, and visitors with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from demo import Demo


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """One federation for all tests: each makes the reservations that it changes."""
    demo = Demo(tmp_path_factory.mktemp("run") / "demo")
    try:
        yield demo
    finally:
        demo.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of this machine."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


Visit = Callable[..., BrowserContext]


@pytest.fixture
def stranger(demo: Demo, browser: Browser) -> Iterator[Visit]:
    """Makes a browser without a certificate; what is given are options of playwright's context."""
    contexts = []

    def visit(**options: object) -> BrowserContext:
        # The authority of the demonstration is nobody's whom the browser knows.
        context = browser.new_context(base_url=demo.web, ignore_https_errors=True, **options)
        context.set_default_timeout(15_000)
        contexts.append(context)
        return context

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture
def operator(demo: Demo, stranger: Visit) -> Visit:
    """Makes a browser with the operator's certificate."""

    def visit(**options: object) -> BrowserContext:
        files = {"certPath": Path(demo.identity, "certificate.pem"), "keyPath": Path(demo.identity, "key.pem")}
        return stranger(client_certificates=[{"origin": demo.web} | files], **options)

    return visit
