"""Least privilege: each function's IAM policy allows its recorded AWS requests, and nothing more."""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from uuid_utils.compat import uuid7

from aion_core.auth.api_keys import ApiKeys
from aion_core.auth.schemes.api_key import make_key
from aion_core.auth.schemes.basic_users import hash_password
from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_json import encoded_key
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.bootstrap.stores import Stores, build_stores
from aion_core.clock import SystemClock
from aion_core.engine.queues import WakeUp
from aion_core.engine.sweep import Sweep
from aion_core.loading.deployment import read_deployment_config
from aion_core.protocol.types import TaskState
from aion_core.settings import Settings
from aion_core.table.item import Key
from aion_core.table.keys import HEAD, LISTING_API_KEYS, context_key
from aion_tools.deploy.agent_rights import template_parameters
from aion_tools.stack.stack import LocalStack
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import FUNCTION, MANAGED_POLICY, Template
from tests.repository.policies.iam_policies import Need, Statement, elements, is_allowed, listed, values_of
from tests.repository.policies.iam_recorder import Recorder
from tests.repository.policies.iam_requests import needs
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation
from tests.support.e2e.agents.everything import LARGE
from tests.support.e2e.api_process import api_process
from tests.support.e2e.function_process import function_process, signed_by
from tests.support.foreign import sdk_server
from tests.support.pushes import a_config
from tests.support.receiver import WebhookReceiver, answers, receiving
from tests.support.rows import each_row
from tests.support.server import ROOT
from tests.support.stores import dynamodb_store
from tests.support.tasks import orphan

CONFIG = Path(__file__).parents[2] / "support" / "e2e" / "agents" / "everything.yaml"
# Use a lease that is short, so that timers expire soon, but long enough for slow machines.
HERE = {
    "AION_PUSH_HTTP": "true",
    "AION_PUSH_NETWORKS": "127.0.0.0/8",
    "AION_LEASE_SECONDS": "6",
    "AION_MAX_TRIES": "99",
}
FUNCTIONS = Template(ROOT / "template.yaml", BUILD_PLACE).resources(FUNCTION)
WITH_AGENTS = ("ApiFunction", "TaskFunction")
TIMEOUT = 120
# Allow fifteen minutes, because the fixture `recorded` exercises all functions in the first test.
pytestmark = pytest.mark.timeout(900)
# Skip these statements: the Lambda service uses them to write logs and to read the queue. test_template_policies.py checks them.
LAMBDAS = ("Logs", "Receive")


class SignedClient:
    """Client for the requests that exercise the API."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def rpc(self, agent: str, method: str, **params: Any) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self._http.post(f"/agents/{agent}/", json=call)).json()
        assert "result" in answer, answer
        return answer["result"]

    async def send(self, agent: str, text: str, *, waits: bool = True, context: str = "", **configuration: Any) -> Any:
        message = {"messageId": str(uuid7()), "role": "ROLE_USER", "parts": [{"text": text}]}
        message |= {"contextId": context} if context else {}
        configuration |= {} if waits else {"returnImmediately": True}
        answer = await self.rpc(agent, "SendMessage", message=message, configuration=configuration)
        return answer["task"]

    async def stream(self, agent: str, method: str, begun: asyncio.Event | None = None, **params: Any) -> list[str]:
        """Return the data lines of the stream; set `begun` when the first line arrives."""
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        lines = []
        async with self._http.stream("POST", f"/agents/{agent}/", json=call) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data"):
                    lines.append(line)
                if begun is not None:
                    begun.set()
        return lines

    async def ended(self, agent: str, task: Any) -> Any:
        for _ in range(TIMEOUT * 10):
            now = await self.rpc(agent, "GetTask", id=task["id"])
            if now["status"]["state"] not in ("TASK_STATE_WORKING", "TASK_STATE_SUBMITTED"):
                return now
            await asyncio.sleep(0.1)
        raise AssertionError(now)


@dataclass(frozen=True)
class Recorded:
    """Permissions that each function needed during the exercise, and the functions' policies."""

    needed: dict[str, set[Need]]
    policies: dict[str, list[Statement]]
    key_contexts: list[Any]
    """The encryption context of each use of the KMS key."""

    def policy(self, function: str) -> list[Statement]:
        """Return the function's statements without those for the Lambda service."""
        return without_lambdas_own(self.policies[function])


