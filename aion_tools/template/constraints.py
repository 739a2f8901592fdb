"""Values that CloudFormation refuses: the constraints of a template's parameters, and its Rules. Pure.

CloudFormation evaluates those of a nested stack only when it creates or updates this stack, during the deployment.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from aion_tools.template.file import TemplateError
from aion_tools.template.reader import Template

LONGEST_PARAMETER = 4096
"""Maximum length of a CloudFormation parameter's value, in bytes."""
_LIST = "CommaDelimitedList"
_SHOWN = 60


def refusals(template: Template) -> list[str]:
    """Return a sentence for each value that CloudFormation would refuse, in the template and in its nested stacks.

    A value is not checked if only AWS knows it, or if it is secret (NoEcho).
    """
    # A value may be in the parameters of several stacks.
    return list(dict.fromkeys(_found(template)))


def _found(template: Template) -> Iterator[str]:
    for each in template.made:
        for name, declared in (each.document.get("Parameters") or {}).items():
            with suppress(TemplateError):
                value = each.resolve({"Ref": name}, name)
                yield from _of_value(name, declared, value if declared["Type"] == _LIST else [value])
        for name, rule in (each.document.get("Rules") or {}).items():
            with suppress(TemplateError):
                yield from _of_rule(each, name, rule)


def _of_value(name: str, declared: Mapping[str, Any], values: list[Any]) -> Iterator[str]:
    """Yield why a parameter's value is refused. In a list, the constraints are for its entries."""
    # The value of another type names something that AWS looks up, such as an SSM parameter.
    if declared["Type"] not in ("String", "Number", _LIST) or _text(declared.get("NoEcho")) == "true":
        return
    texts = [_text(value) for value in values]
    if (size := len(",".join(texts).encode())) > LONGEST_PARAMETER:
        yield f"{name} has {size} bytes, and CloudFormation permits {LONGEST_PARAMETER}."
        return
    for text in texts:
        if broken := _broken_constraint(declared, text):
            shown = repr(f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text)
            why = declared.get("ConstraintDescription") or declared.get("Description") or ""
            yield f"{name}: {shown} {broken}.{f' {why}'.rstrip()}"


def _broken_constraint(declared: Mapping[str, Any], text: str) -> str:
    """Return the constraint that the text does not fulfil, or "" if it fulfils all."""
    if "AllowedValues" in declared:
        allowed = [_text(each) for each in declared["AllowedValues"]]
        if text not in allowed:
            return f"is none of {', '.join(allowed)}"
    if declared["Type"] == "Number":
        try:
            number = float(text)
        except ValueError:
            return "is not a number"
        if not float(declared.get("MinValue", number)) <= number <= float(declared.get("MaxValue", number)):
            return f"is not between {declared.get('MinValue', '-∞')} and {declared.get('MaxValue', '∞')}"
    elif not int(declared.get("MinLength", 0)) <= len(text) <= int(declared.get("MaxLength", LONGEST_PARAMETER)):
        return f"has {len(text)} characters, not {declared.get('MinLength', 0)} to {declared.get('MaxLength', '∞')}"
    with suppress(re.error):  # an expression of Java that Python does not have
        if "AllowedPattern" in declared and not re.fullmatch(declared["AllowedPattern"], text):
            return f"does not match {declared['AllowedPattern']}"
    return ""


def _of_rule(template: Template, name: str, rule: Mapping[str, Any]) -> Iterator[str]:
    if "RuleCondition" in rule and not template.resolve(rule["RuleCondition"], "RuleCondition"):
        return
    for assertion in rule["Assertions"]:
        if not template.resolve(assertion["Assert"], "Assert"):
            yield assertion.get("AssertDescription") or f"A rule of the template is not fulfilled: {name}."


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
