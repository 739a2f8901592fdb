"""The conditions of `aion_core/aws`, found where they are used, and the same code without one of them.

A condition is a module-level text with a name; a use of it in a function is a place. A mutant is the function as it
would be if the condition, or one of the parts that it joins by AND, always held there. The function is compiled anew,
so whoever has it already runs the mutant.
"""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType

import aion_core.aws

_COMPARES = re.compile(
    r"\b(attribute_exists|attribute_not_exists|attribute_type|begins_with|contains)\s*\("
    r"|(=|<>|<|>|<=|>=)\s*:\w|\bBETWEEN\b|\bIN\s*\("
)
_CHANGES = re.compile(r"\b(SET|REMOVE|ADD|DELETE)\b|\bif_not_exists\(|\blist_append\(")
_JOINTS = re.compile(r"[()]|\bBETWEEN\b|\bAND\b|\bOR\b")

# Expressions of other kinds, which look the same.
_OTHER_KINDS = {"KeyConditionExpression", "FilterExpression", "UpdateExpression", "ProjectionExpression"}


@dataclass(frozen=True)
class Mutant:
    """The function `module.function`, without the condition, or without a part of it."""

    module: str
    function: str
    constant: str
    nth: int
    """Which of the uses of the constant in the function, from 0."""
    part: str
    """The part that always holds, "" for all of it."""
    text: str
    """What is in the constant's place."""

    @property
    def name(self) -> str:
        """`module.function: CONSTANT`, with the part if it is one."""
        return self.whole + (f": {self.part}" if self.part else "")

    @property
    def whole(self) -> str:
        """The name of the mutant without the whole condition."""
        again = f" (use {self.nth + 1})" if self.nth else ""
        return f"{self.module}.{self.function.rpartition('.')[2]}: {self.constant}{again}"


# ── Texts ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def is_condition(text: str) -> bool:
    """Whether the text is a condition, or a part of one, rather than a change."""
    return bool(_COMPARES.search(text)) and not _CHANGES.search(text) and not _has_commas(text)


def parts(condition: str) -> list[tuple[int, int]]:
    """Where the parts begin and end that the condition joins by AND; none, where there is but one."""
    cuts: list[tuple[int, int, str]] = []
    depth, between = 0, False
    for joint in _JOINTS.finditer(condition):
        match joint[0]:
            case "(":
                depth += 1
            case ")":
                depth -= 1
            case "BETWEEN":
                between = True
            case "AND" if between:
                between = False
            case word if depth == 0:
                cuts.append((*joint.span(), word))
    edges = [(0, 0, "OR"), *cuts, (len(condition), len(condition), "OR")]
    found = []
    for (_, start, before), (end, _, after) in pairwise(edges):
        # Between two ORs stands an alternative, which is stricter when it goes.
        if "AND" in (before, after):
            piece = condition[start:end]
            start += len(piece) - len(piece.lstrip())
            found.append((start, start + len(piece.strip())))
    return found


def always(condition: str) -> str:
    """A condition that always holds, that may stand wherever this one does, and that uses all its values."""
    return f"NOT (attribute_exists(pk) AND attribute_not_exists(pk) AND {_one(condition)})"


def _one(condition: str) -> str:
    """The condition as one term; a pair of brackets too many is an error to DynamoDB."""
    return f"({condition})" if re.search(r"\bOR\b", condition) and not _is_bracketed(condition) else condition


def _is_bracketed(condition: str) -> bool:
    if not condition.startswith("("):
        return False
    depth = 0
    for place, character in enumerate(condition):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(condition) - 1
    return False


