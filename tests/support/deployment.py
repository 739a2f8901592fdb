"""App of a deployment with given settings and aion.yaml, in memory."""

from pathlib import Path

import httpx
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings

BASE_URL = "https://agents.example.com/prod"


def deployed(folder: Path, aion_yaml: str, **environ: str) -> FastAPI:
    """Return the app; the first turn of an agent imports the agent's code."""
    config = folder / "aion.yaml"
    config.write_text(aion_yaml, encoding="utf-8")
    given = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": BASE_URL, **environ}
    return build_app(Settings.from_environ(given))


def at(app: FastAPI, base_url: str = "http://somewhere-else.test") -> httpx.AsyncClient:
    """Return a client that calls the app under another host name than the configured one."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)
