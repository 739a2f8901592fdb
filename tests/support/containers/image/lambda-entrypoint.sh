#!/bin/sh
# Run the handler named by the only argument. Without a Runtime API, run the emulator of it in this image.
if [ $# -ne 1 ]; then
  echo "usage: /lambda-entrypoint.sh HANDLER" >&2
  exit 2
fi
export _HANDLER="$1"
if [ -n "${AWS_LAMBDA_RUNTIME_API:-}" ]; then
  exec /var/runtime/bootstrap
fi
exec /usr/local/bin/aws-lambda-rie /var/runtime/bootstrap
