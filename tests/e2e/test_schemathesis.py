"""Schemathesis tries the REST binding against its OpenAPI description, `docs/openapi.yaml`, and finds nothing."""

import os
import uuid
from collections.abc import Iterator, Sequence

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from aion_core.push.client import PinnedWebhookClient
from aion_core.push.ssrf import WebhookPolicy
from aion_core.web.rest import RestV1
from tests.support.agents.obedient import Obedient
from tests.support.clock import ManualClock
from tests.support.listening import listening
from tests.support.server import ROOT
from tests.support.service import parts

DOCUMENT = ROOT / "docs" / "openapi.yaml"
EXAMPLES = 250 if os.environ.get("SIMULATION_DEEP") else 12
"""How many requests it makes up for each operation, beside those at the limits of the schema."""

WEBHOOK = "https://example.com/webhook"

schema = schemathesis.openapi.from_path(DOCUMENT)


async def nowhere(host: str, port: int) -> Sequence[str]:
    """No webhook is called: each host is at an address that is not public."""
    return ["10.0.0.1"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An agent that takes and gives whatever media type there is."""
    clock = ManualClock()
    allowed = WebhookPolicy.for_service("http://127.0.0.1:1")
    served = parts(
        Obedient(), clock=clock, webhooks=PinnedWebhookClient(allowed, clock, resolve=nowhere), allowed=allowed
    )
    served.described = {"input_modes": [], "output_modes": [], "extended": True}
    served.extended_card = served.card
    with listening(served.app()) as url:
        yield url


@pytest.fixture(scope="module")
def task(url: str) -> str:
    """The id of a task that has ended, and has a push config `p`."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    sent = {"message": message, "configuration": {"taskPushNotificationConfig": {"id": "p", "url": WEBHOOK}}}
    task_id: str = httpx.post(f"{url}/message:send", json=sent).json()["task"]["id"]
    return task_id


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_schemathesis_finds_nothing(url: str, task: str, case: schemathesis.Case) -> None:
    """R98, R99."""
    if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
        make_use_of_what_is_there(case, task)
    # A task that has ended is not canceled, however good the request. What protobuf's JSON takes beyond the schema (null, a
    # number as text, an empty text) is taken: tests/unit/wire/test_variations.py says of each what must be refused.
    refused = ":cancel" in case.path or ":subscribe" in case.path
    case.call_and_validate(
        base_url=url, excluded_checks=[negative_data_rejection, *([positive_data_acceptance] if refused else [])]
    )


def make_use_of_what_is_there(case: schemathesis.Case, task: str) -> None:
    """Put in place of what is made up, in a good request, what only the server, or a client that remembers, can know."""
    if "id" in case.path_parameters and case.path.startswith("/tasks/{id}") and len(case.path_parameters["id"]) % 2:
        case.path_parameters["id"] = task
    if len(case.path_parameters.get("taskId", "")) % 2:
        case.path_parameters["taskId"] = task
        if case.method == "GET" and "id" in case.path_parameters:
            case.path_parameters["id"] = "p"
    if case.method == "POST" and case.path.endswith("/pushNotificationConfigs"):
        # In the place of the one before: there may be ten. Most URIs are no webhook's.
        case.body |= {"id": "p", "url": WEBHOOK}
    case.query.pop("pageToken", None)
    # Used again with other content they are refused.
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    message = case.body.get("message") if isinstance(case.body, dict) else None
    if isinstance(message, dict) and "contextId" in message:
        message["contextId"] = str(uuid.uuid4())


def test_the_description_has_the_paths_that_are_served() -> None:
    """Each path and method of the binding, and no other; those within a tenant are said in words."""
    served = {
        (path.replace(":path}", "}"), method.lower())
        for path, by_method in RestV1.paths.items()
        if not path.startswith("/{tenant}")
        for method in by_method
    }
    described = {
        (path, method)
        for path, item in schema.raw_schema["paths"].items()
        for method in item
        if method in ("get", "post", "put", "delete", "patch")
    }
    assert described == served
