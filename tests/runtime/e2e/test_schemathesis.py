"""Schemathesis: the HTTP+JSON binding behaves as `docs/openapi.yaml` says, for random and extreme requests."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from aion_core.push.pinned_client import PinnedWebhookClient
from aion_core.push.ssrf import WebhookPolicy
from tests.support.agents.obedient import Obedient
from tests.support.clock import ManualClock
from tests.support.listening import listening
from tests.support.server import ROOT
from tests.support.service import parts

pytest_plugins = ["schemathesis.pytest.plugin"]
DOCUMENT = ROOT / "docs" / "openapi.yaml"
pytestmark = pytest.mark.deep
EXAMPLES = 250
"""Number of random requests for each operation; requests at the limits of its schema come in addition."""

WEBHOOK = "https://example.com/webhook"

schema = schemathesis.pytest.from_fixture("document")


@pytest.fixture
def document(request: pytest.FixtureRequest) -> Any:
    """Read docs/openapi.yaml only when the test runs, because generating its requests takes seconds."""
    # Set the attribute `_nodeid`, because Schemathesis uses it and pytest has removed it.
    request.node._nodeid = request.node.nodeid
    return schemathesis.openapi.from_path(DOCUMENT, config=SchemathesisConfig())


async def nowhere(host: str, port: int) -> Sequence[str]:
    """Resolve each webhook's host to a private address, so that the server posts to none."""
    return ["10.0.0.1"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve an agent that accepts and produces any media type."""
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
    """Return the id of a completed task with a push config `p`."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    sent = {"message": message, "configuration": {"taskPushNotificationConfig": {"id": "p", "url": WEBHOOK}}}
    task_id: str = httpx.post(f"{url}/message:send", json=sent, timeout=60).json()["task"]["id"]
    return task_id


@schema.parametrize()
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_rest_binding_matches_openapi_document(url: str, task: str, case: schemathesis.Case[Any]) -> None:
    if case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE:
        use_existing_ids(case, task)
    # Accept a refusal of cancel and subscribe, because the task is completed. Do not check the refusal of invalid
    # requests here, because the server accepts more JSON than the schema (null, a number as text):
    # tests/runtime/protocol/test_variations.py has the refused forms.
    refused = ":cancel" in case.path or ":subscribe" in case.path
    case.call_and_validate(
        base_url=url,
        timeout=60,
        excluded_checks=[negative_data_rejection, *([positive_data_acceptance] if refused else [])],
    )


def use_existing_ids(case: schemathesis.Case[Any], task: str) -> None:
    """Replace random ids in a valid request with existing ids, so that the server can accept the request."""
    if "id" in case.path_parameters and case.path.startswith("/tasks/{id}") and len(case.path_parameters["id"]) % 2:
        case.path_parameters["id"] = task
    if len(case.path_parameters.get("taskId", "")) % 2:
        case.path_parameters["taskId"] = task
        if case.method == "GET" and "id" in case.path_parameters:
            case.path_parameters["id"] = "p"
    if case.method == "POST" and case.path.endswith("/pushNotificationConfigs"):
        # Always use the id `p` and a valid URL: a task has at most ten configs, and most random URIs are refused.
        assert isinstance(case.body, dict)
        case.body |= {"id": "p", "url": WEBHOOK}
    case.query.pop("pageToken", None)
    # With its offset, a time of these days may be outside of protobuf's years 1 to 9999, and the server then refuses it.
    if str(case.query.get("statusTimestampAfter", ""))[:10] in ("0001-01-01", "9999-12-31"):
        del case.query["statusTimestampAfter"]
    # Use a new Idempotency-Key and contextId for each request, because the server refuses a key of another message.
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    message = case.body.get("message") if isinstance(case.body, dict) else None
    if isinstance(message, dict) and "contextId" in message:
        message["contextId"] = str(uuid.uuid4())
    configuration: Any = case.body.get("configuration") if isinstance(case.body, dict) else None
    if isinstance(configuration, dict) and isinstance(configuration.get("taskPushNotificationConfig"), dict):
        configuration["taskPushNotificationConfig"]["url"] = WEBHOOK
