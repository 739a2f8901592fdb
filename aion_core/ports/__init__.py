"""Ports: a Protocol for each outside dependency of the core. Each docstring is a contract.

Adapters implement a Protocol without inheriting from it. The contract tests (`tests/contract`) check every adapter.
"""

from aion_core.ports.agent import (
    AfterCrash,
    Agent,
    AgentArtifact,
    AgentMessage,
    AgentMetadata,
    AgentTyping,
    AnswerAs,
    Chunk,
    Emission,
    Ending,
    History,
    InputAwareAgent,
    InputRequired,
    InspectableAgent,
    Paused,
    Reply,
    ReplyAs,
    StateEntry,
    StepCompleted,
    StoredState,
    TaskUsed,
    TurnRequest,
)
from aion_core.ports.api_keys import ApiKeys, KeyRecord
from aion_core.ports.limits import Limits, OpenStream, OpenTask, RateLimits
from aion_core.ports.long_term_memory import (
    MAX_MEMORY_BYTES,
    MAX_MEMORY_NAME_BYTES,
    LongTermMemory,
    MemoryItem,
    MemoryScope,
    MemoryWrite,
    Namespace,
)
from aion_core.ports.payloads import Blobs, Cipher
from aion_core.ports.push import (
    MAX_PUSH_CONFIGS,
    Claim,
    Delivery,
    ExpiredPushTimer,
    PushConfig,
    PushConfigs,
    PushVersion,
)
from aion_core.ports.queues import PushQueue, PushWakeUp, WakeUp, WorkQueue
from aion_core.ports.runtime import Clock, Metric, Metrics, NoopTraces, NullMetrics, SpanKind, SystemClock, Traces
from aion_core.ports.task_list import ListCursor, TaskFilter, TaskList
from aion_core.ports.task_store import (
    MAX_WAITING,
    ContextInUse,
    Duplicate,
    ExpiredTimer,
    FollowUp,
    Interrupted,
    LeaseHeld,
    NewTask,
    TaskStore,
    TurnFinished,
    TurnQueued,
    TurnStarted,
    WhenBusy,
)
from aion_core.ports.tasks import (
    ANONYMOUS,
    ContextKey,
    Cursor,
    Delta,
    DeltaBatch,
    Head,
    Lease,
    Log,
    Numbered,
    OpenText,
    PushEvents,
    StoppedBy,
    TaskKey,
    Turn,
)
from aion_core.ports.webhooks import (
    POST_SECONDS,
    Blocked,
    Delivered,
    Notification,
    PostOutcome,
    PostRefused,
    Render,
    Unreachable,
    WebhookClient,
    WebhookGone,
    WebhookRequest,
)
