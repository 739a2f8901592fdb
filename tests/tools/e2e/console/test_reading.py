"""Texts of messages in the console: Markdown while it streams and afterwards, code, pictures, and texts without a renderer."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Request, Route, expect

from tests.support.e2e.talking import WHOLE
from tests.tools.e2e.console.agents import PIXEL
from tests.tools.e2e.console.page import Opened, Screen, answer, ends, last_answer, send, show

RENDERING = "**/console/markdown*"
TEXT = f"""# One
### Three
*a **b** c* ~~gone~~ `x` [site](https://example.com/A_(b)) https://example.com/c. [notes](docs/notes.md)

| left | right |
| :-- | --: |
| 1 | 2 |

- [x] done
- [ ] open

3. three
4. four
   ```python
   def greet(name="x"):  # comment
       return 42
   ```

---

> quote
> on two lines

```html
<script>document.title = "run"</script>
```

![dot](data:image/png;base64,{PIXEL}) ![far](https://pictures.example/x.png) ![chart](chart.png)
"""


def draw(page: Page, text: str) -> Locator:
    """Show a text as the only message of the chat, wait until it is rendered, and return the message."""
    page.evaluate(
        """async (text) => {
          const [{ element, part }, log] = [await import("/console/render.js"), document.querySelector("#log")];
          log.replaceChildren(element("div", { class: "message agent", dir: "auto" }, ...part({ text })));
        }""",
        text,
    )
    message = show(page, "chat").locator("#log .message")
    expect(message.locator(".plain")).to_have_count(0)
    return message


def test_markdown_of_message_is_rendered(console: Page) -> None:
    shown = draw(console, TEXT)
    sizes = shown.locator("h3, h5").evaluate_all(
        "each => each.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert sizes[0] > sizes[1] >= 15
    expect(shown.locator("em strong")).to_have_text("b")
    expect(shown.locator("s")).to_have_text("gone")
    expect(shown.locator("th").nth(1)).to_have_css("text-align", "right")
    expect(shown.locator(".todo input")).to_have_count(2)
    assert [box.is_checked() for box in shown.locator(".todo input").all()] == [True, False]
    expect(shown.locator("ol")).to_have_attribute("start", "3")
    expect(shown.locator("ol .code small")).to_have_text("python")
    expect(shown.locator("ol .keyword")).to_have_text(["def", "return"])
    expect(shown.locator("hr")).to_have_count(1)
    expect(shown.locator("blockquote br")).to_have_count(1)
    expect(shown.locator("script")).to_have_count(0)
    expect(shown.locator("pre").last).to_have_text('<script>document.title = "run"</script>')
    links = shown.locator("a").evaluate_all("links => links.map((link) => link.href)")
    assert links == ["https://example.com/A_(b)", "https://example.com/c", "https://pictures.example/x.png"]
    expect(shown).to_contain_text("notes (docs/notes.md)")


@pytest.mark.deep
def test_wide_table_scrolls_and_breaks_no_word(console: Page) -> None:
    heads, cells = " | ".join(["Quantity"] * 12), " | ".join([r"a \| b"] * 12)
    shown = draw(console, f"| {heads} |\n|{'---|' * 12}\n| {cells} |")
    expect(shown.locator("td")).to_have_text(["a | b"] * 12)
    assert shown.locator(".scroll").evaluate("box => box.scrollWidth > box.clientWidth")
    row = "table => table.rows[0].clientHeight < 2 * parseFloat(getComputedStyle(table).lineHeight)"
    assert shown.locator("table").evaluate(row)


@pytest.mark.deep
def test_list_in_right_to_left_text_stays_in_its_message(console: Page) -> None:
    shown = draw(console, "\u05e9\u05dc\u05d5\u05dd\n\n- \u05d0\n  - \u05d1")
    ends = shown.locator("li").evaluate_all("items => items.map((item) => item.getBoundingClientRect().right)")
    box = shown.bounding_box()
    assert box is not None
    assert box["x"] + box["width"] - ends[0] > 20, "the bullet is inside"
    assert ends[1] < ends[0], "the nested item is indented"


@pytest.mark.deep
def test_code_is_copied_by_its_button(console: Page) -> None:
    console.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown = draw(console, TEXT)
    shown.locator("ol .code button").click()
    expect(shown.locator("ol .code button")).to_have_text("Copied")
    assert console.evaluate("navigator.clipboard.readText()") == 'def greet(name="x"):  # comment\n    return 42'


@pytest.mark.deep
def test_only_pictures_of_task_and_data_are_shown(console: Page, requests: list[str]) -> None:
    """A picture of another host is a link that names it. A picture of the task may come after the text that shows it."""
    shown = draw(console, TEXT)
    expect(shown.locator("img")).to_have_count(1)
    expect(shown.locator("a", has_text="far (pictures.example)")).to_be_visible()
    expect(shown).to_contain_text("chart (chart.png)")
    file = {"raw": PIXEL, "filename": "chart.png", "mediaType": "image/png"}
    console.evaluate("async (file) => (await import('/console/render.js')).part(file)", file)
    expect(shown.get_by_alt_text("chart")).to_have_attribute("src", f"data:image/png;base64,{PIXEL}")
    expect(draw(console, "![again](./sub/chart.png)").get_by_alt_text("again")).to_have_count(1)
    assert requests == []


@pytest.fixture
def requests(opened: Opened) -> list[str]:
    """Return the URLs of the page's requests to other hosts, noted from now on."""
    foreign: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith((opened.url, "data:", "blob:")):
            foreign.append(request.url)

    opened.page.on("request", note)
    return foreign


def sizes_of_requests(page: Page) -> list[int]:
    """Return the sizes of the page's requests for Markdown in bytes, noted from now on."""
    sizes: list[int] = []

    def note(request: Request) -> None:
        if "/console/markdown" in request.url:
            sizes.append(len(request.post_data or ""))

    page.on("request", note)
    return sizes


def grown(page: Page, text: str, size: int) -> str:
    """Let a text grow by pieces of a size, each rendered before the next one. Return the HTML of its message."""
    page.evaluate(
        """async () => {
          const [{ element }, { Text }] = [await import("/console/render.js"), await import("/console/text.js")];
          window.text = new Text();
          document.querySelector("#log").replaceChildren(element("div", { class: "message agent", dir: "auto" }, text.shown));
        }"""
    )
    message = show(page, "chat").locator("#log .message")
    for end in [*range(size, len(text), size), len(text)]:
        with page.expect_response(RENDERING):
            page.evaluate("([part, isOpen]) => void text.update(part, isOpen)", [text[:end], end < len(text)])
        if size < end <= 2 * size:
            page.evaluate("() => (window.first = document.querySelector('#log .text').firstElementChild)")
    expect(message.locator(".plain")).to_have_count(0)
    return html(message)


def html(message: Locator) -> str:
    return str(message.locator(".text").evaluate("text => (text.normalize(), text.innerHTML)"))


@pytest.mark.deep
def test_growing_text_is_rendered_like_its_whole(console: Page) -> None:
    text = TEXT.replace("chart.png", "other.png")
    expected = html(draw(console, text))
    sizes = sizes_of_requests(console)
    assert grown(console, text, 30) == expected
    assert console.evaluate("first === document.querySelector('#log .text').firstElementChild"), (
        "a finished block stays"
    )
    assert max(sizes) < len(text) / 2, "only unfinished blocks are rendered anew"


@pytest.mark.deep
def test_reference_is_resolved_at_end_of_message(console: Page) -> None:
    text = "See [the guide][1].\n\nMore.\n\n[1]: https://example.com/guide\n\nLast [one][1]."
    grown(console, text, 20)
    expect(console.locator("#log .text a")).to_have_count(2)


@pytest.mark.deep
def test_long_text_is_rendered_in_pieces(console: Page) -> None:
    """Show a text longer than a request, with a block that is longer than a piece."""
    code = "\n".join(f"row{place} = {place}" for place in range(2000))
    text = "\n\n".join(
        [*(f"Paragraph **{place}** \U0001f600 " + "word " * 40 for place in range(400)), f"```py\n{code}\n```", "*End*"]
    )
    shown = draw(console, text)
    assert len(text) > 100_000
    expect(shown.locator("p > strong")).to_have_count(400)
    assert shown.locator("pre").text_content() == code
    expect(shown.locator("em")).to_have_text("End")


@pytest.mark.deep
def test_markdown_of_many_brackets_is_drawn(console: Page) -> None:
    """Draw 200 KB of brackets. Each may begin a link, and no block of this length is rendered: it is shown as it is written."""
    text = "![" * 100_000
    console.evaluate(
        """async (text) => {
          const { part } = await import("/console/render.js");
          document.querySelector("#log").replaceChildren(...part({ text }));
        }""",
        text,
    )
    assert show(console, "chat").locator("#log").text_content() == text


@pytest.mark.deep
def test_text_without_renderer_is_shown_as_written(console: Page, opened: Opened) -> None:
    """The page asks once only whether the server renders Markdown."""
    asked: list[str] = []

    def refuse(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=501, json={"error": {"code": 501, "message": "Not installed."}})

    console.route(RENDERING, refuse)
    for count in (1, 2):
        send(console, "markup")
        ends(console)
        expect(console.locator("#log .agent")).to_have_count(count)
        expect(last_answer(console)).to_contain_text("**bold**\n\n- one", use_inner_text=True)
    assert len(asked) == 1
    console.unroute_all()
    opened.errors.clear()  # the browser notes the status 501


@pytest.mark.deep
def test_text_is_rendered_after_failed_request(console: Page, opened: Opened) -> None:
    failures = [500, 429]

    def fail(route: Route) -> None:
        route.fulfill(status=failures.pop(), json={"error": "failed"}) if failures else route.fallback()

    console.route(RENDERING, fail)
    expect(draw(console, "**bold**").locator("strong")).to_have_text("bold")
    assert failures == []
    console.unroute_all()
    opened.errors.clear()  # the browser notes these statuses


@pytest.mark.deep
def test_deployed_console_renders_when_message_ends(console: Page, folder: Path, screen: Screen) -> None:
    file = f"deployed-{screen.width}-{screen.scheme}"
    features = {"agent": "talk", "development": False, "receiver": ""}
    console.route("**/console/features.json", lambda route: route.fulfill(json=features))
    console.goto(console.url)
    sizes = sizes_of_requests(console)
    send(console, f"gate {file}")
    expect(last_answer(console).locator(".plain")).to_contain_text("word5")
    assert len(sizes) == 1, "the user's message"
    (folder / file).touch()
    ends(console)
    expect(console.locator("#log .plain")).to_have_count(0)
    answer(console, WHOLE)
    assert len(sizes) == 2
    console.unroute_all()


@pytest.mark.deep
def test_answer_of_ten_thousand_words_is_rendered_while_it_streams(console: Page, screen: Screen) -> None:
    """Print the longest frame. Expect each paragraph once, and that the page asks for no block again that was finished."""
    sizes = sizes_of_requests(console)
    console.evaluate("""() => {
      const frames = (window.frameTimes = []);
      let last = performance.now();
      const tick = (now) => { frames.push(now - last); last = now; requestAnimationFrame(tick); };
      requestAnimationFrame(tick);
    }""")
    send(console, "essay 10000")
    ends(console)
    shown = last_answer(console)
    expect(shown.locator("p").last).to_have_text("That is all.")
    longest = console.evaluate("Math.max(...frameTimes)")
    print(f"10,000 words on {screen}: longest frame {longest:.0f} ms, {len(sizes)} requests, {sum(sizes)} bytes")
    starts = shown.locator("p").evaluate_all("each => each.map((one) => one.textContent.split(' ')[0])")
    assert starts[:80] == [f"word{place}" for place in range(0, 10_000, 125)]
    expect(shown.locator("tbody tr")).to_have_count(60)
    assert len(shown.locator("pre").inner_text().splitlines()) == 80
    assert max(sizes) < 20_000
