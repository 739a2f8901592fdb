"""Push configs: clients of both versions register, read, list and delete them; webhooks get their requests."""

import json
from typing import Any

import pytest
from a2a.compat.v0_3 import types as v03

from aion_core.engine.agent_options import PushEvents, ReplyAs
from aion_core.push import signing
from aion_core.push.ssrf import WebhookPolicy
from aion_core.table.keys import TaskKey
from aion_core.web.app import build_app
from aion_core.web.app_parts import ServedAgent, SharedServices
from aion_core.web.cards.agent_cards import AgentCards
from tests.runtime.unit.push.pushing import Pushing, ids
from tests.runtime.unit.push.test_ssrf import BAD
from tests.support import entrypoints
from tests.support.receiver import ReceivedPost, answers, receiving
from tests.support.rows import each_row
from tests.support.service import http

CREATE, GET, LIST, DELETE = (
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
)
SET_OLD, GET_OLD, LIST_OLD, DELETE_OLD = (
    f"tasks/pushNotificationConfig/{verb}" for verb in ("set", "get", "list", "delete")
)
HOOK = "https://hooks.example.org/a"
NOT_FOUND, PARAMS = -32001, -32602


def old_send(text: str = "hi", config: dict[str, Any] | None = None, **message: Any) -> dict[str, Any]:
    given = {"messageId": f"m-{text}", "role": "user", "parts": [{"kind": "text", "text": text}], **message}
    return {
        "message": given,
        "configuration": {"blocking": True, "acceptedOutputModes": [], "pushNotificationConfig": config},
    }


@pytest.mark.parametrize("tenant", [{}, {"tenant": "red"}], ids=["without tenant", "in tenant"])
async def test_owner_reads_push_config_as_registered(tenant: dict[str, Any]) -> None:
    pushing = Pushing()
    task = (await pushing.send(**tenant))["id"]
    given = {
        "id": "of/mine",
        "taskId": task,
        "url": f"{HOOK}?a=b",
        "token": "my token",
        "authentication": {"scheme": "Bearer", "credentials": "secret"},
    } | tenant
    assert await pushing.rpc(CREATE, given) == given
    assert await pushing.rpc(GET, {"taskId": task, "id": "of/mine", **tenant}) == given
    assert (await pushing.rpc(LIST, {"taskId": task, **tenant}))["configs"] == [given]
    if tenant:
        return  # Version 0.3 has no tenants.
    older = {name: value for name, value in given.items() if name != "taskId"}
    older["authentication"] = {"schemes": ["Bearer"], "credentials": "secret"}
    as_old = {"taskId": task, "pushNotificationConfig": older}
    assert await pushing.rpc(GET_OLD, {"id": task, "pushNotificationConfigId": "of/mine"}) == as_old
    assert await pushing.rpc(LIST_OLD, {"id": task}) == [as_old]


async def test_redacted_secrets_are_returned_at_creation_only() -> None:
    """With `push.redact_secrets`, Get and List leave out the token and the credentials, in each version and binding."""
    pushing = Pushing(redacts=True)
    task = (await pushing.send())["id"]
    authentication = {"scheme": "Bearer", "credentials": "its-password"}
    given = {"id": "p", "taskId": task, "url": HOOK, "token": "its-token", "authentication": authentication}
    assert await pushing.rpc(CREATE, given) == given
    redacted = {"id": "p", "taskId": task, "url": HOOK, "authentication": {"scheme": "Bearer"}}
    assert await pushing.rpc(GET, {"taskId": task, "id": "p"}) == redacted
    assert (await pushing.rpc(LIST, {"taskId": task}))["configs"] == [redacted]
    older = {"id": "p", "url": HOOK, "authentication": {"schemes": ["Bearer"]}}
    as_old = {"taskId": task, "pushNotificationConfig": older}
    assert await pushing.rpc(GET_OLD, {"id": task, "pushNotificationConfigId": "p"}) == as_old
    assert await pushing.rpc(LIST_OLD, {"id": task}) == [as_old]
    async with http(pushing.app) as client:
        for path in ("", "/p"):
            for prefix in ("", "/v1"):
                answer = await client.get(f"{prefix}/tasks/{task}/pushNotificationConfigs{path}")
                assert (answer.status_code, HOOK in answer.text, "its-" in answer.text) == (200, True, False)
    assert (await pushing.rpc(SET_OLD, {**as_old, "pushNotificationConfig": {**older, "token": "new"}}))[
        "pushNotificationConfig"
    ]["token"] == "new"


