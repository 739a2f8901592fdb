"""Messages for the operator that explain an AWS error and name the next step."""

import re

from aion_core.errors import AionError, OtherLayout, StoreCorrupt, StoreError, TableMissing

_NO_CREDENTIALS = (
    "No AWS credentials found. Name a profile (--profile, AWS_PROFILE), sign in (`aws sso login`), or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
)
_OLD_CREDENTIALS = "Your AWS credentials have expired. Sign in again (`aws sso login`)."
_BAD_CREDENTIALS = "AWS doesn't recognize these credentials. Check the profile (--profile, AWS_PROFILE)."
_BAD_SIGNATURE = (
    "AWS refuses the signature. Check the credentials (--profile, AWS_PROFILE), and this machine's clock, which may be off by "
    "at most five minutes."
)
_BAD_CLOCK = "AWS refuses the time of the request. Set this machine's clock."
_THROTTLED = "AWS is throttling your requests. Try again in a minute."
_FORBIDDEN = "Your AWS credentials lack a permission"
_NO_NETWORK = "AWS doesn't respond. Check the network, --region and --endpoint-url (AWS_ENDPOINT_URL)."
_NOT_AWS = (
    "The response isn't from AWS; it may be from a proxy. Check the network, HTTPS_PROXY, --region and --endpoint-url "
    "(AWS_ENDPOINT_URL)."
)
_NAMES = "--stack, --table, --region and --profile."
_NOT_THERE = f"No resource with this name in this account and region. Check {_NAMES}"

_KEY_IS_OFF = (
    "The KMS key of the stack is disabled or will be deleted. Run `aws kms cancel-key-deletion --key-id KEY` if it will be "
    "deleted, then `aws kms enable-key --key-id KEY`."
)
_MOVING = "SQS can't do this now: a redrive of this queue may still be running. See `aws sqs list-message-move-tasks`."
_CHANGED = "Another deployment changed the stack meanwhile. Run `aion deploy` again."

ERROR_TEXTS = {
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
    "SSOTokenLoadError": _OLD_CREDENTIALS,
    "UnauthorizedSSOTokenError": _OLD_CREDENTIALS,
    "TokenRetrievalError": _OLD_CREDENTIALS,
    "ExpiredToken": _OLD_CREDENTIALS,
    "ExpiredTokenException": _OLD_CREDENTIALS,
    "UnrecognizedClientException": _BAD_CREDENTIALS,
    "InvalidClientTokenId": _BAD_CREDENTIALS,
    "InvalidAccessKeyId": _BAD_CREDENTIALS,
    "InvalidToken": _BAD_CREDENTIALS,
    "InvalidSignatureException": _BAD_SIGNATURE,
    "SignatureDoesNotMatch": _BAD_SIGNATURE,
    "RequestExpired": _BAD_CLOCK,
    "RequestTimeTooSkewed": _BAD_CLOCK,
    "ProvisionedThroughputExceededException": _THROTTLED,
    "RequestLimitExceeded": _THROTTLED,
    "RequestThrottled": _THROTTLED,
    "SlowDown": _THROTTLED,
    "Throttling": _THROTTLED,
    "ThrottlingException": _THROTTLED,
    "AccessDenied": f"{_FORBIDDEN}.",
    "AccessDeniedException": f"{_FORBIDDEN}.",
    "ProfileNotFound": "Your AWS configuration has no profile with this name (--profile, AWS_PROFILE).",
    "NoRegionError": "Name the deployment's AWS region: --region, or AWS_REGION.",
    "InvalidRegionError": "That isn't the name of an AWS region, such as eu-west-1. Check --region and AWS_REGION.",
    "EndpointConnectionError": _NO_NETWORK,
    "ConnectTimeoutError": _NO_NETWORK,
    "ConnectionClosedError": _NO_NETWORK,
    "ReadTimeoutError": _NO_NETWORK,
    "ResponseParserError": _NOT_AWS,
    "ResourceNotFoundException": _NOT_THERE,
    "AWS.SimpleQueueService.NonExistentQueue": _NOT_THERE,
    "QueueDoesNotExist": _NOT_THERE,
    "DisabledException": _KEY_IS_OFF,
    "KMS.DisabledException": _KEY_IS_OFF,
    "KMSInvalidStateException": _KEY_IS_OFF,
    "KMS.KMSInvalidStateException": _KEY_IS_OFF,
    "ChangeSetNotFound": _CHANGED,
    "InvalidChangeSetStatus": _CHANGED,
    "UnsupportedOperation": _MOVING,
    "AWS.SimpleQueueService.UnsupportedOperation": _MOVING,
}
"""Messages for the operator, by AWS's error code or by the class name of the SDK's error."""

_SQLITE = "SQLite: "
"""Prefix of the error messages of a local SQLite store."""


def error_text(error: AionError) -> str:
    """Return a message for the operator. `ERROR_TEXTS` explains known errors of AWS."""
    if not isinstance(error, StoreError):
        return str(error)
    if str(error).startswith(_SQLITE):
        remedy = " `aion dev --fresh` starts with an empty one." if isinstance(error, StoreCorrupt) else ""
        return f"The store of `aion dev` failed: {str(error).removeprefix(_SQLITE)}.{remedy}"
    if isinstance(error, StoreCorrupt | OtherLayout):
        return str(error)
    if isinstance(error, TableMissing):
        sentences = str(error).rpartition(". ")[0]
        return f"{sentences}. If the name is wrong, check {_NAMES}"
    operation, _, code = str(error).rpartition(": ")
    text = ERROR_TEXTS.get(code)
    if text is None and (reason := getattr(error, "reason", "")):
        return f"AWS refused ({error}): {reason}"
    if text is None:
        return f"AWS refused: {error}." if operation else f"AWS failed: {error}."
    is_named = operation and text == f"{_FORBIDDEN}."
    return f"{_FORBIDDEN} ({_refused_action(error) or operation})." if is_named else text


def _refused_action(error: StoreError) -> str:
    """Return the IAM action that AWS's message names, or "". A call of DynamoDB may lack `kms:Decrypt`, for example."""
    response = getattr(error.__cause__, "response", None) or {}
    reason = getattr(error, "reason", "") or response.get("Error", {}).get("Message") or ""
    found = re.search(r"not authorized to perform: ([\w-]+:\w+)", reason)
    return found[1] if found else ""


def is_forbidden(error: StoreError) -> bool:
    """Return True if the credentials lack a permission. Such an error does not show whether the resource exists."""
    return str(error).rpartition(": ")[2] in ("AccessDenied", "AccessDeniedException", "403", "Forbidden")


_MISSING = frozenset({"404", "NoSuchBucket", "NotFoundException", "ParameterNotFound"})


def is_missing(error: StoreError) -> bool:
    """Return True if AWS has no resource of this name."""
    code = str(error).rpartition(": ")[2]
    return code in _MISSING or ERROR_TEXTS.get(code) == _NOT_THERE
