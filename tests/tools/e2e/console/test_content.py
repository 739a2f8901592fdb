"""Content of messages in the console: files, forms from a JSON Schema, and hostile markup shown as text."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.tools.e2e.console.page import Opened, Screen, answer, choose, ends, last_answer, send, show


def test_script_in_agents_answer_does_not_run(console: Page) -> None:
    title = "Showing · aion console"
    choose(console, "showing")
    send(console, "hostile")
    ends(console)
    log = console.locator("#log")
    expect(log).to_contain_text('<script>document.title = "run"</script>')
    expect(log).to_contain_text("[link](javascript:document.title='run')")
    assert (
        log.locator("script, iframe, svg, style, object, embed, img:not([src^='data:image/png;base64,'])").count() == 0
    )
    assert [link for link in hrefs(console) if not link.startswith(("https://", "data:"))] == []
    for link in log.locator("a[href^='data:']").all():
        assert link.get_attribute("download"), "a data URL is saved, never opened"
    attributes = console.evaluate(
        "[...document.querySelectorAll('#log *')].flatMap((each) => each.getAttributeNames()).filter((name) => name.startsWith('on'))"
    )
    assert attributes == []
    # Wait until the task list is loaded, because a click on an entry that the console replaces has no effect.
    expect(console.locator("#task-list")).to_have_attribute("aria-busy", "false")
    show(console, "tasks").locator(".conversation").first.click()
    expect(log).to_contain_text('<script>document.title = "run"</script>')
    for panel in ("timeline", "stored"):
        for summary in show(console, panel).locator("summary").all():
            summary.click()
    expect(console).to_have_title(title)


def hrefs(console: Page) -> list[str]:
    links: list[str] = console.eval_on_selector_all("#log a", "links => links.map((link) => link.getAttribute('href'))")
    return links


def test_injected_markup_is_blocked_by_content_security_policy(console: Page, opened: Opened) -> None:
    """Inject markup into the page by script: the content security policy blocks it."""
    refused = console.evaluate("""() => {
        try {
            document.body.innerHTML = "<img src=x onerror=run()>";
        } catch (error) {
            return error.name;
        }
    }""")
    assert refused == "TypeError", "trusted types forbid the parsing of HTML"
    console.evaluate("""() => {
        document.addEventListener("securitypolicyviolation", (event) => (window.violated = event.effectiveDirective));
        const image = document.createElement("img");
        image.src = "https://example.com/pixel.png";
        document.body.append(image);
    }""")
    console.wait_for_function("() => window.violated === 'img-src'")
    console.locator("body > img").evaluate("image => image.remove()")
    # Clear the errors that the browser logged for the blocked script and image, because the fixture accepts no error.
    opened.errors.clear()


@pytest.mark.deep
def test_files_and_data_are_rendered_by_type(console: Page) -> None:
    choose(console, "showing")
    send(console, "files")
    ends(console)
    log = console.locator("#log")
    for name in ("dot.png", "dot.jpg"):
        image = log.get_by_alt_text(name)
        assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    expect(log.locator("pre")).to_have_text("naïve,1;two,2")
    expect(log.locator("audio")).to_have_attribute("aria-label", "tone.wav")
    expect(log.locator("a", has_text="film.mp4 (example.com)")).to_have_attribute(
        "href", "https://example.com/film.mp4"
    )
    with console.expect_download() as download:
        log.locator("a", has_text="paper.pdf").click()
    assert download.value.suggested_filename == "paper.pdf"
    assert Path(download.value.path()).read_bytes() == b"%PDF-1.4"
    shown = last_answer(console)
    expect(shown.locator("th")).to_have_text(["Fruit", "Price"])
    expect(shown.locator("td strong")).to_have_text("2")
    expect(shown.locator("ol li")).to_have_text(["first", "second"])
    expect(shown.locator("blockquote")).to_have_text("A quote")


@pytest.mark.deep
def test_form_selects_defaults_of_array_of_referenced_enum(console: Page) -> None:
    name = "Name" * 40
    schema = {
        "type": "object",
        "$defs": {"Color": {"enum": ["red", "green", "blue"]}},
        "properties": {
            "colors": {"type": "array", "items": {"$ref": "#/$defs/Color"}, "default": ["green", "blue"]},
            "first": {"$ref": "#/$defs/Color", "default": "blue"},
            name: {"type": "string"},
        },
    }
    show(console, "chat")
    answers, overflow = console.evaluate(
        """async (schema) => {
          const { answersOf, fieldsets } = await import("/console/form.js");
          const form = document.querySelector("#question");
          form.hidden = false;
          form.replaceChildren(...fieldsets([{ text: "", schema }], false));
          return [answersOf(form, [{ schema }]), form.scrollWidth - form.clientWidth];
        }""",
        schema,
    )
    assert answers == [{"data": {"colors": ["green", "blue"], "first": "blue"}}]
    assert overflow == 0, "a long name is wrapped"


@pytest.mark.deep
def test_form_fields_follow_patterns_types_and_options_of_json_schema(console: Page) -> None:
    properties = {
        "code": {"type": "string", "pattern": "[0-9]{2}"},
        "count": {"type": ["integer", "null"]},
        "seat": {"enum": [{"label": "Aisle", "id": 1}, {"id": 2}]},
    }
    group, choices = console.evaluate(
        """async (schema) => {
          const { answersOf, fieldsets } = await import("/console/form.js");
          const form = document.querySelector("#question");
          form.replaceChildren(...fieldsets([{ text: "", schema }], false));
          form.elements.code.value = "a12b";
          form.elements.count.value = "3";
          const [valid, [{ data }]] = [form.checkValidity(), answersOf(form, [{ schema }])];
          return [{ valid, data }, [...form.elements.seat.options].map(({ text }) => text)];
        }""",
        {"type": "object", "properties": properties, "required": list(properties)},
    )
    assert group == {"valid": True, "data": {"code": "a12b", "count": 3, "seat": {"label": "Aisle", "id": 1}}}
    assert choices == ["Aisle", '{"id":2}']


NESTED = {
    "type": "object",
    "$defs": {
        "Window": {
            "type": "object",
            "propertyOrdering": ["start", "end"],
            "properties": {"end": {"type": "string"}, "start": {"type": "string"}},
            "required": ["start", "end"],
        }
    },
    "propertyOrdering": ["window", "back", "sure", "lights", "deep"],
    "properties": {
        "sure": {"type": "boolean"},
        "lights": {"type": "boolean"},
        "back": {"$ref": "#/$defs/Window"},
        "window": {"anyOf": [{"$ref": "#/$defs/Window"}, {"type": "null"}]},
        "deep": {"$ref": "#"},
    },
    "required": ["back", "sure"],
}


@pytest.mark.deep
def test_form_has_nested_fields_in_order_of_author(console: Page) -> None:
    """A nested object is a group of fields, and a recursive one ends as JSON. An empty optional group is left out."""
    names, legends, empty, filled = console.evaluate(
        """async (schema) => {
          const { answersOf, fieldsets } = await import("/console/form.js");
          const form = document.querySelector("#question");
          form.replaceChildren(...fieldsets([{ text: "", schema }], false));
          const group = (name) => form.querySelector(`:scope > fieldset > [data-name=${name}]`);
          const names = [...form.querySelector("fieldset").children].map((each) => each.dataset.name ?? each.querySelector("[name]").name);
          const legends = [...form.querySelectorAll(":scope > fieldset > fieldset > legend")].map((each) => each.textContent);
          const empty = answersOf(form, [{ schema }]);
          group("back").querySelector("[name=start]").value = "1";
          const end = group("window").querySelector("[name=end]");
          end.value = "2";
          end.dispatchEvent(new Event("input", { bubbles: true }));
          for (const name of ["sure", "lights"]) form.querySelector(`:scope > fieldset > label > [name=${name}]`).checked = true;
          return [names, legends, empty, answersOf(form, [{ schema }])];
        }""",
        NESTED,
    )
    assert names == ["window", "back", "sure", "lights", "deep"]
    assert legends == ["window", "back *", "deep"]
    assert empty == [{"data": {"back": {"start": "", "end": ""}, "sure": False}}]
    data = {"back": {"start": "1", "end": ""}, "window": {"end": "2"}, "sure": True, "lights": True}
    assert filled == [{"data": data}]


@pytest.mark.deep
def test_form_reads_questions_in_one_place(console: Page) -> None:
    """The schema and the choices are in the metadata; the data of the question is not searched for them."""
    listed = [
        {"id": "1", "text": "A?", "choices": ["x", "y"]},
        {"id": "2", "text": "B?", "schema": {"type": "boolean"}},
    ]
    found = console.evaluate(
        """async (listed) => {
          const { questionsOf } = await import("/console/form.js");
          const parts = [{ data: { options: ["z"] } }];
          return [questionsOf({ parts, metadata: { interrupts: listed } }), questionsOf({ parts, metadata: { interruptId: "1" } })];
        }""",
        listed,
    )
    assert found == [
        [
            {"id": "1", "text": "A?", "schema": {"enum": ["x", "y"]}},
            {"id": "2", "text": "B?", "schema": {"type": "boolean"}},
        ],
        [{"id": "1", "text": "", "schema": {}}],
    ]


@pytest.mark.deep
def test_form_sends_date_time_with_its_zone(console: Page) -> None:
    schema = {
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time", "default": "2026-01-02T10:00:00Z"}},
    }
    answers = console.evaluate(
        """async (schema) => {
          const { answersOf, fieldsets } = await import("/console/form.js");
          const form = document.querySelector("#question");
          form.replaceChildren(...fieldsets([{ text: "", schema }], false));
          return answersOf(form, [{ schema }]);
        }""",
        schema,
    )
    assert answers == [{"data": {"at": "2026-01-02T10:00:00.000Z"}}]


@pytest.mark.deep
def test_console_scrolls_to_end_of_long_answer(console: Page) -> None:
    choose(console, "showing")
    for number in range(1, 4):
        send(console, "prices")
        ends(console)
        expect(console.locator("#log .agent")).to_have_count(number)
        expect(last_answer(console).locator("ol li").last).to_be_in_viewport()


@pytest.mark.deep
def test_data_of_artifact_is_shown(console: Page) -> None:
    send(console, "data")
    ends(console)
    assert json.loads(console.locator("#log .agent pre").inner_text()) == {"rows": ["first", "second"]}


def test_form_has_field_for_each_property_of_interrupt_schema(console: Page, screen: Screen) -> None:
    choose(console, "asking")
    send(console, "book")
    ends(console, "input required")
    form = console.locator("#question")
    expect(form.locator("[name]")).to_have_count(5)
    names = form.locator("[name]").evaluate_all("inputs => inputs.map((input) => input.name)")
    assert names == ["seats", "meal", "outdoors", "guests", "note"], "the order of the author"
    expect(form.locator("label").first).to_have_text("Seats *")
    expect(console.locator("#log .agent pre")).to_have_count(0)
    seats = form.get_by_label("Seats")
    assert seats.evaluate("input => [input.type, input.min, input.max, input.required]") == ["number", "1", "8", True]
    form.get_by_label("Seats").fill("9")
    form.locator("button").click()
    assert not seats.evaluate("input => input.checkValidity()")
    seats.fill("4")
    form.locator("[name=meal]").select_option("dinner")
    form.get_by_label("Outdoors").check()
    form.get_by_label("Names of the guests").fill('["Ada"')
    form.locator("button").click()
    expect(console.locator("#log .error")).to_contain_text("guests is not JSON")
    form.get_by_label("Names of the guests").fill('["Ada"]')
    form.locator("button").click()
    ends(console)
    answer(console, "4 seats, dinner, True, ['Ada']")
    expect(form).to_be_hidden()


@pytest.mark.deep
def test_form_answers_several_interrupts_at_once(console: Page) -> None:
    choose(console, "asking")
    send(console, "both")
    ends(console, "input required")
    form = console.locator("#question")
    expect(form.locator("legend")).to_have_text(["Red?", "Blue?"])
    form.locator("select").nth(1).select_option("no")
    form.locator("button").click()
    ends(console)
    expect(last_answer(console)).to_contain_text("Blue: no.")