async def test_redacted_token_is_generated_once_and_kept() -> None:
    """A config that is created again keeps its generated token, which only its first creation has returned."""
    pushing = Pushing(redacts=True)
    task = (await pushing.send())["id"]
    first = await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": HOOK})
    assert signing.is_key(first["token"])
    again = await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": f"{HOOK}/b"})
    assert again == {"taskId": task, "id": "p", "url": f"{HOOK}/b"}
    assert pushing.parts.push is not None
    stored = await pushing.parts.push.configs.get(TaskKey("anonymous", task), "p")
    assert stored is not None
    assert stored.token == first["token"]


async def test_server_generates_push_config_id_and_token() -> None:
    """Register two configs without id and token: each gets its own id and its own signing key."""
    pushing = Pushing()
    task = (await pushing.send())["id"]
    made = [await pushing.rpc(CREATE, {"taskId": task, "url": HOOK}) for _ in range(2)]
    assert len({config["id"] for config in made}) == 2
    for config in made:
        assert signing.is_key(config["token"])
        signing.check_token(config["token"])
        assert await pushing.rpc(GET, {"taskId": task, "id": config["id"]}) == config
    assert made[0]["token"] != made[1]["token"]


async def test_v03_config_without_id_has_id_of_task() -> None:
    """A v0.3 client without config ids has one config for each task: a second registration replaces it."""
    pushing = Pushing()
    task = (await pushing.rpc("message/send", old_send(config={"url": HOOK, "token": "one"})))["id"]
    first = await pushing.rpc(GET_OLD, {"id": task})
    assert first == {"taskId": task, "pushNotificationConfig": {"id": task, "url": HOOK, "token": "one"}}
    await pushing.rpc(SET_OLD, {"taskId": task, "pushNotificationConfig": {"id": "another", "url": HOOK}})
    await pushing.rpc(SET_OLD, {"taskId": task, "pushNotificationConfig": {"url": HOOK, "token": "two"}})
    assert (await pushing.rpc(GET_OLD, {"id": task}))["pushNotificationConfig"]["token"] == "two"
    listed = await pushing.rpc(LIST_OLD, {"id": task})
    assert sorted(each["pushNotificationConfig"]["id"] for each in listed) == sorted(["another", task])
    assert await pushing.rpc(DELETE_OLD, {"id": task, "pushNotificationConfigId": task}) is None
    assert (await pushing.rpc(GET_OLD, {"id": task}))["pushNotificationConfig"]["id"] == "another"


