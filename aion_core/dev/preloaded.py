"""Imports of every worker, made once by the process that workers are forked from."""

import fastapi
import uvicorn
from aws_lambda_powertools.utilities import batch
from mangum import Mangum

from aion_core.aws import client
from aion_core.bootstrap import app, engine, push, stores
from aion_core.dev import requests
from aion_core.local import stack

__all__ = ["Mangum", "app", "batch", "client", "engine", "fastapi", "push", "requests", "stack", "stores", "uvicorn"]
