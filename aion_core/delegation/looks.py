"""Look at the remote agents for whose answers a suspended turn waits (GetTask, A2A 3.1.3)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from a2a.types import GetTaskRequest
from a2a.utils.errors import A2AError

from aion_core.delegation.client import RemoteClient
from aion_core.delegation.durable_call import is_transient
from aion_core.delegation.outcome import outcome_of
from aion_core.engine.records import AwaitedCall
from aion_core.engine.remote_calls.records import CallState
from aion_core.engine.remote_calls.store import RemoteCallStore
from aion_core.engine.task.states import INTERRUPTED, TERMINAL
from aion_core.errors import ConfigurationError, StoreError
from aion_core.protocol.types import StreamResponse, Task
from aion_core.table.keys import ContextKey, TaskKey

logger = logging.getLogger(__name__)

Clients = Callable[[str], AbstractAsyncContextManager[RemoteClient]]
"""Function that returns the client of a remote agent by its name or URL. Raises ConfigurationError."""

OwnLook = Callable[[ContextKey, TaskKey, AwaitedCall], Awaitable[Task]]
"""Function that reads the remote task of a call which an agent makes in a way of its own. It raises what `Clients` does."""


async def have_answers(
    clients: Clients,
    store: RemoteCallStore,
    context: ContextKey,
    task: TaskKey,
    calls: Sequence[AwaitedCall],
    *,
    own_look: OwnLook | None = None,
) -> bool:
    """Return True if a turn of the task has to go on for one of these calls. Store the answers that have come.

    A call also needs its turn if the remote agent asks a question, refuses to tell, or is no longer configured. Return
    False for one that can't be reached now: a later look tries again. `own_look` is used for the calls that name an
    `agent`. Raises StoreError.
    """

    async def read(call: AwaitedCall) -> Task:
        if call.agent and own_look is not None:
            return await own_look(context, task, call)
        async with clients(call.remote) as client:
            return await client.get_task(GetTaskRequest(id=call.remote_task))

    return any(await asyncio.gather(*(_has_answer(read, store, task, call) for call in calls)))


async def _has_answer(
    read: Callable[[AwaitedCall], Awaitable[Task]], store: RemoteCallStore, task: TaskKey, call: AwaitedCall
) -> bool:
    try:
        remote = await read(call)
    except StoreError:
        raise
    except A2AError as error:
        if not is_transient(error):
            return True
        logger.warning("The agent %s can't be reached for a look at its task: %s", call.remote, error)
        return False
    except ConfigurationError:
        return True
    except Exception:  # the author's credentials may raise anything
        logger.exception("The agent %s could not be asked for its task.", call.remote)
        return False
    if remote.status.state in TERMINAL:
        # Store the answer now, so that the turn need not ask for it again.
        answer = outcome_of([StreamResponse(task=remote)]).response()
        await store.settle(task, call.key, CallState.ENDED, answer)
    if call.calls_back and remote.status.state in TERMINAL | INTERRUPTED:
        logger.warning("The agent %s has not called back: can it reach this server's public URL?", call.remote)
    return remote.status.state in TERMINAL | INTERRUPTED
