"""Reference page of the template's parameters."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aion_tools.template import file as template_file
from scripts.reference.tables import cell, code

ROOT = Path(__file__).resolve().parents[2]


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
                f"| `{name}` | {code(str(default))} | {_values(parameter)} | {cell(parameter['Description'])} |"
            )
        lines.append("")
    return "\n".join(lines) + "\n"


def _values(parameter: Mapping[str, Any]) -> str:
    if choices := parameter.get("AllowedValues"):
        return ", ".join(f"`{choice}`" for choice in choices)
    if "MinValue" in parameter or "MaxValue" in parameter:
        return f"{parameter.get('MinValue', '')} to {parameter.get('MaxValue', '')}".strip()
    return ""
