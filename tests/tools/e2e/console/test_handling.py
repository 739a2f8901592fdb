"""Files of the message, the colour scheme, and the keys of the console."""

import pytest
from playwright.sync_api import Page, expect

from tests.tools.e2e.console.page import Screen, ends, send

pytestmark = pytest.mark.deep

TRANSFER = """(files) => {
  const transfer = new DataTransfer();
  for (const [name, type, text] of files) name ? transfer.items.add(new File([text], name, { type })) : transfer.setData(type, text);
  return transfer;
}"""
"""Function that returns files, and texts without a name, as they are pasted or dropped."""


def give(page: Page, event: str, *files: tuple[str, str, str]) -> bool:
    """Paste into the message, or drop onto the page. Return true if the browser would do what it does by default."""
    return bool(
        page.evaluate(
            f"""([event, files]) => {{
              const transfer = ({TRANSFER})(files);
              const made = event === "paste"
                ? new ClipboardEvent("paste", {{ clipboardData: transfer, bubbles: true, cancelable: true }})
                : new DragEvent(event, {{ dataTransfer: transfer, bubbles: true, cancelable: true }});
              return document.querySelector(event === "paste" ? "#text" : "#log").dispatchEvent(made);
            }}""",
            [event, files],
        )
    )


def test_pasted_and_dropped_files_are_sent(console: Page) -> None:
    assert not give(console, "paste", ("first.txt", "text/plain", "one"))
    assert not give(console, "dragover", ("second.txt", "text/plain", "two"))
    expect(console.locator("#compose")).to_have_class("over")
    assert not give(console, "drop", ("second.txt", "text/plain", "two"), ("third.txt", "text/plain", "three"))
    expect(console.locator("#compose")).to_have_class("")
    console.set_input_files("#files", {"name": "fourth.txt", "mimeType": "text/plain", "buffer": b"four"})
    expect(console.locator(".chip")).to_have_text(["first.txt", "second.txt", "third.txt", "fourth.txt"])
    console.get_by_role("button", name="Remove second.txt").click()
    expect(console.locator("#text")).to_be_focused()
    send(console, "hello")
    ends(console)
    expect(console.locator(".chip")).to_have_count(0)
    expect(console.locator("#log .user pre")).to_have_text(["one", "three", "four"])


def test_pasted_text_and_dragged_words_stay_text(console: Page) -> None:
    """An office program copies a text with a picture of it."""
    assert give(console, "paste", ("", "text/plain", "words"), ("image.png", "image/png", "x"))
    assert give(console, "drop", ("", "text/plain", "words"))
    expect(console.locator(".chip")).to_have_count(0)


def test_chosen_scheme_stays_until_system_has_it_too(console: Page, screen: Screen) -> None:
    backs = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 22, 26)"}
    other = "light" if screen.scheme == "dark" else "dark"
    button = console.get_by_role("button", name="Dark scheme")
    expect(console.locator("body")).to_have_css("background-color", backs[screen.scheme])
    expect(button).to_have_attribute("aria-pressed", str(screen.scheme == "dark").lower())
    button.click()
    expect(console.locator("body")).to_have_css("background-color", backs[other])
    expect(button).to_have_attribute("aria-pressed", str(other == "dark").lower())
    console.reload()
    expect(console.locator("body")).to_have_css("background-color", backs[other])
    console.goto(f"{console.url.split('#')[0]}docs")
    expect(console.locator("body")).to_have_css("background-color", backs[other])
    console.go_back()
    button.click()
    assert console.evaluate("localStorage.length") == 0
    console.emulate_media(color_scheme="light" if other == "light" else "dark")
    expect(console.locator("body")).to_have_css("background-color", backs[other])


@pytest.mark.parametrize("screen", [Screen(1280, "dark")], ids=str)
def test_keys_act_outside_of_fields_and_are_listed(console: Page) -> None:
    console.locator("#log").focus()
    console.keyboard.press("/")
    expect(console.locator("#text")).to_be_focused()
    console.keyboard.type("?/n")
    expect(console.locator("#text")).to_have_value("?/n")
    console.locator("#log").focus()
    console.keyboard.press("?")
    dialog = console.get_by_role("dialog", name="Keyboard")
    expect(dialog.locator("kbd")).to_have_text(["Enter", "Shift+Enter", "Tab, Shift+Tab", "Esc", "d", "?", "n", "/"])
    expect(dialog).to_contain_text("New conversation")
    console.keyboard.press("d")
    expect(console.locator("html:not([data-scheme])")).to_have_count(1)
    dialog.get_by_label("Single keys act outside of fields").uncheck()
    console.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    console.locator("#log").focus()
    console.keyboard.press("d")
    expect(console.locator("html:not([data-scheme])")).to_have_count(1)
    console.get_by_role("button", name="Keyboard").click()
    dialog.get_by_label("Single keys act outside of fields").check()
    dialog.get_by_role("button", name="Close").click()
    assert console.evaluate("localStorage.length") == 0


def test_console_has_icon_of_its_own(console: Page) -> None:
    href = str(console.locator("link[rel=icon]").evaluate("link => link.href"))
    answer = console.request.get(href)
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
