"""Runtime loop for AWS Lambda. It streams the responses of an ASGI app from a managed Python runtime.

Lambda's Python runtime buffers every response, but the Runtime API supports streaming. `exec-wrapper.sh` replaces the
process of the runtime with `python -m aion_core.lambda_runtime`:

__main__.py      process: settings, log, exit code
settings.py      settings from the environment
log.py           log records as lines of JSON
import_path.py   import path, as Lambda's own bootstrap.py makes it
application.py   import and lifespan of the ASGI app
snapshot.py      SnapStart: the snapshot after startup, and the environment restored from it
loop.py          serves one invocation after another: calls the app and waits for its return
invocation.py    invocation and context of the function
http_event.py    Lambda event -> ASGI scope
refusal.py       response to an event whose request cannot be decoded
response.py      ASGI messages -> streamed response
rescue.py        end of a response whose app blocks the event loop
runtime_api.py   endpoints of the Runtime API, over h11
buffered.py      handler for a runtime that cannot stream, such as that of `sam local`: whole responses, without the loop

The package is independent of A2A and of the rest of aion_core.
"""