async def test_replaced_push_config_keeps_its_signing_key() -> None:
    """Register the config again without a token: its stored token stays the signing key."""
    pushing = Pushing()
    task = (await pushing.send())["id"]
    first = await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": HOOK})
    second = await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": f"{HOOK}/b"})
    assert second == {**first, "url": f"{HOOK}/b"}
    assert (await pushing.rpc(LIST, {"taskId": task}))["configs"] == [second]
    plain = await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": HOOK, "token": "plain"})
    assert plain["token"] == "plain"
    assert signing.is_key((await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": HOOK}))["token"])


async def test_task_has_at_most_ten_configs() -> None:
    """Every operation refuses the eleventh config, but may replace an existing one."""
    pushing = Pushing()
    task = (await pushing.send(None, "ask"))["id"]
    for number in range(10):
        await pushing.rpc(CREATE, {"taskId": task, "id": f"p{number}", "url": HOOK})
    refusal = await pushing.rpc(CREATE, {"taskId": task, "id": "p10", "url": HOOK})
    assert (refusal["code"], "10" in refusal["message"]) == (PARAMS, True)
    message = {"messageId": "m-more", "role": "ROLE_USER", "parts": [{"text": "more"}], "taskId": task}
    inline = {"message": message, "configuration": {"taskPushNotificationConfig": {"id": "p10", "url": HOOK}}}
    assert (await pushing.rpc("SendMessage", inline))["code"] == PARAMS
    assert (await pushing.rpc("GetTask", {"id": task}))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "code" not in await pushing.rpc(CREATE, {"taskId": task, "id": "p9", "url": HOOK})
    assert len((await pushing.rpc(LIST, {"taskId": task}))["configs"]) == 10


async def test_push_config_list_has_pages_with_own_tokens() -> None:
    """Read the list page by page: it has each config once, sorted by id."""
    pushing = Pushing()
    task, other = (await pushing.send())["id"], (await pushing.send(None, "other"))["id"]
    for of in (task, other):
        for name in "edcba":
            await pushing.rpc(CREATE, {"taskId": of, "id": name, "url": HOOK})
    listed, token = [], ""
    for _ in range(3):
        page = await pushing.rpc(LIST, {"taskId": task, "pageSize": 2, "pageToken": token})
        listed.append([config["id"] for config in page["configs"]])
        token = page.get("nextPageToken", "") or token
    assert listed == [["a", "b"], ["c", "d"], ["e"]]
    for params in (
        {"taskId": other, "pageToken": token},
        {"taskId": task, "pageToken": f"{'B' if token[0] == 'A' else 'A'}{token[1:]}"},
        {"taskId": task, "pageToken": token, "tenant": "t"},
    ):
        assert (await pushing.rpc(LIST, params))["code"] in (PARAMS, NOT_FOUND)
    # Page tokens of tasks and of configs are not interchangeable.
    tasks = (await pushing.rpc("ListTasks", {"pageSize": 1}))["nextPageToken"]
    assert (await pushing.rpc(LIST, {"taskId": task, "pageToken": tasks}))["code"] == PARAMS
    assert (await pushing.rpc("ListTasks", {"pageToken": token}))["code"] == PARAMS


async def test_push_configs_are_unknown_to_other_owners() -> None:
    """Use another owner's task id: the response equals that for a missing task, and nothing changes."""
    pushing = Pushing()
    task = (await pushing.send())["id"]
    kept = await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": HOOK, "token": "secret"})
    for method, more in (
        (CREATE, {"id": "p", "url": "https://evil.example/"}),
        (GET, {"id": "p"}),
        (LIST, {}),
        (DELETE, {"id": "p"}),
    ):
        stranger = await pushing.rpc(method, {"taskId": task, "tenant": "another", **more})
        unknown = await pushing.rpc(method, {"taskId": "nope", "tenant": "another", **more})
        assert stranger["code"] == NOT_FOUND
        assert stranger == unknown
    assert await pushing.rpc(GET, {"taskId": task, "id": "p"}) == kept


async def test_push_configs_are_unknown_to_other_agents() -> None:
    """Use the task id of another agent of the same caller: the task is unknown, although one store has both."""
    made = Pushing().parts
    assert made.push is not None
    served = {name: ServedAgent(made.agent, AgentCards.of(made.card)) for name in ("test", "other")}
    app = build_app(SharedServices(made.service, made.lister, made.conversations, push=made.push.registry), served)
    async with http(app) as client:

        async def rpc(agent: str, method: str, params: dict[str, Any]) -> Any:
            asked = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
            return (await client.post(f"/agents/{agent}/", json=asked)).json()

        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "ask"}]}
        answer = await rpc("test", "SendMessage", {"message": message})
        task = answer["result"]["task"]["id"]
        for method, more in ((CREATE, {"url": HOOK}), (GET, {"id": "p"}), (LIST, {}), (DELETE, {"id": "p"})):
            assert (await rpc("other", method, {"taskId": task, **more}))["error"]["code"] == NOT_FOUND
        assert "result" in await rpc("test", CREATE, {"taskId": task, "url": HOOK})


async def test_push_config_of_refused_message_is_not_stored() -> None:
    """Send a message with a config to an ended task: both are refused, and nothing is stored."""
    pushing = Pushing()
    task = await pushing.send()
    message = {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "more"}], "taskId": task["id"]}
    inline = {"message": message, "configuration": {"taskPushNotificationConfig": {"id": "p", "url": HOOK}}}
    assert (await pushing.rpc("SendMessage", inline))["code"] == -32004
    assert (await pushing.rpc(LIST, {"taskId": task["id"]})).get("configs", []) == []


@each_row("method", ["SendMessage", "SendStreamingMessage", "message/send", "message/stream"])
async def test_message_can_register_push_config_in_each_protocol_version(method: str) -> None:
    """Send the config with the first message: the webhook receives all events of the task."""
    async with receiving(answers(200)) as receiver:
        pushing = Pushing(events=PushEvents.ALL)
        config = {"id": "p", "url": receiver.url(), "token": "t"}
        if "/" in method:
            params = old_send(config=config)
        else:
            message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
            params = {"message": message, "configuration": {"taskPushNotificationConfig": config}}
        await pushing.post(method, params)
        task = (await pushing.rpc("ListTasks", {}))["tasks"][0]
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 1, 2, 3)


