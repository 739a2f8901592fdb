"""Main function of the Lambda runtime process."""

import asyncio
import io
import logging
import os
import signal
import sys
from pathlib import Path

from mangum.types import ASGI

from . import import_path, log
from .application import InitError, load
from .loop import serve
from .runtime_api import ErrorReport, RuntimeApi
from .settings import RuntimeSettings, SettingsError
from .snapshot import RestoreError

logger = logging.getLogger(__name__)


def main() -> int:
    """Serve the configured app until SIGTERM and return 0, or return 1 after a failure."""
    # Exit cleanly on SIGTERM until the event loop handles the signal. By default, SIGTERM would kill the process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Flush each line, because Python buffers output to a pipe, and Lambda may freeze the process before a flush.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        settings = RuntimeSettings.from_environ()
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 1
    log.configure(settings.log_level)
    import_path.extend(Path(__file__).parents[2])
    # Use one event loop for the whole environment, since the app binds objects to the loop at startup.
    events = asyncio.new_event_loop()
    asyncio.set_event_loop(events)
    try:
        app = load(settings.app)
        events.run_until_complete(_serve_until_terminated(app, settings))
        return 0
    except InitError as error:
        # Put the reason into the message, because it is at the end of a long traceback.
        logger.exception("The app does not start. %s", error)
        events.run_until_complete(_report(error, settings))
    except RestoreError:
        logger.exception("The environment cannot be restored from its snapshot")
    except OSError:
        logger.exception("The Runtime API has no next invocation for this environment")
    return 1


async def _serve_until_terminated(app: ASGI, settings: RuntimeSettings) -> None:
    serving = asyncio.create_task(serve(app, settings))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    await asyncio.wait({serving})
    if not serving.cancelled():
        serving.result()


async def _report(error: InitError, settings: RuntimeSettings) -> None:
    try:
        await RuntimeApi(settings.runtime_api).report_init_error(ErrorReport(error.error_type, str(error)))
    except OSError:
        logger.exception("The Runtime API did not accept the report")


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    # Do not use sys.exit: it would join the threads of executors, and a canceled agent may block its thread forever.
    sys.stdout.flush()
    os._exit(code)
