"""Imports of every worker, made once by the process that workers are forked from."""

import fastapi
import uvicorn
from mangum import Mangum

from aion_core.bootstrap import app, engine, push, stores
from aion_core.dev import requests

__all__ = ["Mangum", "app", "engine", "fastapi", "push", "requests", "stores", "uvicorn"]
