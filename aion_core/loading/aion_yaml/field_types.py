"""Types of fields in several sections of aion.yaml: non-empty texts, media types, web addresses, relative paths."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
)

MEDIA_TYPE = r"^([A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+*-]+|\*/\*)( *; *[^;\s]+)*$"
"""Pattern of `type/subtype` (RFC 6838), including ranges such as `image/*`."""
WEB_ADDRESS = r"^https?://[^\s/]+\S*$"

# Refuse unknown keys, because a misspelled setting would otherwise be ignored. With `defer_build`, pydantic builds one
# validator for the whole file, instead of one for each section.
STRICT = ConfigDict(extra="forbid", frozen=True, defer_build=True)

MediaType = Annotated[str, StringConstraints(pattern=MEDIA_TYPE)]
WebAddress = Annotated[str, StringConstraints(pattern=WEB_ADDRESS)]
AgentMessage = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
"""Non-empty text for an agent card. The A2A specification requires these texts."""


def _relative(path: str) -> str:
    """Return the path unchanged. Raises ValueError if it is absolute, because a package has other absolute paths."""
    if Path(path).is_absolute():
        raise ValueError(f"the path {path!r} is absolute; write it relative to aion.yaml's folder")
    return path


RelativePath = Annotated[AgentMessage, AfterValidator(_relative)]


def _switched(value: Any) -> Any:
    # YAML 1.1 reads a bare `on` as true, YAML 1.2 as a text.
    switched = {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(switched, bool):
        raise ValueError("it has to be on or off")
    return switched


OnOff = Annotated[StrictBool, BeforeValidator(_switched), WithJsonSchema({"enum": ["on", "off", True, False]})]
"""`on` or `off`."""


class StrictModel(BaseModel):
    """Base class of immutable models that refuse unknown keys."""

    model_config = STRICT