async def test_webhook_receives_events_of_task_behind_message_reply() -> None:
    """The client receives a plain Message instead of a task; the webhook receives the task's events all the same."""
    async with receiving(answers(200)) as receiver:
        pushing = Pushing(reply=ReplyAs.MESSAGE)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        configuration = {"taskPushNotificationConfig": {"id": "p", "url": receiver.url()}}
        answer = await pushing.rpc("SendMessage", {"message": message, "configuration": configuration})
        assert set(answer) == {"message"}
        task = (await pushing.rpc("ListTasks", {}))["tasks"][0]
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 3)


async def test_webhook_receives_only_events_after_its_registration() -> None:
    """Register a config later, by itself or with a follow-up message: it receives no earlier event."""
    async with receiving(answers(200)) as late, receiving(answers(200)) as later:
        pushing = Pushing()
        task = await pushing.send(None, "ask")
        await pushing.rpc(CREATE, {"taskId": task["id"], "id": "p", "url": late.url()})
        answer = {"taskPushNotificationConfig": {"id": "q", "url": later.url()}}
        message = {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"]}
        done = (await pushing.rpc("SendMessage", {"message": message, "configuration": answer}))["task"]
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"
        await pushing.all_rest(task, 5)
    # Numbers of the events: 1 submitted, 2 working, 3 input required, and after the answer 4 working, 5 completed.
    assert late.ids == ids(task, 4, 5)
    assert set(later.ids) <= set(ids(task, 4, 5, config="q"))
    assert later.ids[-1:] == ids(task, 5, config="q")


@pytest.mark.parametrize(
    ("events", "kinds"),
    [
        (PushEvents.STATUS, ["statusUpdate", "statusUpdate"]),
        (PushEvents.ALL, ["task", "statusUpdate", "statusUpdate"]),
    ],
)
async def test_push_events_setting_selects_notified_events(events: PushEvents, kinds: list[str]) -> None:
    async with receiving(answers(200)) as receiver:
        pushing = Pushing(events=events)
        task = await pushing.send({"id": "p", "url": receiver.url()})
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert [next(iter(json.loads(post.body))) for post in receiver.posts] == kinds


@each_row(
    ("authentication", "header"),
    [
        ({"scheme": "Bearer", "credentials": "abc.def"}, ("authorization", "Bearer abc.def")),
        ({"scheme": "bearer", "credentials": "abc"}, ("authorization", "bearer abc")),
        ({"scheme": "Basic", "credentials": "dTpw"}, ("authorization", "Basic dTpw")),
        ({"scheme": "Basic", "credentials": "u:p"}, ("authorization", "Basic dTpw")),
        ({"scheme": "ApiKey", "credentials": "abc"}, ("authorization", "ApiKey abc")),
        ({"scheme": "apiKey", "credentials": "X-Api-Key: abc"}, ("x-api-key", "abc")),
        ({"scheme": "Bearer"}, None),
    ],
)
async def test_webhook_post_has_registered_credentials(authentication: Any, header: tuple[str, str] | None) -> None:
    post = await told({"token": "the token", "authentication": authentication})
    assert post.headers["x-a2a-notification-token"] == "the token"
    assert {name: value for name, value in post.headers.items() if name in ("authorization", "x-api-key")} == dict(
        [header] if header else []
    )


async def test_every_webhook_post_is_signed_and_omits_signing_key() -> None:
    """The token is the signing key. Only a token without the key prefix is also sent in a header."""
    key = signing.new_token()
    keyed, plain, made = await told({"token": key}), await told({"token": "plain"}), await told({})
    assert keyed.is_signed_by(key)
    assert plain.is_signed_by("plain")
    assert "webhook-signature" in made.headers
    assert "x-a2a-notification-token" not in {*keyed.headers, *made.headers}
    assert key not in str(keyed)
    assert plain.headers["x-a2a-notification-token"] == "plain"


async def test_webhook_body_follows_protocol_version() -> None:
    """Version 1.0 receives the event as application/a2a+json; v0.3 the task, as its SDKs expect."""
    post = await told({})
    assert (post.headers["content-type"], post.headers["a2a-version"]) == ("application/a2a+json", "1.0")
    assert set(json.loads(post.body)) == {"statusUpdate"}
    async with receiving(answers(200)) as receiver:
        pushing = Pushing()
        task = await pushing.rpc("message/send", old_send(config={"id": "p", "url": receiver.url()}))
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    assert receiver.ids == ids(task, 2, 3)
    said = [json.loads(each.body) for each in receiver.posts]
    assert [(each["kind"], each["status"]["state"]) for each in said] == [("task", "working"), ("task", "completed")]
    # Validate a post with the strict model: each post is a complete task with the state of its event.
    assert v03.Task.model_validate(said[1]).model_dump(mode="json", by_alias=True, exclude_none=True) == said[1] == task
    assert {each.headers["content-type"] for each in receiver.posts} == {"application/json"}
    assert {each.headers["a2a-version"] for each in receiver.posts} == {"0.3"}


async def told(config: dict[str, Any]) -> ReceivedPost:
    """Send a message with this push config; return the last post that its webhook received."""
    async with receiving(answers(200)) as receiver:
        pushing = Pushing()
        task = await pushing.send({"id": "p", "url": receiver.url(), **config})
        await pushing.rests(task, lambda delivery: delivery.cursor == 3)
    return receiver.posts[-1]


async def test_blocked_url_is_not_registered() -> None:
    """Each operation that stores a config refuses the URL, in both versions."""
    pushing = Pushing(allowed=WebhookPolicy.for_service("https://agents.example.com/a2a"))
    task = (await pushing.send())["id"]
    for number, url in enumerate(url for urls in BAD.values() for url in urls):
        message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        for method, params in (
            (CREATE, {"taskId": task, "id": "p", "url": url}),
            (SET_OLD, {"taskId": task, "pushNotificationConfig": {"id": "p", "url": url}}),
            ("SendMessage", {"message": message, "configuration": {"taskPushNotificationConfig": {"url": url}}}),
            ("message/send", old_send(f"{number}", {"url": url})),
        ):
            refusal = await pushing.rpc(method, params)
            assert refusal.get("code") == PARAMS, (method, url)
            assert refusal["message"].partition("url cannot be called: it")[1], refusal
    assert (await pushing.rpc(LIST, {"taskId": task})).get("configs", []) == []
    assert (await pushing.rpc("ListTasks", {}))["totalSize"] == 1


async def test_webhook_at_address_of_server_itself_is_refused() -> None:
    """The server knows its own address from its settings, or from the event of AWS's HTTP entry point."""
    name = "abc.lambda-url.eu-west-1.on.aws"
    pushing = Pushing(allowed=WebhookPolicy.for_service("https://agents.example.com"))
    task = (await pushing.send())["id"]
    pushing.app = entrypoints.function_url(pushing.app, name)
    message = {"messageId": "m-own", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    for url in (f"https://{name}/", f"https://{name.upper()}:443/hook", "https://agents.example.com/hook"):
        for method, params in (
            (CREATE, {"taskId": task, "id": "p", "url": url}),
            (SET_OLD, {"taskId": task, "pushNotificationConfig": {"id": "p", "url": url}}),
            ("SendMessage", {"message": message, "configuration": {"taskPushNotificationConfig": {"url": url}}}),
        ):
            refusal = await pushing.rpc(method, params)
            assert (refusal["code"], refusal["message"].endswith("it is this service itself.")) == (PARAMS, True)
    other = f"https://other-{name}/"
    assert (await pushing.rpc(CREATE, {"taskId": task, "id": "p", "url": other}))["url"] == other


async def test_no_push_config_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Store a config, have one refused, and let deliveries fail: the log has no secret."""
    caplog.set_level("DEBUG")
    secrets = ("s3cret-token", "s3cret-credentials", "s3cret-query")
    config = {"id": "p", "token": secrets[0], "authentication": {"scheme": "Bearer", "credentials": secrets[1]}}
    async with receiving(answers(500)) as receiver:
        pushing = Pushing()
        task = await pushing.send({**config, "url": receiver.url(f"/hook?key={secrets[2]}")})
        await pushing.rests(task, lambda delivery: delivery.tries == 1)
        for bad in ({"url": f"https://10.0.0.1/{secrets[2]}"}, {"url": HOOK, "token": f"{secrets[0]}\n"}):
            assert (await pushing.rpc(CREATE, {**config, "taskId": task["id"], **bad}))["code"] == PARAMS
    assert receiver.posts
    for secret in secrets:
        assert secret not in caplog.text


async def test_push_config_is_stored_although_queue_fails() -> None:
    """An error response would make the client register the config a second time, under another id."""
    pushing = Pushing()
    task = (await pushing.send())["id"]
    assert pushing.parts.push is not None
    pushing.parts.push.queue.close()
    created = await pushing.rpc(CREATE, {"taskId": task, "url": HOOK})
    assert created.get("url") == HOOK, created
    assert (await pushing.rpc(LIST, {"taskId": task}))["configs"] == [created]