def without_lambdas_own(policy: list[Statement]) -> list[Statement]:
    """Return the statements without those for requests of the Lambda service."""
    return [each for each in policy if each["Sid"] not in LAMBDAS]


def needs_of_functions(recorder: Recorder, stack: LocalStack) -> dict[str, set[Need]]:
    """Return the permissions that the requests of each function have needed so far."""
    place = stack.template.place
    found: dict[str, set[Need]] = {name: set() for name in FUNCTIONS}
    for request in list(recorder.heard):
        if request.caller in found:
            found[request.caller].update(needs(request, (place.region, place.account)))
    return found


def policy_of(template: Template, function: str) -> list[Statement]:
    """Return the statements of the function's role, and of the stack's managed policies that the role has."""
    role = function.replace("Function", "Role")
    assert template.resolved(function, "Role")["Role"] == template.attribute(role, "Arn", role)
    managed = [template.resolved(name) for name in template.resources(MANAGED_POLICY)]
    attached = [each for each in managed if template.attribute(role, None, role) in each["Roles"]]
    policies = [*template.resolved(role, "Policies")["Policies"], *attached]
    return [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]


@pytest.fixture(scope="module")
def recorded() -> Iterator[Recorded]:
    with LocalStack.start("template.yaml") as stack, ExitStack() as running:
        secrets = make_secrets(stack)
        place = stack.template.place
        template = Template(stack.template.path, place, secrets)
        policies = {function: policy_of(template, function) for function in FUNCTIONS}
        recorder = stack.emulator.wrap(partial(Recorder, policies=policies, place=(place.region, place.account)))
        try:
            asyncio.run(exercise(stack, running, secrets))
        except Exception as error:
            raise AssertionError(f"refused by the policies: {recorder.refused}") from error
        # Wait until the queue messages of the last steps are handled, because only they may use some permission.
        for _ in range(TIMEOUT):
            found = needs_of_functions(recorder, stack)
            if not any(superfluous(name, without_lambdas_own(policies[name]), found[name]) for name in FUNCTIONS):
                break
            time.sleep(1)
        running.close()
        assert recorder.refused == []
        found = needs_of_functions(recorder, stack)
        contexts = [
            json.loads(request.body).get("EncryptionContext") for request in recorder.heard if request.service == "kms"
        ]
        yield Recorded(found, policies, contexts)


