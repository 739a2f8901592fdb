"""Loads a CloudFormation template's file: YAML with the short tags, each turned into the function it stands for."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

try:
    # Several times as fast, where PyYAML was built with it.
    from yaml import CSafeLoader as _SafeLoader
except ImportError:
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

# What CloudFormation's short tags stand for, where it is not the tag's name behind "Fn::".
_BARE_TAGS = {"Ref", "Condition"}


class TemplateError(Exception):
    """A template that cannot be read or resolved."""


class UnresolvableError(TemplateError):
    """A correct reference to a resource without a known name or attribute."""


class _Loader(_SafeLoader):
    """YAML with CloudFormation's short tags."""


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    match node:
        case yaml.ScalarNode():
            value = loader.construct_scalar(node)
            if suffix == "GetAtt":
                value = value.split(".", 1)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case yaml.MappingNode():
            value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in _BARE_TAGS else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)


def load(path: Path) -> dict[str, Any]:
    """Return the template as plain dicts and lists, which are not to be changed; raises TemplateError for what is none."""
    try:
        document = parsed(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TemplateError(f"cannot read {path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise TemplateError(f"{path} is not YAML: {error}") from error
    resources = document.get("Resources") if isinstance(document, dict) else None
    if not isinstance(resources, dict):
        raise TemplateError(f"{path} is not a template: it has no Resources")
    for name, resource in resources.items():
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            raise TemplateError(f"{path}: {name} has no Type")
    return dict(document)


# A gate reads the same files again and again, with other parameters.
@lru_cache(maxsize=64)
def parsed(text: str) -> Any:
    """Return what the YAML says, with CloudFormation's short tags, not to be changed; raises what YAML's reader does."""
    return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader with more tags
