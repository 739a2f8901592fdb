"""The Runtime API loop that streams a plain ASGI app from a managed Python runtime.

The managed runtime buffers every response; the Runtime API beneath it streams for any client. `exec-wrapper.sh`
replaces the runtime's process with `python -m aion_core.lambda_runtime`, which reads, top to bottom:

    __main__      a process: settings, log, exit code
    loop          one invocation after another, each until its app call has returned
    application   the ASGI app: its import and its lifespan
    invocation    what `next` gave -> an ASGI scope
    response      ASGI messages -> the streamed response
    runtime_api   the Runtime API's endpoints, over h11
    settings      the environment, read once
    log           one line of JSON per record

It knows nothing of A2A and imports nothing else of aion_core.
"""