def make_secrets(stack: LocalStack) -> dict[str, str]:
    """Create the secrets that the template's parameters name; return their values by parameter."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    users = json.dumps({"ann": hash_password("secret")})
    pem = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    ssm = stack.client("ssm")
    ssm.put_parameter(Name="/card-key", Value=pem, Type="SecureString")
    ssm.put_parameter(Name="/of-agents", Value="of agents", Type="SecureString")
    stack.client("secretsmanager").create_secret(Name="of-agents", SecretString='{"key": "of agents"}')
    place = stack.template.place
    return {
        "BasicUsersSecret": stack.client("secretsmanager").create_secret(Name="users", SecretString=users)["ARN"],
        "CardKeySecret": ssm.get_parameter(Name="/card-key")["Parameter"]["ARN"],
        **template_parameters(read_deployment_config(CONFIG), place.region, place.account),
    }


async def exercise(stack: LocalStack, running: ExitStack, secrets: dict[str, str]) -> None:
    """Send requests that make each function use each of its permissions."""
    key = make_key("ann", now=datetime.now(UTC))
    table = stack.environment("ApiFunction")["AION_TABLE"]
    with ThreadPoolExecutor(1) as executor:
        calls = AwsClient("dynamodb", executor, client=stack.client("dynamodb"))
        known = ApiKeys(DynamoDBTable(calls, name=table), SystemClock())
        await known.add(key.record)
    named = {"AION_BASIC_USERS_SECRET": secrets["BasicUsersSecret"], "AION_CARD_KEY_SECRET": secrets["CardKeySecret"]}
    here = {**HERE, "REMOTE_URL": running.enter_context(sdk_server())}
    api = await asyncio.to_thread(
        running.enter_context,
        api_process(
            stack, CONFIG, AION_AUTH="on", AION_HTTP_ENTRYPOINTS="NONE", **here, **named, **signed_by("ApiFunction")
        ),
    )
    async with (
        receiving(answers(500), answers(200)) as receiver,
        httpx.AsyncClient(base_url=api.url, headers={"X-API-Key": key.text}, timeout=TIMEOUT) as http,
    ):
        by_password = await http.post("/", json={}, headers={"Authorization": "Basic YW5uOnNlY3JldA=="})
        assert by_password.status_code == 200, by_password.text
        client = SignedClient(http)
        await exercise_api(client, receiver)
        # Start no worker yet, because only the sweep may find these turns and events.
        forgotten, expired = await orphan(stack, "hello", agent="graph"), await orphan(stack, "hello", agent="graph")
        expire(stack, context_key(expired.context))
        await orphan(stack, "hello", agent="graph", waits=True)
        untold = await client.send("graph", "hello", taskPushNotificationConfig={"url": receiver.url("/untold")})
        lost = await client.send("graph", "large", taskPushNotificationConfig={"url": receiver.url("/lost")})
        forget_payloads(stack, lost["id"])
        for queue in ("TaskQueue", "PushQueue"):
            stack.client("sqs").purge_queue(QueueUrl=stack.physical_id(queue))
        for function, queue in (("SweepFunction", ""), ("TaskFunction", "TaskQueue"), ("PushFunction", "PushQueue")):
            process = function_process(stack, function, queue, AION_CONFIG=str(CONFIG), AION_BASE_URL=api.url, **here)
            await asyncio.to_thread(running.enter_context, process)
        await exercise_task_function(client, receiver)
        unsubscribed = await exercise_unsubscribed(client, receiver)
        # Use a context whose session another function has encrypted, so that this step needs permission to decrypt it.
        await client.send("keeper", "again", context="k")
        store = dynamodb_store(stack, SystemClock())
        for _ in range(TIMEOUT * 10):
            log = await store.log(forgotten.key)
            posted = [post for post in receiver.posts if "/untold" in post.line and untold["id"] in post.body.decode()]
            is_done = log is not None and log.head.state == TaskState.TASK_STATE_COMPLETED
            cleared = "due_at" not in item(stack, context_key(expired.context))
            left = any("push_events" in each for each in heads_of(stack, unsubscribed["id"]))
            if is_done and posted and cleared and not left:
                return
            await asyncio.sleep(0.1)
        raise AssertionError((is_done, posted, cleared, left))


def item(stack: LocalStack, key: Key) -> dict[str, Any]:
    """Return the item with this key."""
    answer = stack.client("dynamodb").get_item(TableName=stack.physical_id("Table"), Key=encoded_key(key))
    found: dict[str, Any] = answer["Item"]
    return found


def heads_of(stack: LocalStack, task_id: str) -> list[dict[str, Any]]:
    """Return the head items of the task with this id."""
    found = stack.client("dynamodb").scan(TableName=stack.physical_id("Table"))["Items"]
    return [each for each in found if each["pk"]["S"].endswith(task_id) and each["sk"]["S"] == HEAD]


def expire(stack: LocalStack, key: Key) -> None:
    """Set the item's expiry to the past; DynamoDB would delete it days later."""
    stack.client("dynamodb").update_item(
        TableName=stack.physical_id("Table"),
        Key=encoded_key(key),
        UpdateExpression="SET expires = :past",
        ExpressionAttributeValues={":past": {"N": "1"}},
    )


def forget_payloads(stack: LocalStack, task_id: str) -> None:
    """Delete a task's large payloads from S3 before PushFunction reads them."""
    s3, bucket = stack.client("s3"), stack.physical_id("Blobs")
    found = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket, Prefix="tasks/")["Contents"]]
    gone = [key for key in found if task_id in key]
    assert gone, found
    for key in gone:
        s3.delete_object(Bucket=bucket, Key=key)


