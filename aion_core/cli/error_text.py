"""What went wrong, in a sentence that says what to do next: AWS's own words say it to programs."""

from aion_core.errors import AionError, StoreError

_NO_CREDENTIALS = (
    "There are no AWS credentials here. Name a profile (--profile, AWS_PROFILE), sign in (`aws sso login`), or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
)
_OLD_CREDENTIALS = "Your AWS credentials have expired. Sign in again (`aws sso login`)."
_BAD_CREDENTIALS = "AWS does not know these credentials. Look at the profile (--profile, AWS_PROFILE)."
_FORBIDDEN = "Your AWS credentials may not do this"
_NO_NETWORK = "AWS does not answer. Look at the network, at --region, and at --endpoint-url (AWS_ENDPOINT_URL)."
_NOT_THERE = "There is nothing of this name in this account and region. Look at --stack, --table, --region, --profile."

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
    "InvalidSignatureException": _BAD_CREDENTIALS,
    "SignatureDoesNotMatch": _BAD_CREDENTIALS,
    "AccessDenied": f"{_FORBIDDEN}.",
    "AccessDeniedException": f"{_FORBIDDEN}.",
    "ProfileNotFound": "Your AWS configuration has no profile of this name (--profile, AWS_PROFILE).",
    "NoRegionError": "Say in which AWS region the deployment is: --region, or AWS_REGION.",
    "EndpointConnectionError": _NO_NETWORK,
    "ConnectTimeoutError": _NO_NETWORK,
    "ConnectionClosedError": _NO_NETWORK,
    "ReadTimeoutError": _NO_NETWORK,
    "ResourceNotFoundException": _NOT_THERE,
    "AWS.SimpleQueueService.NonExistentQueue": _NOT_THERE,
    "QueueDoesNotExist": _NOT_THERE,
}
"""By AWS's code, or by the name of its SDK's error."""


def error_text(error: AionError) -> str:
    """Return the error in a sentence for whoever has typed the command."""
    if not isinstance(error, StoreError):
        return str(error)
    operation, _, code = str(error).rpartition(": ")
    said = ERROR_TEXTS.get(code)
    if said is None and (reason := getattr(error, "reason", "")):
        return f"AWS has refused ({error}): {reason}"
    if said is None:
        return f"AWS has refused: {error}." if operation else f"AWS has failed: {error}."
    return said.replace(_FORBIDDEN, f"{_FORBIDDEN} ({operation})") if operation else said


def is_forbidden(error: StoreError) -> bool:
    """Tell whether it is the credentials that may not, which says nothing of what was asked about."""
    return str(error).rpartition(": ")[2] in ("AccessDenied", "AccessDeniedException", "403", "Forbidden")
