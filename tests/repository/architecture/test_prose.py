"""Names: classes of the source have unique names, and names of tests are short."""

import ast
from collections import Counter
from collections.abc import Iterator

from scripts.lines import SOURCE, python_files


def definitions(*folders: str) -> Iterator[ast.AST]:
    """Yield the nodes of the Python files in these folders."""
    for path in python_files(*folders):
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_names_of_tests_have_at_most_ten_words() -> None:
    functions = (
        each for each in definitions("examples", "tests") if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert [each.name for each in functions if each.name.startswith("test_") and each.name.count("_") > 10] == []


def test_class_names_of_source_are_unique() -> None:
    names = Counter(each.name for each in definitions(*SOURCE) if isinstance(each, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
