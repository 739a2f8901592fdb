"""Reference pages of the documentation site, generated from docstrings, the command line, the schema of aion.yaml and the template.

`make docs` writes these pages beside the copied pages. The repository does not contain them.
"""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import griffe

from aion_tools.cli.main import aion
from aion_tools.template import file as template_file
from scripts.config_schema import build_schema

ROOT = Path(__file__).resolve().parents[1]
_ACRONYMS = {"Api": "API", "Aws": "AWS", "Cors": "CORS", "Iam": "IAM", "Jwt": "JWT", "Oidc": "OIDC"}
MODULES = ("aion.langgraph", "aion.langgraph.stream", "aion.adk", "aion.shared.types", "aion_tools.testing")
"""Modules that the code and the tests of an agent may import."""
_PUBLIC = {"aion_tools.testing": ["serve", "AgentClient", "AgentReply"]}
"""Public names of the modules without `__all__`."""


def python_page() -> str:
    """Return the page of the Python API: each public name once, with its signature and docstring."""
    loader = griffe.GriffeLoader(search_paths=[str(ROOT)])
    loader.load("aion_core")
    lines = [
        "# Python API",
        "",
        "Names that the code and the tests of an agent may import. Other modules may change at any time.",
        "",
    ]
    described: dict[str, str] = {}
    for path in MODULES:
        # Load aion_core once for all modules, because each load would read all its files.
        module = loader.modules_collection[path] if path.startswith("aion_core.") else loader.load(path)
        loader.resolve_aliases(external=False)
        lines += [f"## {path}", "", _text(module), ""]
        for name in _PUBLIC.get(path) or module.exports or []:
            member = module.members[str(name)]
            target = member.final_target if isinstance(member, griffe.Alias) else member
            if first := described.get(target.path):
                lines += [f"- `{name}`: as in `{first}`.", ""]
                continue
            described[target.path] = path
            lines += _member(target, 3)
    return "\n".join(lines) + "\n"


def _member(item: griffe.Object, level: int) -> Iterator[str]:
    mark = "#" * level
    if isinstance(item, griffe.Function):
        yield from (f"{mark} {item.name}", "", "```text", _signature(item), "```", "", _text(item), "")
    elif isinstance(item, griffe.Class):
        yield from (f"{mark} {item.name}", "", _text(item), "")
        if attributes := [each for each in item.attributes.values() if each.is_public and each.docstring]:
            yield from ("| Attribute | Type | Meaning |", "| --- | --- | --- |")
            for each in attributes:
                kind = str(each.annotation or "").strip("\"'")
                yield f"| `{each.name}` | {_code(kind)} | {_cell(_text(each))} |"
            yield ""
        for method in item.functions.values():
            if method.is_public and method.docstring and not method.name.startswith("__"):
                yield from _member(method, level + 1)


def _signature(function: griffe.Function) -> str:
    parameters = []
    star = False
    for each in function.parameters:
        if each.name == "self":
            continue
        if each.kind is griffe.ParameterKind.keyword_only and not star:
            parameters.append("*")
            star = True
        kind = f": {each.annotation}" if each.annotation else ""
        default = f" = {each.default}" if each.default is not None and kind else ""
        parameters.append(f"{each.name}{kind}{default}")
    prefix = "async " if "async" in function.labels else ""
    result = f" -> {function.returns}" if function.returns else ""
    line = f"{prefix}{function.name}({', '.join(parameters)}){result}"
    if len(line) <= 100:
        return line
    return f"{prefix}{function.name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){result}"


def _text(item: griffe.Object | griffe.Alias) -> str:
    return inspect.cleandoc(item.docstring.value) if item.docstring else ""


# ── Commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def commands_page() -> str:
    """Return the page of the command line: usage, text, arguments and options of each command."""
    lines = [
        "# Command line",
        "",
        "Every command of `aion` with its options. `aion COMMAND --help` prints the same.",
        "",
    ]
    context = click.Context(aion, info_name="aion")
    for name in aion.list_commands(context):
        lines += _command(aion.commands[name], context, name, 2)
    return "\n".join(lines) + "\n"


def _command(command: click.Command, parent: click.Context, name: str, level: int) -> Iterator[str]:
    context = click.Context(command, parent, info_name=name)
    yield from (f"{'#' * level} {context.command_path}", "")
    text = inspect.cleandoc(command.help or command.short_help or "").replace("\b\n", "")
    yield from (re.sub(r"(?m)^\f.*", "", text), "")
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            yield from _command(command.commands[inner], context, inner, level + 1)
        return
    yield from ("```text", command.get_usage(context).removeprefix("Usage: "), "```", "")
    options = [each.get_help_record(context) for each in command.get_params(context)]
    if rows := [record for record in options if record and record[1] and not record[0].startswith("-h")]:
        yield from ("| Option | Meaning |", "| --- | --- |")
        for option, meaning in rows:
            yield f"| {_code(option)} | {_cell(meaning)} |"
        yield ""


# ── aion.yaml ─────────────────────────────────────────────────────────────────────────────────────────────────────────


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
        default = "required" if key in required else _code(json.dumps(value["default"])) if "default" in value else ""
        inner = definitions.get(value.get("$ref", "").removeprefix("#/$defs/"), {})
        meaning = value.get("description") or inner.get("description", "")
        yield f"| `{key}` | {_kind(value, definitions)} | {default} | {_cell(meaning)} |"
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


# ── Template ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def parameters_page() -> str:
    """Return the page of the template's parameters, in the groups of the template."""
    template = template_file.load(ROOT / "template.yaml")
    lines = [
        "# Template parameters",
        "",
        "Parameters of `template.yaml`, for `aion deploy --parameter NAME=VALUE` and `samconfig.toml` ([deploy](../deploy.md#parameters)).",
        "",
    ]
    for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        lines += [
            f"## {group['Label']['default']}",
            "",
            "| Parameter | Default | Values | Meaning |",
            "| --- | --- | --- | --- |",
        ]
        for name in group["Parameters"]:
            parameter = template["Parameters"][name]
            default = parameter.get("Default", "required")
            lines.append(
                f"| `{name}` | {_code(str(default))} | {_values(parameter)} | {_cell(parameter['Description'])} |"
            )
        lines.append("")
    return "\n".join(lines) + "\n"


def _values(parameter: Mapping[str, Any]) -> str:
    if choices := parameter.get("AllowedValues"):
        return ", ".join(f"`{choice}`" for choice in choices)
    if "MinValue" in parameter or "MaxValue" in parameter:
        return f"{parameter.get('MinValue', '')} to {parameter.get('MaxValue', '')}".strip()
    return ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/python.md": python_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/aion-yaml.md": config_page,
    "docs/reference/parameters.md": parameters_page,
}


def write(source: Path) -> None:
    """Write all reference pages into the site's source folder."""
    for name, page in PAGES.items():
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(), encoding="utf-8")
