"""Local AWS with the template's resources in an emulator, and with pollers that invoke the template's functions.

stack                the local stack of a template
resources            creates the template's tables, queues, buckets and keys
emulator             moto's server on a local port
request_serializer   lets moto handle one request at a time
moto_patches         makes moto faster, and adds an operation that it lacks
poller               what a poller does, and the function that it invokes
queue_poller         invokes a function for queue messages
schedule_poller      invokes a function at its schedule
lambda_events        events and contexts as Lambda passes them to a function

Importing this module does not import moto.
"""

REGION = "us-east-1"


class EmulatorError(Exception):
    """Error if the emulator cannot start or serve. The message states the reason."""
