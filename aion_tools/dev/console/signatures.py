"""Check of the signatures of received notifications."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hmac import compare_digest

from aion_core.push.signing import headers


def is_signed(posted: Mapping[str, str], body: bytes, secrets: Sequence[str]) -> bool:
    """Return True if the headers of a posted notification contain a valid signature by one of the secrets.

    The age of the notification is not checked.
    """
    try:
        at = datetime.fromtimestamp(int(posted["webhook-timestamp"]), UTC)
        expected = headers(posted["webhook-id"], at, body, secrets)["webhook-signature"].split()
        return any(compare_digest(one, other) for one in expected for other in posted["webhook-signature"].split())
    except (KeyError, ValueError, OverflowError, OSError, TypeError):
        return False  # a header is missing or not ASCII, or the timestamp is invalid
