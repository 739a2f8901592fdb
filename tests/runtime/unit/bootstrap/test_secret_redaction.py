"""Redaction of aion.yaml's secrets in log lines."""

import io
import json
import logging
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from aion_core import log
from aion_core.bootstrap.agent_environment import AgentEnvironment
from aion_core.redaction import REDACTED
from tests.runtime.unit.bootstrap.test_agent_environment import declared, forgotten, now, unique  # noqa: F401  # a fixture
from tests.support.clock import ManualClock


def lines_of(*values: object) -> str:
    """Log the values through an agent's own log handler, and return its output."""
    log.install()
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("an.agents.own")
    logger.addHandler(handler)
    try:
        for each in values:
            if isinstance(each, BaseException):
                logger.error("It failed.", exc_info=each)
            else:
                logger.error("It says %s", each)
    finally:
        logger.removeHandler(handler)
    return written.getvalue()


def test_secret_is_redacted_in_every_form(tmp_path: Path, clock: ManualClock) -> None:
    key = unique()
    odd = f'{unique()}"/+ä\\x'
    pem = f"-----BEGIN {unique()}-----\n{uuid4().hex}\n-----END {unique()}-----\n"
    held = {"key": key, "odd": odd, "pem": pem, "one": "1", "short": "abcde"}
    said = declared(tmp_path, **{name.upper(): name for name in held})
    AgentEnvironment(said, clock, lambda service, name: held[name], environ={}).apply()
    written = lines_of(
        key,
        f"Bearer {key}",
        {"Authorization": odd},
        json.dumps({"odd": odd, "pem": pem}),
        f"https://u:{quote(odd, safe='')}@example.com/",
        pem,
        pem.splitlines()[1],
        ValueError(f"Illegal header value {odd!r} {key}"),
    )
    for hidden in (key, odd, quote(odd, safe=""), *pem.splitlines()):
        assert hidden not in written
    assert REDACTED in written
    # The log keeps very short secrets, because redacting them would hide ordinary words.
    assert lines_of("1 of 100 abcde") == "It says 1 of 100 abcde\n"


def test_replaced_secret_is_still_redacted(tmp_path: Path, clock: ManualClock) -> None:
    first, second = unique(), unique()
    values = iter([first, second])
    environment = AgentEnvironment(
        declared(tmp_path, KEY="k"), clock, lambda service, name: next(values), environ={}, start=now
    )
    environment.apply()
    clock.move(301)
    environment.refresh_if_due()
    assert lines_of(f"{first} {second}") == "It says [redacted] [redacted]\n"


def test_secret_value_already_in_environment_is_redacted_from_log(tmp_path: Path, clock: ManualClock) -> None:
    value = unique()
    AgentEnvironment(declared(tmp_path, KEY="k"), clock, None, environ={"KEY": value}).apply()
    assert lines_of(value) == "It says [redacted]\n"
