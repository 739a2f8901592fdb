"""docs/cards.md: its agent is served, its commands run, its client verifies the card."""

import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.utils.signing import SignatureVerificationError

from aion_core.bootstrap import build_app
from aion_core.settings import Settings
from tests.runtime.unit.loading.card_sources.sources import FIELDS, SOURCES
from tests.support import operating

GUIDE = (Path(__file__).parents[3] / "docs" / "cards.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "aion.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(script: str) -> str:
    """Run a script of `aion` commands, pipes and redirections in this process, and return what it prints."""
    run, printed = operating.runs({}), ""
    for line in script.splitlines():
        commands, _, file = line.partition(" > ")
        output = ""
        for command in commands.split(" | "):
            program, *arguments = shlex.split(command)
            ran = run(*arguments, input=output)
            assert (program, ran.exit_code) == ("aion", 0), ran.output
            output = ran.stdout
        if file:
            Path(file).write_text(output, encoding="utf-8")
        else:
            printed += output
    return printed


async def test_agent_of_cards_guide_is_served_with_verified_card(folder: Path) -> None:
    show, sign = blocks("sh")[:2]
    assert '"find-order"' in shell(show)
    assert "As v1.0: signed by" in shell(sign)
    environ = {
        "AION_STORE": "memory",
        "AION_CONFIG": str(folder / "aion.yaml"),
        "AION_CARD_KEY_FILE": str(folder / "private.pem"),
    }
    app = build_app(Settings.from_environ(environ))
    names: dict[str, Any] = {}
    exec(compile(blocks("python")[0], "docs/cards.md", "exec"), names)  # noqa: S102  # our own page
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        card = await names["trusted_card"](client, "http://test")
        assert [skill.id for skill in card.skills] == ["find-order"]
        for path in re.findall(r"^\| `(/[^`<]*)` \|", GUIDE, re.MULTILINE):
            assert (await client.get(f"http://test{path}")).status_code == 200, path

    async def tampered(request: httpx.Request) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            answer = await client.get(request.url)
        return httpx.Response(200, content=answer.content.replace(b"Answers questions", b"Sells questions"))

    async with httpx.AsyncClient(transport=httpx.MockTransport(tampered)) as client:
        with pytest.raises(SignatureVerificationError):
            await names["trusted_card"](client, "http://test")


def rows(header: str) -> dict[str, str]:
    """Return the rows of the page's table with this header, by their first column."""
    table = GUIDE.partition(f"| {header} |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `?([\w. ]+?)`? \| (.+) \|$", table, re.MULTILINE))


def test_tables_of_card_sources_are_those_of_server() -> None:
    """The fields and their sources in this table are tested one by one in test_sources.py."""
    assert {field: places.split(", ") for field, places in rows("field | places, in order").items()} == FIELDS
    assert list(rows("place | what it states")) == list(SOURCES)
