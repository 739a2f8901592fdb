"""Reference page of aion.yaml, from the JSON Schema of its models."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from scripts.config_schema import build_schema
from scripts.reference.tables import cell, code

_ACRONYMS = {"Api": "API", "Aws": "AWS", "Cors": "CORS", "Iam": "IAM", "Jwt": "JWT", "Oidc": "OIDC"}


def config_page() -> str:
    """Return the page of aion.yaml: each key with its type, default and description."""
    schema = build_schema()
    definitions: Mapping[str, Any] = schema["$defs"]
    lines = [
        "# Every key of aion.yaml",
        "",
        "Generated from the models that read the file. [aion.yaml](../aion-yaml.md) explains it.",
        "",
    ]
    lines += _section("aion", definitions["AionSection"], definitions)
    for name, definition in definitions.items():
        if name != "AionSection" and "properties" in definition:
            lines += _section(_title(name), definition, definitions)
    return "\n".join(lines) + "\n"


def _section(title: str, definition: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    yield from (
        f"## {title}",
        "",
        definition.get("description", ""),
        "",
        "| Key | Value | Default | Meaning |",
        "| --- | --- | --- | --- |",
    )
    required = definition.get("required", [])
    for key, value in definition["properties"].items():
        default = "required" if key in required else code(json.dumps(value["default"])) if "default" in value else ""
        inner = definitions.get(value.get("$ref", "").removeprefix("#/$defs/"), {})
        meaning = value.get("description") or inner.get("description", "")
        yield f"| `{key}` | {_kind(value, definitions)} | {default} | {cell(meaning)} |"
    yield ""


def _kind(value: Mapping[str, Any], definitions: Mapping[str, Any]) -> str:
    """Return the type of a value in words, with a link to the section of an object."""
    if reference := value.get("$ref"):
        name = reference.removeprefix("#/$defs/")
        if "properties" in definitions[name]:
            title = _title(name)
            return f"[{title}](#{title.lower().replace(' ', '-')})"
        return _kind(definitions[name], definitions)
    if choices := value.get("enum"):
        return ", ".join(f"`{choice}`" for choice in choices)
    if "const" in value:
        return f"`{value['const']}`"
    for several in ("anyOf", "oneOf"):
        if several in value:
            kinds = [_kind(each, definitions) for each in value[several] if each.get("type") != "null"]
            return " or ".join(dict.fromkeys(kinds))
    match value.get("type"):
        case "array":
            return f"list of {_kind(value.get('items', {}), definitions)}"
        case "object":
            inner = value.get("additionalProperties") or next(iter(value.get("patternProperties", {}).values()), None)
            return f"mapping to {_kind(inner, definitions)}" if isinstance(inner, dict) else "mapping"
        case str(name):
            return name
    return "any value"


def _title(name: str) -> str:
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", name.strip("_").removesuffix("Config")).split()
    first, *rest = [_ACRONYMS.get(word, word) for word in words]
    return " ".join([first, *(word if word.isupper() else word.lower() for word in rest)])
