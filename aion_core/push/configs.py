"""The operations on push configs, in the domain's own terms: what a front calls, whatever its dialect (R91, R92)."""

import logging
from collections.abc import Mapping
from dataclasses import replace

from a2a.types import a2a_pb2 as pb
from uuid_utils.compat import uuid7

from aion_core.errors import InvalidMessage, PushConfigNotFound, StoreCorrupt, TaskNotFound
from aion_core.ports import (
    MAX_PUSH_CONFIGS,
    Clock,
    PushConfig,
    PushConfigs,
    PushEvents,
    PushQueue,
    PushVersion,
    PushWakeUp,
    TaskKey,
    TaskList,
    TaskStore,
)
from aion_core.protocol.message_rules import is_id
from aion_core.push.registration import as_given, check_config, to_keep
from aion_core.push.ssrf import WebhookPolicy
from aion_core.tasks import page_tokens
from aion_core.tasks.call import Call
from aion_core.tasks.notifications import wake_delivery

logger = logging.getLogger(__name__)

MAX_PAGE_SIZE = 100
"""A task has fewer configs; a client that asks for more than it can get is no worse than one that asks for all."""


class PushRegistry:
    """Creates, reads, lists and deletes the push configs of a caller's tasks.

    A config is read back by the task's owner only, as it was given. Each method raises TaskNotFound for a task that is
    not there, or not the caller's.
    """

    def __init__(
        self,
        configs: PushConfigs,
        queue: PushQueue,
        tasks: TaskStore,
        task_list: TaskList,
        allowed: WebhookPolicy,
        clock: Clock,
        *,
        events: Mapping[str, PushEvents] | None = None,
    ) -> None:
        """`events`: which are told of, for each agent."""
        self._configs, self._work_queue, self._tasks, self._list = configs, queue, tasks, task_list
        self._allowed, self._clock, self._events = allowed, clock, events or {}

    async def create(
        self, call: Call, config: pb.TaskPushNotificationConfig, version: PushVersion
    ) -> pb.TaskPushNotificationConfig:
        """Keep the config, in the place of one of its id, and return it with the id that it has.

        It hears of the events after those that there are. Raises InvalidMessage that says what is wrong with it, and
        TooManyPushConfigs.
        """
        check_config(config, self._allowed.and_beside(call.entrypoint_url))
        key = await self._key(call, config.task_id)
        config_id = config.id or _id_for(version, config.task_id)
        kept = await self._to_keep(call, config, key, config_id, version)
        await self._configs.put(key, kept)
        await wake_delivery(self._work_queue, PushWakeUp(key))
        return as_given(kept, config.task_id, config.tenant)

    async def with_message(self, call: Call, request: pb.SendMessageRequest, version: PushVersion) -> Call:
        """Return the call with the config that comes with its message, which is kept together with that, or not at all.

        Raises InvalidMessage that says what is wrong with it.
        """
        if not request.configuration.HasField("task_push_notification_config"):
            return call
        config, task_id = request.configuration.task_push_notification_config, request.message.task_id
        check_config(
            config, self._allowed.and_beside(call.entrypoint_url), before="configuration.taskPushNotificationConfig."
        )
        # Of a task that is yet to be made, v0.3's config is called by an id that is yet to be made too.
        config_id = config.id or _id_for(version, task_id)
        kept = await self._to_keep(call, config, TaskKey(call.owner, task_id), config_id, version)
        return replace(call, push=kept)

    async def get(
        self, call: Call, request: pb.GetTaskPushNotificationConfigRequest, version: PushVersion
    ) -> pb.TaskPushNotificationConfig:
        """Return the config; in v0.3 the task's own where none is named. Raises PushConfigNotFound."""
        if not request.id and version is PushVersion.V1:
            raise InvalidMessage("id is missing: it is the config's, from the answer to its creation.", field="id")
        key = await self._key(call, request.task_id)
        kept = await self._configs.get(key, request.id or request.task_id) if is_id(request.id or "t") else None
        if kept is None and not request.id:
            kept = next(iter(await self._configs.all(key)), None)
        if kept is None:
            raise PushConfigNotFound(request.id)
        return as_given(kept, request.task_id, request.tenant)

    async def list_configs(
        self, call: Call, request: pb.ListTaskPushNotificationConfigsRequest
    ) -> pb.ListTaskPushNotificationConfigsResponse:
        """Return a page of the task's configs, by their ids; "" as nextPageToken says that no more follow."""
        size = request.page_size or MAX_PUSH_CONFIGS
        if not 1 <= size <= MAX_PAGE_SIZE:
            raise InvalidMessage(
                f"pageSize is {size}: give a number from 1 to {MAX_PAGE_SIZE}, or leave it out for all.",
                field="pageSize",
            )
        key = await self._key(call, request.task_id)
        secret, of = await self._list.secret(), ("push configs", call.owner, call.agent, request.task_id)
        after = page_tokens.read_after(secret, of, request.page_token) if request.page_token else ""
        left = [kept for kept in await self._configs.all(key) if kept.id > after]
        page = left[:size]
        return pb.ListTaskPushNotificationConfigsResponse(
            configs=[as_given(kept, request.task_id, request.tenant) for kept in page],
            next_page_token=page_tokens.make_after(secret, of, page[-1].id) if len(left) > size else "",
        )

    async def delete(self, call: Call, request: pb.DeleteTaskPushNotificationConfigRequest) -> None:
        """Forget the config, whether there is one or not."""
        if not request.id:
            raise InvalidMessage("id is missing: it is the config's, from the answer to its creation.", field="id")
        key = await self._key(call, request.task_id)
        if is_id(request.id):
            await self._configs.delete(key, request.id)

    async def _key(self, call: Call, task_id: str) -> TaskKey:
        if not task_id:
            raise InvalidMessage(
                "taskId is missing: it is the task's id, from the answer to the message.", field="taskId"
            )
        key = TaskKey(call.owner, task_id)
        head = await self._tasks.head(key) if is_id(task_id) else None
        # A task of another agent is as unknown as one that never was.
        if head is None or head.context.agent != call.agent:
            raise TaskNotFound(task_id)
        return key

    async def _to_keep(
        self, call: Call, config: pb.TaskPushNotificationConfig, key: TaskKey, config_id: str, version: PushVersion
    ) -> PushConfig:
        events = self._events.get(call.agent, PushEvents.STATUS)
        before = await self._before(key, config_id) if key.task_id and config_id else None
        return to_keep(config, config_id, version=version, events=events, at=self._clock.now(), before=before)

    async def _before(self, key: TaskKey, config_id: str) -> PushConfig | None:
        try:
            return await self._configs.get(key, config_id)
        except StoreCorrupt:
            # A client that creates it again mends it.
            logger.warning("A push config that is replaced cannot be read.", extra={"task_id": key.task_id})
            return None


def _id_for(version: PushVersion, task_id: str) -> str:
    """Return the id of a config that names none: its task's in v0.3, which its clients go by; a new one in v1.0."""
    return task_id if version is PushVersion.V03 else str(uuid7())
