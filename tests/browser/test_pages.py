"""Every page, as it looks and as it is operated: what one page does wrong is listed with its address.

Pages are found by their links, from the navigation on. So a new page is tested without a word here.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from conftest import Visit
from demo import Demo

# Widths of a telephone and of a desk, in pixels.
NARROW, WIDE = 360, 1200
# Pages that there must be; what the navigation has more is found.
KNOWN = {"/", "/map", "/reservations", "/health", "/reservations/*", "/release/*", "/workflows", "/workflows/*"}
KNOWN |= {"/experiments", "/experiments/*"}


class Links(HTMLParser):
    """The addresses that a page links."""

    def __init__(self) -> None:
        super().__init__()
        self.all: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all += [value for name, value in attrs if tag == "a" and name == "href" and value]


def kind(address: str) -> str:
    """What all pages of one kind share: `/reservations/grc-7` is of `/reservations/*`."""
    first, *rest = urlsplit(address).path.removeprefix("/").split("/")
    return "/" + first + "/*" * bool(rest)


def addresses(context: BrowserContext, web: str) -> dict[str, str]:
    """One address of each kind of page, by following links."""
    found, left = {}, ["/"]
    while left:
        address = left.pop(0)
        if kind(address) in found:
            continue
        answer = context.request.get(address)
        assert answer.ok, f"{address}: {answer.status} {answer.status_text}"
        found[kind(address)] = address
        if not answer.headers["content-type"].startswith("text/html"):
            # A file to keep is no page.
            found[kind(address)] = ""
            continue
        links = Links()
        links.feed(answer.text())
        own = [urlsplit(urljoin(web + address, link)) for link in links.all]
        assert all(f"{one.scheme}://{one.netloc}" == web for one in own), (address, links.all)
        left += [one.path + ("?" + one.query if one.query else "") for one in own]
    return {one: address for one, address in found.items() if address}


# Marks the content that a page comes with: what is read again has no mark.
MARK = """document.addEventListener("DOMContentLoaded", () => {
    const main = document.getElementById("main");
    if (main) { main.dataset.first = "yes"; }
});"""


def open_page(page: Page, address: str) -> None:
    """Opens a page and waits until it is as it stays: a live page is read again when its stream begins."""
    page.goto(address)
    if page.locator("main[data-live]").count():
        expect(page.locator("main[data-first]")).to_have_count(0, timeout=15_000)
    # What can be opened is looked at, too.
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")


def check_tab_order(page: Page) -> list[str]:
    """Complains of links and fields that the tab key does not reach, or that do not show that they are reached."""
    count = page.evaluate(
        """() => {
            const all = [...document.querySelectorAll(
              "a[href], button, input, select, textarea, summary, [tabindex='0']")]
              .filter((one) => one.type !== "hidden" && !one.disabled && one.checkVisibility({visibilityProperty: true}))
              // What the Enter key of a form presses, out of sight and out of reach.
              .filter((one) => !(one.tabIndex === -1 && one.closest("[aria-hidden='true']")));
            window.stops = all;
            window.reached = new Set();
            window.unseen = new Set();
            document.activeElement.blur();
            addEventListener("focusin", (event) => {
              window.reached.add(event.target);
              if (getComputedStyle(event.target).outlineStyle === "none") { window.unseen.add(event.target); }
            });
            return all.length;
        }"""
    )
    # A field for a time is a stop for each of its parts, and the browser has a few of its own.
    for _ in range(count + 8 * page.locator("main input[type^=date]").count() + 5):
        page.keyboard.press("Tab")
    return page.evaluate(
        """() => {
            const name = (one) => one.outerHTML.slice(0, 120);
            const group = (one) => one.type === "radio" && one.name && [...window.reached].some((other) => other.name === one.name);
            return [
              ...window.stops.filter((one) => !window.reached.has(one) && !group(one))
                .map((one) => "tab does not reach " + name(one)),
              ...[...window.unseen].map((one) => "the focus is not seen on " + name(one)),
            ];
        }"""
    )


# A drawing's links lead to what a table has, too: the same page, or a row of the table.
DRAWINGS = """() => {
    const drawings = [...document.querySelectorAll("main svg:not(svg svg, [aria-hidden=true]), main [role=img], main img")];
    const complaints = [];
    for (const one of drawings) {
      const label = one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.getAttribute("alt");
      if (!label) { complaints.push("a drawing has no name: " + one.outerHTML.slice(0, 120)); }
      if (!document.querySelector("main table tbody tr")) { complaints.push("no table says the same as " + label); continue; }
      for (const link of one.querySelectorAll("a[href]")) {
        const href = link.getAttribute("href");
        const row = href.startsWith("#") && document.getElementById(href.slice(1));
        const same = (row || [...document.querySelectorAll("main table a[href]")].find((one) => one.getAttribute("href") === href));
        if (!same || !same.closest("table")) { complaints.push("no table has " + href + " of the drawing " + label); }
      }
    }
    return complaints;
}"""


# The marks of a drawing can be read.
MARKS = """() => [...document.querySelectorAll("main svg")].flatMap((one) => {
    const marks = [...one.querySelectorAll("text.mark")].map((mark) => [mark.textContent, mark.getBoundingClientRect()]);
    return marks.filter(([, box]) => box.width > 0)
      .filter(([, box], at, shown) => at > 0 && box.left < shown[at - 1][1].right)
      .map(([text]) => "a mark of a drawing lies over the one before: " + text);
})"""

# No name on a map lies over another one, or over a site.
NAMES = """() => [...document.querySelectorAll("main svg.map")].flatMap((one) => {
    const boxes = (all) => [...one.querySelectorAll(all)].map((mark) => [mark, mark.getBoundingClientRect()]);
    const [names, sites] = [boxes("text.name"), boxes("circle").map(([, box]) => box)];
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    // How far the box is from the middle of a site.
    const off = (from, to, at) => Math.max(from - at, 0, at - to);
    const away = (box, site) => Math.hypot(
      off(box.left, box.right, site.left + site.width / 2), off(box.top, box.bottom, site.top + site.height / 2));
    return names.filter(([name, box]) => names.some(([other, its]) => other !== name && meet(box, its))
        || sites.some((site) => away(box, site) < site.width / 2))
      .map(([name]) => "a name on the map is covered: " + name.textContent);
})"""

# On a narrow screen a cell has its heading beside it, which may be longer than what is in the cell.
HEADINGS = """() => {
    const cells = [...document.querySelectorAll("main td[data-label]")];
    return cells.filter((cell) => {
      const heading = getComputedStyle(cell, "::before");
      if (heading.content === "none") { return false; }
      const probe = document.createElement("div");
      probe.textContent = cell.dataset.label;
      probe.style.cssText = `width: ${heading.width}; font: ${heading.font}; position: absolute`;
      document.body.append(probe);
      const height = probe.clientHeight;
      probe.remove();
      return height > cell.clientHeight + 1;
    }).map((cell) => "the heading is higher than its cell: " + cell.dataset.label);
}"""


def check(page: Page, address: str, heard: list[str]) -> list[str]:
    """What is wrong with a page."""
    heard.clear()
    open_page(page, address)
    wrong = []
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    if wide[0] > wide[1]:
        wrong.append(f"it is {wide[0]} pixels wide, on a screen of {wide[1]}")
    results = Axe().run(page)
    if results.violations_count:
        wrong.append(results.generate_report())
    wrong += [one for looks in (DRAWINGS, MARKS, NAMES, HEADINGS) for one in page.evaluate(looks)]
    wrong += check_tab_order(page)
    return [f"{address}: {one}" for one in wrong + heard]


def listening(page: Page, web: str) -> list[str]:
    """A list to which is added from now on what the browser complains of, and whom else it asks."""
    page.add_init_script(MARK)
    heard: list[str] = []
    page.on("console", lambda message: heard.append(f"console: {message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("request", lambda one: None if one.url.startswith((web, "data:")) else heard.append(f"asks {one.url}"))
    return heard


@pytest.fixture(scope="session")
def walk(demo: Demo) -> None:
    """What pages are about: a reservation that can be released, and a workflow."""
    demo.reserve("walk")
    demo.submit_workflow("beamline")


@pytest.fixture
def pages(walk: None, demo: Demo, operator: Visit) -> dict[str, str]:
    """One address of each kind of page."""
    found = addresses(operator(), demo.web)
    assert found.keys() >= KNOWN, found
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_every_page_is_for_everybody(demo: Demo, operator: Visit, pages: dict[str, str], scheme: str, width: int) -> None:
    context = operator(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    heard = listening(page, demo.web)
    wrong = [one for address in pages.values() for one in check(page, address, heard)]
    assert not wrong, "\n\n".join(wrong)
    shots = Path(demo.folder, "screenshots")
    for name, address in pages.items():
        open_page(page, address)
        page.screenshot(path=shots / f"{re.sub('[/*]+', '-', name)}-{scheme}-{width}.png", full_page=True)


def test_what_a_stranger_sees_is_for_everybody(demo: Demo, stranger: Visit) -> None:
    page = stranger(viewport={"width": NARROW, "height": 900}).new_page()
    heard = listening(page, demo.web)
    assert not (wrong := check(page, "/sign-in", heard)), "\n\n".join(wrong)
    page.goto("/map")
    assert page.locator("main [role=alert]").inner_text() == "sign in first"
    # That the page is refused is told as an error by browsers, and nothing else is.
    assert [one for one in heard if "401" not in one] == []


def test_a_page_is_whole_without_a_script(pages: dict[str, str], operator: Visit) -> None:
    page = operator(java_script_enabled=False, viewport={"width": NARROW, "height": 900}).new_page()
    for address in pages.values():
        page.goto(address)
        assert page.locator("h1").count() == 1, address
        times = page.locator("main time").all_text_contents()
        assert all(time.endswith(" UTC") for time in times), (address, times)
