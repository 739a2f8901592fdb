"""Middleware of the emulator that records AWS requests and enforces IAM policies."""

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tests.repository.policies.iam_policies import Need, Statement, is_allowed, refusal
from tests.repository.policies.iam_requests import Request, needs

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


class Recorder:
    """WSGI middleware of the emulator: records each request and enforces the caller's policy.

    A caller without a policy may do everything.
    """

    def __init__(
        self,
        app: "WSGIApplication",
        policies: Mapping[str, Sequence[Statement]] | None = None,
        place: tuple[str, str] = ("", ""),
    ) -> None:
        """Wrap `app`. `policies` maps each caller to its policy statements; `place` is the region and the account."""
        self._app, self._policies, self._place = app, policies or {}, place
        self.heard: list[Request] = []
        self.refused: list[tuple[str, Need]] = []

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        length = -1 if environ.get("wsgi.input_terminated") else int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length)
        environ["wsgi.input"] = io.BytesIO(body)

        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            self.heard.append(_request(environ, body, int(status.split()[0])))
            return start_response(status, headers, *error)

        request = _request(environ, body, 0)
        if (policy := self._policies.get(request.caller)) is not None:
            for need in needs(request, self._place):
                if not is_allowed(policy, need):
                    self.refused.append((request.caller, need))
                    status, content_type, text = refusal(request.service, request.caller, need)
                    start_response(status, [("Content-Type", content_type), ("Content-Length", str(len(text)))])
                    return [text]
        return self._app(environ, start)


def _request(environ: "WSGIEnvironment", body: bytes, status: int) -> Request:
    # Read the caller and the service from the signature:
    # AWS4-HMAC-SHA256 Credential=<key>/<day>/<region>/<service>/aws4_request, …
    scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition(",")[0].split("/")
    return Request(
        caller=scope[0],
        service=scope[3] if len(scope) > 3 else "",
        method=environ["REQUEST_METHOD"],
        path=environ["PATH_INFO"],
        query=environ.get("QUERY_STRING", ""),
        operation=environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2],
        body=body,
        status=status,
    )
