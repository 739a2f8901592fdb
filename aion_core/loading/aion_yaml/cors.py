"""Section `cors` of aion.yaml: web pages that may call the agents."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from aion_core.auth.schemes.api_key import HEADER
from aion_core.loading.aion_yaml.field_types import StrictModel

_ORIGIN = re.compile(
    r"([a-z][a-z0-9+.-]*)://(?:(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?"
)
"""Pattern of an origin in lower case, whose host may begin with `*.`; groups are the scheme and the port."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}
ANY_ORIGIN = "*"


def web_origin(text: str) -> str:
    """Return an origin in the form that browsers send: in lower case and without its default port.

    `*` and hosts such as `*.example.com` are patterns. Raises ValueError for other texts.
    """
    if text == ANY_ORIGIN:
        return text
    if text == "null":
        raise ValueError("null is the origin of every sandboxed page and local file; serve the page over http instead")
    match = _ORIGIN.fullmatch(text.lower())
    if match is None:
        raise ValueError(
            f"{text!r} is not an origin, such as https://app.example.com, https://*.example.com or '*': it has a scheme, "
            "an ASCII host and perhaps a port, but no path and no / at its end"
        )
    scheme, port = match.groups()
    is_default = port is not None and _DEFAULT_PORTS.get(scheme) == port
    return match[0].removesuffix(f":{port}") if is_default else match[0]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Origin = Annotated[str, AfterValidator(web_origin)]
RequestHeader = Annotated[str, StringConstraints(pattern=HEADER)]


class CorsConfig(StrictModel):
    """Web pages whose scripts may call an agent from a browser (CORS)."""

    origins: Annotated[list[Origin], BeforeValidator(_as_list, json_schema_input_type=Origin | list[Origin])]
    """Origins of the pages. `*` allows every origin, and `https://*.example.com` the subdomains of example.com."""
    headers: list[RequestHeader] = []
    """Request headers of the pages' scripts, besides those of A2A and of the agent's security schemes."""
    max_age: Annotated[int, Field(ge=0, le=86_400)] = 600
    """Seconds for which a browser may remember the answer to a preflight request."""
