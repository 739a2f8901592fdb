"""A2A operations on push notification configs, for all protocol versions (A2A 3.1.7 to 3.1.10)."""

import logging
from collections.abc import Collection, Mapping

from a2a.types import a2a_pb2 as pb
from msgspec.structs import replace
from uuid_utils import uuid7

from aion_core.clock import Clock
from aion_core.engine.agent_options import PushEvents
from aion_core.engine.call import CallContext
from aion_core.engine.delivery.push_configs import PushConfigs
from aion_core.engine.isolation import visible_head
from aion_core.engine.listing import page_tokens
from aion_core.engine.listing.task_list import TaskList
from aion_core.engine.push_config import MAX_PUSH_CONFIGS, PushConfig, PushVersion
from aion_core.engine.queues import PushQueue, PushWakeUp
from aion_core.engine.stored_tasks import StoredTasks
from aion_core.engine.wake_ups import wake_delivery
from aion_core.errors import InvalidMessage, PushConfigNotFound, StoreCorrupt, TaskNotFound
from aion_core.protocol.ids import is_id
from aion_core.push.registration import check_config, client_config, stored_config
from aion_core.push.ssrf import WebhookPolicy
from aion_core.table.keys import TaskKey

logger = logging.getLogger(__name__)

MAX_PAGE_SIZE = 100
"""Largest page size. A task always has fewer configs."""


class PushRegistry:
    """Operations on the push configs of a caller's tasks.

    Only the task's owner can read a config. Each method except `with_message` raises TaskNotFound for a missing task,
    and for a task of another owner or agent.
    """

    def __init__(
        self,
        configs: PushConfigs,
        queue: PushQueue,
        tasks: StoredTasks,
        task_list: TaskList,
        policy: WebhookPolicy,
        clock: Clock,
        *,
        events: Mapping[str, PushEvents] | None = None,
        redacting: Collection[str] = (),
    ) -> None:
        """`events` has the kinds of events that each agent's webhooks receive.

        The agents `redacting` return a config's token and credentials only from its creation.
        """
        self._configs, self._work_queue, self._tasks, self._list = configs, queue, tasks, task_list
        self._policy, self._clock, self._events, self._redacting = policy, clock, events or {}, redacting

    async def create(
        self, call: CallContext, config: pb.TaskPushNotificationConfig, version: PushVersion
    ) -> pb.TaskPushNotificationConfig:
        """Store a push config for a task and return it with its id and token. A config with the same id is replaced.

        The webhook receives the task's events from now on. Raises InvalidMessage with the reason, and
        TooManyPushConfigs.
        """
        check_config(config, self._policy.excluding(call.entrypoint_url))
        key = await self._key(call, config.task_id)
        stored, before = await self._stored(call, config, key, version)
        await self._configs.put(key, stored)
        await wake_delivery(self._work_queue, PushWakeUp(key))
        # A generated token that the config keeps was returned by its creation.
        is_known = before is not None and not config.token and stored.token == before.token
        return client_config(self._redacted(call, stored) if is_known else stored, config.task_id, config.tenant)

    async def with_message(
        self, call: CallContext, request: pb.SendMessageRequest, version: PushVersion
    ) -> CallContext:
        """Return the call with the push config of its message, if any. The store writes both in one transaction.

        Raises InvalidMessage with the reason if the config is invalid.
        """
        if not request.configuration.HasField("task_push_notification_config"):
            return call
        config, task_id = request.configuration.task_push_notification_config, request.message.task_id
        check_config(
            config, self._policy.excluding(call.entrypoint_url), before="configuration.taskPushNotificationConfig."
        )
        stored, _ = await self._stored(call, config, TaskKey(call.owner, task_id), version)
        return replace(call, push=stored)

    async def get(
        self, call: CallContext, request: pb.GetTaskPushNotificationConfigRequest, version: PushVersion
    ) -> pb.TaskPushNotificationConfig:
        """Return a push config of a task. Raises PushConfigNotFound.

        In v0.3 the request may have no id. It then gets the config with the task's id, or else the first config.
        """
        if not request.id and version is PushVersion.V1:
            raise InvalidMessage("id is missing: the id of the config, from the answer to its creation.", field="id")
        key = await self._key(call, request.task_id)
        stored = await self._configs.get(key, request.id or request.task_id) if is_id(request.id or "t") else None
        if stored is None and not request.id:
            stored = next(iter(await self._configs.all(key)), None)
        if stored is None:
            raise PushConfigNotFound(request.id)
        return client_config(self._redacted(call, stored), request.task_id, request.tenant)

    async def list_configs(
        self, call: CallContext, request: pb.ListTaskPushNotificationConfigsRequest
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        """Return a page of the task's push configs, sorted by id. On the last page, nextPageToken is ""."""
        size = request.page_size or MAX_PUSH_CONFIGS
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidMessage(
                f"pageSize is {size}: it must be a number from 1 to {MAX_PAGE_SIZE}, or be left out.",
                field="pageSize",
            )
        key = await self._key(call, request.task_id)
        secret, of = await self._list.secret(), ("push configs", call.owner, call.agent, request.task_id)
        after = page_tokens.read_after(secret, of, request.page_token) if request.page_token else ""
        remaining = [stored for stored in await self._configs.all(key) if stored.id > after]
        page = remaining[:size]
        return pb.ListTaskPushNotificationConfigsResponse(
            configs=[client_config(self._redacted(call, stored), request.task_id, request.tenant) for stored in page],
            next_page_token=page_tokens.make_after(secret, of, page[-1].id) if len(remaining) > size else "",
        )

    async def delete(self, call: CallContext, request: pb.DeleteTaskPushNotificationConfigRequest) -> None:
        """Delete a push config of a task, if it exists."""
        if not request.id:
            raise InvalidMessage("id is missing: the id of the config, from the answer to its creation.", field="id")
        key = await self._key(call, request.task_id)
        if is_id(request.id):
            await self._configs.delete(key, request.id)

    async def _key(self, call: CallContext, task_id: str) -> TaskKey:
        if not task_id:
            raise InvalidMessage(
                "taskId is missing: the id of the task, from the answer to the message.", field="taskId"
            )
        if not is_id(task_id):
            raise TaskNotFound(task_id)
        return (await visible_head(self._tasks, task_id, call)).key

    async def _stored(
        self, call: CallContext, config: pb.TaskPushNotificationConfig, key: TaskKey, version: PushVersion
    ) -> tuple[PushConfig, PushConfig | None]:
        """Return the push config to store, and the stored one that it replaces."""
        # A config without an id gets a new one; in v0.3 its task's id, which is empty if the message creates the task.
        config_id = config.id or (key.task_id if version is PushVersion.V03 else str(uuid7()))
        events = self._events.get(call.agent, PushEvents.STATUS)
        before = await self._before(key, config_id) if key.task_id and config_id else None
        at = self._clock.now()
        return stored_config(config, config_id, version=version, events=events, at=at, before=before), before

    def _redacted(self, call: CallContext, stored: PushConfig) -> PushConfig:
        """Return the push config as a client may read it back."""
        return replace(stored, token="", credentials="") if call.agent in self._redacting else stored

    async def _before(self, key: TaskKey, config_id: str) -> PushConfig | None:
        try:
            return await self._configs.get(key, config_id)
        except StoreCorrupt:
            # Return no config instead of an error, because the new config replaces the unreadable one.
            logger.warning("The replaced push config cannot be read.", extra={"task_id": key.task_id})
            return None