def _has_commas(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            return True
    return False


# ── Code ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def mutants() -> dict[str, Mutant]:
    """Every mutant there is, by name: each use without the whole condition, then without each part."""
    found: dict[str, Mutant] = {}

    def add(mutant: Mutant) -> None:
        assert mutant.name not in found, f"two places are called {mutant.name}"
        found[mutant.name] = mutant

    for module in _modules():
        seen: Counter[tuple[str, str]] = Counter()
        for function, node in _uses(module):
            constant = node.id if isinstance(node, ast.Name) else node.attr
            condition = _value(module, node)
            assert condition is not None
            nth = seen[function, constant]
            seen[function, constant] += 1
            of = (_short(module), function, constant, nth)
            add(Mutant(*of, "", always(condition)))
            for start, end in parts(condition):
                part = condition[start:end]
                add(Mutant(*of, part, condition[:start] + always(part) + condition[end:]))
    return found


def out_of_reach() -> list[str]:
    """What looks like a condition where no mutant can be made of it: without a name, or used outside of functions."""
    found = []
    for module in _modules():
        tree = _tree(module)
        others = {id(part) for node in ast.walk(tree) for part in _of_other_kinds(node)}
        for function, body in _functions(tree):
            for node in ast.walk(body):
                text = node.value if isinstance(node, ast.Constant) and id(node) not in others else None
                if isinstance(text, str) and is_condition(text) and not _is_docstring(body, node):
                    found.append(f"{_short(module)}.{function} has a condition without a name: {text.strip()}")
        inside = {id(node) for _, body in _functions(tree) for node in ast.walk(body)}
        for statement in tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                continue  # a constant that is made of others
            for node in ast.walk(statement):
                if id(node) not in inside and isinstance(node, ast.Name | ast.Attribute) and _value(module, node):
                    found.append(f"{_short(module)} uses {ast.unparse(node)} outside of a function")
    return found


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Let the function be the mutant until the block ends."""
    module = importlib.import_module(f"{aion_core.aws.__name__}.{mutant.module}")
    function = inspect.unwrap(_member(module, mutant.function))
    assert isinstance(function, FunctionType)
    before = function.__code__
    function.__code__ = _compiled(module, mutant)
    try:
        yield
    finally:
        function.__code__ = before


def _compiled(module: ModuleType, mutant: Mutant) -> CodeType:
    tree = _tree(module)
    (body,) = (body for function, body in _functions(tree) if function == mutant.function)
    nodes = [node for node in _loads(module, body) if _called(node) == mutant.constant]
    old = nodes[mutant.nth]
    new = ast.copy_location(ast.Constant(mutant.text), old)
    for node in ast.walk(body):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
            elif isinstance(value, list) and old in value:
                value[value.index(old)] = new
    return _code(compile(tree, str(module.__file__), "exec"), mutant.function)


def _code(code: CodeType, function: str) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == function:
                return constant
            if function.startswith(f"{constant.co_qualname}."):
                return _code(constant, function)
    raise LookupError(function)


def _modules() -> list[ModuleType]:
    package = aion_core.aws
    return [
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]


def _short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _functions(tree: ast.AST, of: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions of the module and of its classes, not those inside of functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{of}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{of}{node.name}.")


def _uses(module: ModuleType) -> Iterator[tuple[str, ast.Name | ast.Attribute]]:
    for function, body in _functions(_tree(module)):
        for node in _loads(module, body):
            yield function, node


def _loads(module: ModuleType, body: ast.AST) -> list[ast.Name | ast.Attribute]:
    found = [node for node in ast.walk(body) if isinstance(node, ast.Name | ast.Attribute) and _value(module, node)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _called(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _value(module: ModuleType, node: ast.Name | ast.Attribute) -> str | None:
    """The condition that the name stands for, None where it stands for something else."""
    if not isinstance(node.ctx, ast.Load) or not _called(node).isupper() or _called(node).startswith("SET_"):
        return None
    if isinstance(node, ast.Name):
        value = getattr(module, node.id, None)
    else:
        of = getattr(module, node.value.id, None) if isinstance(node.value, ast.Name) else None
        value = getattr(of, node.attr, None) if isinstance(of, ModuleType) else None
    return value if isinstance(value, str) and is_condition(value) else None


def _of_other_kinds(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of what the node gives as an expression of another kind."""
    match node:
        case ast.keyword(arg=str(name), value=value) if name in _OTHER_KINDS:
            yield from ast.walk(value)
        case ast.Dict(keys=names, values=values):
            for name, value in zip(names, values, strict=True):
                if isinstance(name, ast.Constant) and name.value in _OTHER_KINDS:
                    yield from ast.walk(value)


def _is_docstring(body: ast.AST, node: ast.AST) -> bool:
    return any(isinstance(line, ast.Expr) and line.value is node for line in ast.walk(body))


def _member(module: ModuleType, qualname: str) -> object:
    found: object = module
    for name in qualname.split("."):
        found = inspect.getattr_static(found, name)
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found
