#!/bin/sh
# AWS_LAMBDA_EXEC_WRAPPER points here. Lambda then starts this script instead of its Python runtime and hands it, as
# arguments, the command it would have run: /var/lang/bin/python3.13 /var/runtime/bootstrap.py
# https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html#runtime-wrapper
set -eu

# `sam local` cannot stream, a streamed answer becomes a 502: there the original runtime calls the function's handler,
# which answers the same app buffered.
if [ "${AWS_SAM_LOCAL:-}" = "true" ]; then
    exec "$@"
fi

# The interpreter is the one the runtime would have used; its bootstrap.py is what we replace. That file also puts the
# code and the layers on Python's path, so it falls to us: the code is two folders up from here.
code="${0%/aion_core/lambda_runtime/*}"
export PYTHONPATH="$code:/opt/python${PYTHONPATH:+:$PYTHONPATH}"
exec "${1:?Lambda passes the command to replace}" -m aion_core.lambda_runtime