async def exercise_api(client: SignedClient, receiver: WebhookReceiver) -> None:
    """Use each permission of ApiFunction."""
    context = (await client.send("graph", LARGE))["contextId"]
    await client.send("graph", "large", context=context)
    await client.send("keeper", LARGE, context="c-1")
    await client.send("keeper", "again", context="c-1")
    said = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    assert await client.stream("speaker", "SendStreamingMessage", message=said)
    asked = await client.send("graph", "ask")
    answer = {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "this"}], "taskId": asked["id"]}
    answered = (await client.rpc("graph", "SendMessage", message=answer))["task"]
    assert answered["status"]["state"] == "TASK_STATE_COMPLETED"
    asked = await client.send("graph", "ask")
    # Subscribe in the background, because a subscription to an interrupted task stays open until the task ends.
    begun = asyncio.Event()
    subscribed = asyncio.create_task(client.stream("graph", "SubscribeToTask", begun, id=asked["id"]))
    await begun.wait()
    task = {"taskId": asked["id"]}
    for config in ("p-1", "p-2"):
        told = {"id": config, "url": receiver.url(), "token": "t"}
        await client.rpc("graph", "CreateTaskPushNotificationConfig", **task, **told)
    await client.rpc("graph", "GetTaskPushNotificationConfig", **task, id="p-1")
    await client.rpc("graph", "ListTaskPushNotificationConfigs", **task)
    await client.rpc("graph", "DeleteTaskPushNotificationConfig", **task, id="p-2")
    await client.rpc("graph", "CancelTask", id=asked["id"])
    assert await subscribed
    assert (await client.rpc("graph", "ListTasks"))["tasks"]
    assert (await client.rpc("graph", "ListTasks", contextId=context))["tasks"]
    # The other agent's callback uses further permissions.
    await client.send("caller", "say hello")
    await client.rpc("graph", "GetContext", contextId=context)
    await client.rpc("graph", "GetContexts")


async def exercise_task_function(client: SignedClient, receiver: WebhookReceiver) -> None:
    """Use each permission of TaskFunction: run turns of non-blocking messages."""
    told = {"taskPushNotificationConfig": {"url": receiver.url(), "token": "t"}}
    begun = [
        ("graph", await client.send("graph", LARGE, waits=False, context="g", **told)),
        ("graph", await client.send("graph", "large", waits=False, context="g", **told)),
        ("keeper", await client.send("keeper", LARGE, waits=False, context="k", **told)),
        ("keeper", await client.send("keeper", "again", waits=False, context="k")),
        ("speaker", await client.send("speaker", "hello", waits=False)),
        ("caller", await client.send("caller", "say hello", waits=False)),
    ]
    for agent, task in begun:
        now = await client.ended(agent, task)
        assert now["status"]["state"] == "TASK_STATE_COMPLETED", now


async def exercise_unsubscribed(client: SignedClient, receiver: WebhookReceiver) -> Any:
    """End a task after its only push config has been deleted."""
    config: dict[str, Any] = {"taskPushNotificationConfig": {"id": "p", "url": receiver.url(), "token": "t"}}
    asked = await client.send("graph", "ask", **config)
    await client.rpc("graph", "DeleteTaskPushNotificationConfig", taskId=asked["id"], id="p")
    answer = {"messageId": str(uuid7()), "role": "ROLE_USER", "parts": [{"text": "this"}], "taskId": asked["id"]}
    await client.rpc("graph", "SendMessage", message=answer)
    return asked


