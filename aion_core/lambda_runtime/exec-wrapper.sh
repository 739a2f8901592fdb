#!/bin/sh
# AWS_LAMBDA_EXEC_WRAPPER has the path of this script. Lambda starts it in place of its Python runtime, with the command of
# the runtime as arguments: /var/lang/bin/python3.13 /var/runtime/bootstrap.py
# https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html#runtime-wrapper
set -eu

# SAM CLI cannot read a streamed response, and answers it with a 502. Under `sam local`, the original runtime calls the
# function's handler, and the same app answers with a buffered response.
if [ "${AWS_SAM_LOCAL:-}" = "true" ]; then
    exec "$@"
fi

# Keep the interpreter of the runtime and replace its bootstrap.py. The code is two folders up from here; import_path.py adds
# the layers.
code="${0%/aion_core/lambda_runtime/*}"
export PYTHONPATH="$code${PYTHONPATH:+:$PYTHONPATH}"
exec "${1:?Lambda passes the command to replace}" -m aion_core.lambda_runtime
