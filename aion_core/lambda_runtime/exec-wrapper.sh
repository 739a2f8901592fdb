#!/bin/sh
# Starts our runtime loop in place of a command, which is the argument. In a zip, Lambda starts this script as its wrapper
# (AWS_LAMBDA_EXEC_WRAPPER), with the command of its runtime: /var/lang/bin/python3.13 /var/runtime/bootstrap.py
# https://docs.aws.amazon.com/lambda/latest/dg/runtimes-modify.html#runtime-wrapper
# In an image the script is the ENTRYPOINT, with the base image's own as the command: /lambda-entrypoint.sh HANDLER
# https://docs.aws.amazon.com/lambda/latest/dg/images-create.html#images-parms
set -eu

# SAM CLI cannot read a streamed response, and answers it with a 502. Under `sam local`, the original runtime calls the
# function's handler, and the same app answers with a buffered response.
if [ "${AWS_SAM_LOCAL:-}" = "true" ]; then
    exec "$@"
fi

# `docker run` gives an image no Runtime API: the base image's entry point emulates one, and starts this script again.
if [ -z "${AWS_LAMBDA_RUNTIME_API:-}" ]; then
    export AWS_LAMBDA_EXEC_WRAPPER="$0"
    exec "$@"
fi

# Keep the interpreter of the runtime and replace its bootstrap.py; an image has it on PATH. The code is two folders up from
# here; import_path.py adds the layers.
case "${1:?there is no command to replace}" in
    *python*) python="$1" ;;
    *) python=python3 ;;
esac
code="${0%/aion_core/lambda_runtime/*}"
export PYTHONPATH="$code${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" -m aion_core.lambda_runtime
