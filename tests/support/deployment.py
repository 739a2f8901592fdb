"""App of a deployment with given settings and aion.yaml, in memory."""

from pathlib import Path

import httpx
from fastapi import FastAPI

from aion_core.bootstrap import build_app
from aion_core.settings import Settings

BASE_URL = "https://agents.example.com/prod"

IN_MEMORY = {
    "AION_STORE": "memory",
    "AWS_LAMBDA_FUNCTION_NAME": "api",
    # A function on AWS refuses AION_STORE. Nothing listens here, and nothing is called with a store in memory.
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}
"""Variables of a Lambda function with a store in memory."""


def deployed(folder: Path, aion_yaml: str, **environ: str) -> FastAPI:
    """Return the app; the first turn of an agent imports the agent's code."""
    config = folder / "aion.yaml"
    config.write_text(aion_yaml, encoding="utf-8")
    given = {"AION_STORE": "memory", "AION_CONFIG": str(config), "AION_BASE_URL": BASE_URL, **environ}
    return build_app(Settings.from_environ(given))


def at(app: FastAPI, base_url: str = "http://somewhere-else.test") -> httpx.AsyncClient:
    """Return a client that calls the app under another host name than the configured one."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=base_url)