async def test_requests_of_stores_are_permitted(
    moto: LocalStack, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run each function's work on a task by its stores in this process, without agents; refuse what its role may not."""
    place = moto.template.place
    policies = {function: policy_of(moto.template, function) for function in FUNCTIONS}
    recorder = moto.emulator.wrap(partial(Recorder, policies=policies, place=(place.region, place.account)))

    def stores_of(function: str) -> Stores:
        environ = {**moto.environment(function), **signed_by(function)}
        for name in filter(re.compile("AWS_").match, environ):  # boto3 reads them at the first request
            monkeypatch.setenv(name, environ[name])
        return build_stores(Settings.from_environ(environ), clock)

    try:
        api = stores_of("ApiFunction")
        chat = StoreConversation(api.tasks, clock)
        assert api.push is not None
        await chat.starts("m-1", text="x" * 40_000)
        await api.push.configs.put(chat.key("t-m-1"), a_config())
        await chat.waits("m-2")
        await chat.waits("m-3")
        await chat.cancels("t-m-1")
        await api.work_queue.enqueue(WakeUp(chat.context))
        task = stores_of("TaskFunction")
        chat.store = task.tasks
        begun = await chat.begins()
        await chat.ends(begun, text="x" * 40_000)
        clock.move(7200)
        push = stores_of("PushFunction")
        assert push.push is not None
        for delivery in await push.push.configs.deliveries(chat.key("t-m-1")):
            claim = await push.push.configs.claim(delivery, until=clock.now())
            assert claim is not None
            await push.push.configs.settle(claim, cursor=2, delivered=True)
        assert await push.tasks.log(chat.key("t-m-1"))
        sweep = stores_of("SweepFunction")
        assert sweep.push is not None
        calls = sweep.tasks.remote_calls
        swept = Sweep(sweep.tasks, sweep.work_queue, sweep.push.configs, sweep.push.queue, remote_calls=calls)
        assert (await swept.once()).enqueued
    finally:
        moto.emulator.wrap(lambda requests: requests)
    assert recorder.refused == []
    assert {request.caller for request in recorder.heard} >= {*FUNCTIONS}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.deep
def test_function_has_exactly_the_permissions_it_uses(function: str, recorded: Recorded) -> None:
    """Compare the recorded requests with each function's policy: nothing is missing, nothing is superfluous."""
    policy, needed = recorded.policy(function), recorded.needed[function]
    assert (refused(policy, needed), superfluous(function, policy, needed)) == (set(), [])


@each_row(
    ("function", "sid", "change"),
    [
        ("PushFunction", "Deliveries", {"Action": ["dynamodb:UpdateItem", "dynamodb:PutItem"]}),
        ("PushFunction", "Deliveries", {"dynamodb:LeadingKeys": ["TASK#*", "API-KEY#*"]}),
        ("PushFunction", "Deliveries", {"dynamodb:LeadingKeys": "T*"}),
        ("PushFunction", "Deliveries", {"dynamodb:Attributes": ["*"]}),
        ("PushFunction", "Tasks", {"Condition": {}}),
        ("PushFunction", "Blobs", {"Resource": "arn:aws:s3:::*"}),
        ("TaskFunction", "Table", {"Resource": ["arn:aws:dynamodb:us-east-1:000000000000:table/another"]}),
        ("ApiFunction", "ApiKeys", {"Action": ["dynamodb:GetItem", "dynamodb:PutItem"]}),
    ],
)
@pytest.mark.deep
def test_permission_check_finds_superfluous_permission(
    function: str, sid: str, change: dict[str, Any], recorded: Recorded
) -> None:
    """Widen one statement: `change` replaces parts of the statement or values of a condition key.

    The check of the least privilege would otherwise pass for any policy.
    """
    policy, needed = deepcopy(recorded.policy(function)), recorded.needed[function]
    (statement,) = (dict(each) for each in policy if each["Sid"] == sid)
    for part, value in change.items():
        conditions = [keys for keys in statement.get("Condition", {}).values() if part in keys]
        for keys in conditions:
            keys[part] = value
        if not conditions:
            statement[part] = [*listed(statement[part]), *value] if part == "Resource" and sid == "Table" else value
    policy = [statement if each["Sid"] == sid else each for each in policy]
    assert superfluous(function, policy, needed)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_only_functions_with_agents_may_call_bedrock_models(function: str) -> None:
    """Permit the named model, and the named profile's model in all regions through this profile only."""
    model, profile = (
        f"arn:aws:bedrock:eu-west-1:{each}" for each in (":foundation-model/nova", "1:inference-profile/eu.n")
    )
    policy = policy_of(Template(ROOT / "template.yaml", BUILD_PLACE, {"BedrockModels": f"{model},{profile}"}), function)
    elsewhere = model.replace("eu-west-1", "eu-north-1")
    through = {name: frozenset({("bedrock:InferenceProfileArn", name)}) for name in (profile, f"{profile}2")}
    asked = {
        "model": Need("bedrock:InvokeModel", model),
        "stream of profile": Need("bedrock:InvokeModelWithResponseStream", profile),
        "model through profile": Need("bedrock:InvokeModel", elsewhere, through[profile]),
        "model through another profile": Need("bedrock:InvokeModel", elsewhere, through[f"{profile}2"]),
        "model elsewhere": Need("bedrock:InvokeModel", elsewhere),
    }
    allowed = {name for name, need in asked.items() if is_allowed(policy, need)}
    expected = {"model", "stream of profile", "model through profile"}
    assert allowed == (expected if function in WITH_AGENTS else set())


def test_only_api_function_may_read_api_keys() -> None:
    template = Template(ROOT / "template.yaml", BUILD_PLACE)
    policies = {function: policy_of(template, function) for function in FUNCTIONS}
    table = template.attribute("Table", "Arn", "Table")
    keys = frozenset({("dynamodb:LeadingKeys", "API-KEY#aaaaaaaaaaaaaaaa")})
    actions = ("GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
    allowed = {
        (function, action)
        for function in FUNCTIONS
        for action in actions
        if is_allowed(policies[function], Need(f"dynamodb:{action}", table, keys))
    }
    assert allowed == {("ApiFunction", "GetItem")}
    listing = frozenset({("dynamodb:LeadingKeys", LISTING_API_KEYS)})
    for index in ("by_agent", "by_context", "due"):
        need = Need("dynamodb:Query", f"{table}/index/{index}", listing)
        assert not is_allowed(policies["ApiFunction"], need)


@pytest.mark.deep
def test_kms_requests_have_encryption_context_required_by_policies(recorded: Recorded) -> None:
    asked = {"kms:EncryptionContext:application": "aion"}
    for function in ("ApiFunction", "TaskFunction", "PushFunction"):
        (statement,) = [each for each in recorded.policies[function] if "kms:Decrypt" in each["Action"]]
        assert statement["Condition"] == {"StringEquals": asked}
    assert recorded.key_contexts
    assert all(context["application"] == "aion" for context in recorded.key_contexts)


def refused(policy: Sequence[Statement], needed: Set[Need]) -> set[Need]:
    """Return the needed permissions that the policy does not grant."""
    return {need for need in needed if not is_allowed(policy, need)}


def superfluous(function: str, policy: Sequence[Statement], needed: Set[Need]) -> list[str]:
    """Return each part of the function's policy that the function does not need."""
    return [*unused(policy, needed), *wide(function, policy, needed)]


def unused(policy: Sequence[Statement], needed: Set[Need]) -> Iterator[str]:
    """Yield each part of the policy that can be removed while all needed permissions stay granted."""
    for n, statement in enumerate(policy):
        services = {resource.split(":")[2] for resource in listed(statement["Resource"])}
        for name, less in elements(statement):
            # Skip actions of the other service: one statement allows a secret in Secrets Manager or in Parameter Store.
            is_of_other_service = name.startswith("Action ") and name.split()[1].split(":")[0] not in services
            if not is_of_other_service and not refused([*policy[:n], less, *policy[n + 1 :]], needed):
                yield f"{statement['Sid']}: {name}"


def wide(function: str, policy: Sequence[Statement], needed: Set[Need]) -> Iterator[str]:
    """Yield each key pattern, attribute or S3 folder in the policy that no request needs in exactly this form."""
    kinds = {f"{key.partition('#')[0]}#*" for need in needed for key in need.values("dynamodb:LeadingKeys")}
    attributes = {name for need in needed for name in need.values("dynamodb:Attributes")}
    folders = {"/".join([*need.resource.split("/")[:2], "*"]) for need in needed if need.action.startswith("s3:")}
    for statement in policy:
        (service,) = {action.split(":")[0] for action in listed(statement["Action"])} - {"ssm"} or {"ssm"}
        (resource, *_) = listed(statement["Resource"])
        if service == "dynamodb" and "/index/" not in resource:
            yield from (
                f"{statement['Sid']}: {kind}" for kind in {*values_of(statement, "dynamodb:LeadingKeys")} - kinds
            )
        if function in WITH_AGENTS:
            # Do not check the attributes and folders of functions with agents, because an agent may use all of them.
            continue
        if "dynamodb:UpdateItem" in statement["Action"]:
            yield from (
                f"{statement['Sid']}: {name}" for name in {*values_of(statement, "dynamodb:Attributes")} - attributes
            )
        if service == "s3" and "s3:ListBucket" not in statement["Action"]:
            yield from (f"{statement['Sid']}: {each}" for each in {*listed(statement["Resource"])} - folders)
