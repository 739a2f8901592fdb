"""`aion dev` with AUTH=on: it enforces the security schemes of aion.yaml, and prints a request with a valid key."""

import os
import re
import sys
from pathlib import Path

import httpx

from tests.support.e2e import forked
from tests.support.server import aion_dev, serving
from tests.support.service import send

CONFIG = """
aion:
  security: {schemes: {key: {type: api-key}}, require: [{key: [chat]}]}
  agents:
    where: {path: %s}
"""
AGENT = Path(__file__).parents[2] / "support" / "agents" / "where.py"


def test_dev_server_with_auth_accepts_only_printed_credentials(tmp_path: Path) -> None:
    """Accept the printed key; refuse a request without a key, with a foreign Host, or with a foreign Origin."""
    config = tmp_path / "aion.yaml"
    config.write_text(CONFIG % AGENT)
    with serving(aion_dev(), AION_CONFIG=str(config), AUTH="on") as server:
        printed = "".join(server.printed)
        header = re.search(r"-H '(X-API-Key): (aion_[^']+)'", printed)
        assert header is not None, printed
        credentials = {header[1]: header[2]}
        answer = httpx.post(server.url, json=send(), headers=credentials, timeout=60)
        assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        refused = httpx.post(server.url, json=send(), timeout=60)
        assert (refused.status_code, refused.headers["www-authenticate"][:6]) == (401, "ApiKey")
        assert httpx.get(f"{server.url}/.well-known/agent-card.json", timeout=60).json()["security"] == [
            {"key": ["chat"]}
        ]
        strange = httpx.post(server.url, json=send(), headers={**credentials, "Host": "evil.example.com"}, timeout=60)
        assert strange.status_code == 403
        page = httpx.post(
            server.url, json=send(), headers={**credentials, "Origin": "https://evil.example.com"}, timeout=60
        )
        assert page.status_code == 403
        whole = "".join(server.printed).replace(printed, "")
        assert header[2] not in whole, "the key is not logged"


def test_auth_option_without_declared_schemes_is_refused(tmp_path: Path) -> None:
    command = ["dev", "--auth", "on", "--port", "0", "--data-dir", str(tmp_path)]
    ran = forked.run("aion_tools.cli", *command, env=os.environ)
    assert ran.returncode == 1
    assert "declares no `security`" in ran.stderr
    assert sys.executable not in ran.stderr
