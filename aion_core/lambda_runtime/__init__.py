"""Runtime loop for AWS Lambda. It streams the responses of an ASGI app from a managed Python runtime.

Lambda's Python runtime buffers every response, but the Runtime API supports streaming. `exec-wrapper.sh` replaces the
process of the runtime with `python -m aion_core.lambda_runtime`:

    __main__      process: settings, log, exit code
    loop          serves one invocation after another: calls the app and waits for its return
    application   import and lifespan of the ASGI app
    invocation    Lambda event -> ASGI scope
    response      ASGI messages -> streamed response
    runtime_api   endpoints of the Runtime API, over h11
    settings      settings from the environment
    log           log records as lines of JSON

The package is independent of A2A and of the rest of aion_core.
"""
