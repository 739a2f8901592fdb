"""The trip planner of `make dev` in the console, as a visitor uses it. The docs' screenshots are taken here."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.server import ROOT, aion_dev, serving
from tests.tools.e2e.console.page import Screen, ends, screenshot, send, show, violations

pytestmark = pytest.mark.deep

WISH = "A weekend in Lisbon in May for two"


@pytest.fixture(scope="module")
def trip() -> Iterator[str]:
    """Serve the trip planner, and return its URL."""
    with serving(
        aion_dev(str(ROOT / "examples" / "trip" / "aion.yaml"), "--no-reload"), TRIP_SECONDS_PER_WORD="0"
    ) as server:
        yield server.url


@pytest.fixture
def planner(console: Page, trip: str) -> Page:
    """Open the trip planner's console. The fixture `console` sets the screen, and checks the page afterwards."""
    console.goto(trip)
    expect(console.locator("#log .empty strong")).to_have_text("Trip planner")
    return console


def test_visitor_plans_trip_with_table_map_costs_and_file(planner: Page, screen: Screen) -> None:
    send(planner, WISH)
    ends(planner)
    answer = planner.locator("#log .agent", has=planner.locator("table"))
    expect(answer.locator("td", has_text="Museu do Azulejo")).to_be_visible()
    expect(planner.locator("#log img")).to_have_attribute("alt", "lisbon-map.png")
    expect(planner.locator("#log .work > summary")).to_contain_text("weather, sights")
    planner.locator("#log .work > summary").click()
    planner.locator("#log").evaluate("log => (log.scrollTop = 0)")
    screenshot(planner, "console", screen == (1280, "light"))
    planner.locator("#log .work > summary").click()
    send(planner, "What should I pack?")
    ends(planner)
    expect(planner.locator("#log .agent").last.locator("input[type=checkbox]").first).to_be_disabled()
    send(planner, "Give me the itinerary as a file")
    ends(planner)
    expect(planner.locator("#log a[download='lisbon-itinerary.md']")).to_be_visible()
    assert violations(planner) == []


def test_visitor_answers_question_for_dates_in_form(planner: Page, screen: Screen) -> None:
    planner.locator("#log .empty button").first.click()
    planner.keyboard.press("Enter")
    ends(planner, "input required")
    expect(planner.locator("#question label").first).to_contain_text("Day of arrival *")
    expect(planner.locator("#log .work > summary")).to_contain_text("ask_dates")
    expect(planner.locator("#log .agent", has_text="When are you going")).to_be_in_viewport(ratio=1)
    expect(planner.locator("#question button")).to_be_in_viewport(ratio=1)
    screenshot(planner, "console-question", screen == (1280, "light"))
    screenshot(planner, "console-narrow", screen == (390, "dark"))
    planner.fill("#question [name=arrival]", "2027-05-07")
    planner.fill("#question [name=nights]", "2")
    planner.click("#question button")
    ends(planner)
    expect(planner.locator("#log .agent table")).to_be_visible()
    row = show(planner, "tasks").locator(".conversation[aria-current=true]")
    expect(row).to_contain_text("completed")
    title = row.inner_text().splitlines()[0]
    planner.reload()
    expect(show(planner, "tasks").locator(".conversation[aria-current=true]")).to_contain_text(title)


def test_visitor_sees_webhook_deliveries_of_trip(planner: Page, screen: Screen) -> None:
    show(planner, "webhooks")
    planner.check("#notified")
    send(planner, WISH)
    ends(planner)
    posts = show(planner, "webhooks").locator("#hooks ol li")
    expect(posts.filter(has_text="204 ← status completed, signature verified")).to_have_count(1)
    screenshot(planner.locator("#webhooks"), "console-webhooks", screen == (1280, "light"))
