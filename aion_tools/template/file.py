"""Loader of CloudFormation template files, and of what aion.yaml says of the template.

Short YAML tags such as `!Ref` are expanded to their long form.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

try:
    # Prefer PyYAML's loader in C, because it is several times as fast. Not every build of PyYAML includes it.
    from yaml import CSafeLoader as _SafeLoader
except ImportError:
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

# Short tags whose long form has no prefix "Fn::": !Ref is {"Ref": …}, while !GetAtt is {"Fn::GetAtt": …}.
_BARE_TAGS = {"Ref", "Condition"}


class TemplateError(Exception):
    """Error of a template that cannot be read or resolved."""


class UnresolvableError(TemplateError):
    """Error for a valid reference to a resource's name or attribute that this reader cannot compute."""


class _Loader(_SafeLoader):
    """Safe YAML loader with support for CloudFormation's short tags."""


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
    """Read a template file into dicts and lists, which must not be changed. Raises TemplateError for another file."""
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


# Cache the result, because policy checks read the same files with different parameters.
@lru_cache(maxsize=64)
def parsed(text: str) -> Any:
    """Parse a template's YAML text, with short tags expanded. Do not change the result, since it is cached.

    Raises yaml.YAMLError.
    """
    return yaml.load(text, _Loader)  # noqa: S506 - _Loader inherits from SafeLoader


def aion_section(folder: Path) -> dict[str, Any]:
    """Return the section `aion` of the project's aion.yaml; empty if there is none. Other commands report an invalid file."""
    try:
        content = yaml.safe_load((folder / "aion.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    section = content.get("aion") if isinstance(content, dict) else None
    return section if isinstance(section, dict) else {}
