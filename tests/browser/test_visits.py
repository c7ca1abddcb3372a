"""What visitors do: they sign in, release, read a page again, and go on when the coordinator was away."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from icalendar import Calendar
from playwright.sync_api import Page, expect

from conftest import Visit
from demo import Demo


def release(page: Page, id: str) -> None:
    """Releases a reservation from its page on."""
    page.goto(f"/reservations/{id}")
    page.get_by_role("link", name="Release…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release a reservation")
    # Reading the question again changes nothing.
    page.reload()
    page.get_by_role("button", name="Release it").click()
    page.wait_for_url(lambda url: unquote(url).endswith(f"/reservations/{id}"))


def state(page: Page) -> str:
    """The state on the page of a reservation."""
    return page.locator("main .badge").first.inner_text()


@pytest.mark.parametrize("scripts", [True, False], ids=["script", "no-script"])
def test_a_reservation_is_released_once(demo: Demo, operator: Visit, scripts: bool) -> None:
    id = demo.reserve(f"lecture-{scripts}")
    page = operator(java_script_enabled=scripts).new_page()
    release(page, id)
    assert state(page) == "terminated"
    # The answer to the form is a redirect, so it is not sent again.
    page.reload()
    assert state(page) == "terminated"
    assert page.get_by_role("link", name="Release…").count() == 0
    page.goto(f"/release/{id}")
    expect(page.locator("main")).to_contain_text("There is nothing to release")


def test_a_page_that_is_open_shows_what_happens_elsewhere(demo: Demo, operator: Visit) -> None:
    id = demo.reserve("seminar")
    context = operator()
    watching = context.new_page()
    watching.goto(f"/reservations/{id}")
    expect(watching.locator("#live")).to_have_text("live")
    assert state(watching) == "confirmed"
    release(context.new_page(), id)
    expect(watching.locator("main .badge").first).to_have_text("terminated")


def test_a_page_recovers_when_the_coordinator_was_away(demo: Demo, operator: Visit) -> None:
    page = operator().new_page()
    # Shown if the test fails.
    page.on("response", lambda answer: print(answer.status, answer.url))
    page.on("requestfailed", lambda request: print(request.failure, request.url))
    page.goto("/reservations")
    expect(page.locator("#live")).to_have_text("live")
    demo.kill()
    expect(page.locator("#live")).to_contain_text("not live")
    demo.start()
    demo.reserve("after-the-restart")
    # A stream that is refused is asked for again after 15 seconds: on a busy machine that may be twice.
    expect(page.locator("#live")).to_have_text("live", timeout=60_000)
    expect(page.get_by_role("link", name="after-the-restart")).to_be_visible()
    # What was read before is still there once.
    page.reload()
    assert page.get_by_role("link", name="after-the-restart").count() == 1


def test_a_calendar_program_reads_what_is_reserved_and_released(demo: Demo, operator: Visit) -> None:
    kept, released = demo.reserve("kept", user="erin"), demo.reserve("released", user="erin")
    page = operator().new_page()
    release(page, released)
    page.goto("/reservations?user=erin")
    with page.expect_download() as download:
        page.get_by_role("link", name="Calendar (.ics)").click()
    assert download.value.suggested_filename == "reservations.ics"
    text = Path(download.value.path()).read_bytes()
    assert all(len(line) <= 75 for line in text.split(b"\r\n"))
    calendar = Calendar.from_ical(text)
    events = {event["SUMMARY"]: event for event in calendar.walk("VEVENT")}
    assert events.keys() == {"kept", "released"}
    assert not any(event.errors for event in [calendar, *events.values()])
    found = [(str(one["STATUS"]), one["SEQUENCE"], str(one["UID"])) for one in events.values()]
    assert found == [("CONFIRMED", 0, f"{kept}@coalloc"), ("CANCELLED", 1, f"{released}@coalloc")]
    booked = json.loads(demo.run("show", kept, "--json"))["plan"]["window"]
    times = [events["kept"].decoded(name).isoformat() for name in ("DTSTART", "DTEND")]
    assert times == [booked[name].replace("Z", "+00:00") for name in ("start", "end")]
    description = str(events["kept"]["DESCRIPTION"]).splitlines()
    assert description[0] == "confirmed of erin"
    assert [line.partition(" at ")[0] for line in description[1:3]] == ["a: 1 CPU", "b: 1 CPU"]
    page.goto(str(events["kept"]["URL"]))
    expect(page.get_by_role("heading", level=1)).to_have_text("Reservation kept")


def test_a_workflow_is_drawn_with_its_critical_path(demo: Demo, operator: Visit) -> None:
    id = demo.submit_workflow("beam-time")
    plan = json.loads(demo.run("workflow", "show", id, "--json"))["workflow"]["plan"]
    page = operator().new_page()
    page.goto(f"/reservations/{id}")
    page.get_by_role("link", name="its plan").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Workflow beam-time")
    steps = [step.get("activity") or step["data"] for step in plan["criticalPath"]]
    assert page.locator("main ol li b").all_inner_texts() == steps
    drawn = page.locator("main svg.gantt a.part")
    rows = page.locator("main table tbody tr")
    channels = [one for one in plan["channels"] if one.get("paths")]
    assert drawn.count() == rows.count() == len(plan["activities"]) + len(plan["transfers"]) + len(channels)
    # The steps of the critical path have a frame in the drawing, and their numbers in the table.
    assert page.locator("main svg.gantt a.critical").count() == len(steps)
    for number, step in enumerate(steps, 1):
        expect(rows.filter(has_text=f"step {number}").locator("b")).to_have_text(step)
    page.locator("main svg.gantt a.critical").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("tr:target").inner_text().startswith(steps[0])
    page.get_by_role("link", name="Workflows").click()
    expect(page.get_by_role("link", name="beam-time")).to_be_visible()


def sign_in(page: Page, token: str) -> None:
    page.goto("/sign-in")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_a_report_of_an_experiment_is_shown_with_its_plots(operator: Visit) -> None:
    page = operator().new_page()
    page.goto("/")
    page.get_by_role("link", name="Experiments").click()
    page.get_by_role("link", name="Coordinators that compete for the same resources").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Coordinators that compete for the same resources")
    plots = page.locator("main img")
    assert plots.count() == 3
    for plot in plots.all():
        plot.scroll_into_view_if_needed()
        expect(plot).to_have_js_property("complete", True)
        assert plot.evaluate("(one) => one.naturalWidth") > 100
    # By itself a plot can be enlarged, and is drawn as before.
    page.get_by_role("link", name="Holds refused by planning time").click()
    page.wait_for_url("**/competing%2Drefused%2Esvg")
    assert page.evaluate("document.documentElement.tagName") == "svg"


def test_a_secret_address_is_made_copied_and_revoked(demo: Demo, stranger: Visit) -> None:
    demo.reserve("of-grace", user="grace")
    page = stranger().new_page()
    sign_in(page, demo.login.token("grace"))
    page.wait_for_url(demo.web + "/")
    page.get_by_role("link", name="Reservations").click()
    page.get_by_role("link", name="Subscribe to it").click()
    page.get_by_role("button", name="Make one").click()
    address = page.get_by_label("Address of the calendar").input_value()
    assert address.startswith(demo.web + "/calendar/")
    # A calendar program has no cookie and no certificate.
    program = stranger().request
    calendar = Calendar.from_ical(program.get(address).body())
    assert [event["SUMMARY"] for event in calendar.walk("VEVENT")] == ["of-grace"]

    page.get_by_role("link", name="Back").click()
    expect(page.locator("main")).to_contain_text("There is an address until")
    page.get_by_role("button", name="Revoke it").click()
    expect(page.locator("main")).to_contain_text("There is no address")
    assert program.get(address).status == 404


def test_a_token_signs_in_for_what_its_user_may_see(demo: Demo, stranger: Visit) -> None:
    demo.reserve("of-carol", user="carol")
    demo.reserve("of-dave", user="dave")
    context = stranger()
    page = context.new_page()
    page.goto("/reservations")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert context.request.get("/calendar.ics").status == 401

    sign_in(page, demo.login.token("carol", minutes=-5))
    expect(page.locator("main [role=alert]")).to_contain_text("token")
    sign_in(page, "no token, but some words")
    expect(page.locator("main [role=alert]")).to_contain_text("this is no token")

    sign_in(page, demo.login.token("carol"))
    page.wait_for_url(demo.web + "/")
    expect(page.locator(".reader")).to_have_text("Signed in by a token")
    cookies = [one for one in context.cookies() if one["name"] == "__Host-coalloc-token"]
    assert [(one["httpOnly"], one["secure"], one["sameSite"], one["expires"]) for one in cookies] == [(True, True, "Strict", -1)]
    page.get_by_role("link", name="Reservations").click()
    expect(page.get_by_role("link", name="of-carol")).to_be_visible()
    assert page.get_by_role("link", name="of-dave").count() == 0
    calendar = context.request.get("/calendar.ics").text()
    assert "of-carol" in calendar
    assert "of-dave" not in calendar

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(demo.web + "/sign-in")
    assert page.goto("/reservations").status == 401
