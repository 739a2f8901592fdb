"""Lambda SnapStart: the snapshot after the app's startup, and the renewal of an environment restored from it.

https://docs.aws.amazon.com/lambda/latest/dg/snapstart-runtime-hooks-custom.html
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any

from .application import InitError
from .runtime_api import ErrorReport, RuntimeApi

AFTER_RESTORE = "aion.after_restore"
"""Key in the app's lifespan state for a list of functions. The runtime calls them after each restore."""

Hook = Callable[[], object]


class RestoreError(Exception):
    """Error if a hook after a restore fails. Lambda then ends the environment."""


async def wait_for_restore(api: RuntimeApi, state: Mapping[str, Any]) -> None:
    """Let Lambda take the snapshot. In each environment restored from it, run the hooks and return.

    The app has its hooks in the lifespan `state`. Agents' code registers its hooks with `snapshot_restore_py`. Raises
    InitError for a failed hook before the snapshot, and RestoreError for a failed hook after a restore.
    """
    before, after = _registered()
    for hook in reversed(before):
        try:
            await asyncio.to_thread(hook)
        except Exception as error:
            # The log has the message of the error, without credentials that it may quote; Lambda's report has only its type.
            reason = f"A hook before the snapshot failed with {type(error).__name__}"
            raise InitError("Runtime.BeforeSnapshotError", reason) from error
    await api.restore_next()
    # Seed the random numbers again: otherwise all environments restored from one snapshot generate the same numbers.
    random.seed()
    for hook in (*state.get(AFTER_RESTORE, ()), *after):
        try:
            await asyncio.to_thread(hook)
        except Exception as error:
            reason = f"A hook failed with {type(error).__name__}"
            await api.report_restore_error(ErrorReport("Runtime.AfterRestoreError", reason))
            raise RestoreError("A hook after the restore failed") from error


def _registered() -> tuple[list[Hook], list[Hook]]:
    """Return the hooks that agents' code has registered, before the snapshot and after a restore."""
    try:
        # Import AWS's library here, because only Lambda's Python runtime contains it. Other machines take no snapshots.
        import snapshot_restore_py as library  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return [], []
    return [_bound(*each) for each in library.get_before_snapshot()], [
        _bound(*each) for each in library.get_after_restore()
    ]


def _bound(function: Callable[..., object], arguments: tuple[Any, ...], named: dict[str, Any]) -> Hook:
    return lambda: function(*arguments, **named)
