"""Statistics of the code base: lines, wording of docstrings and comments, class names, small files (`make figures`)."""

import ast
import io
import re
import shutil
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

RELATIVE = re.compile(r"\b(that|which|who|whom|whose|what|where|none|whether|how)\b", re.IGNORECASE)
"""Words of relative clauses. Plain prose has about two of them in a hundred words."""
NOUN_CLAUSE = re.compile(r"(What|Who|Whose|Whom|Where|How|Whether|Which|That)\b")
"""Matches docstrings with a noun clause at their start, in place of a noun or an imperative."""
WORD = re.compile(r"[A-Za-z']+")
FEW_LINES = 40


@dataclass
class Prose:
    """Numbers of all words and of relative words (that, which, …) in one kind of text."""

    words: int = 0
    relative: int = 0

    def add(self, text: str) -> None:
        """Add the words of a text to the counts."""
        self.words += len(WORD.findall(text))
        self.relative += len(RELATIVE.findall(text))

    @property
    def per_hundred(self) -> float:
        """Number of relative words in a hundred words."""
        return 100 * self.relative / max(1, self.words)


@dataclass
class Figures:
    """Statistics of a set of Python files. Code lines exclude blank lines, comments and docstrings."""

    files: int = 0
    lines: int = 0
    code_lines: int = 0
    docstrings: Prose = field(default_factory=Prose)
    comments: Prose = field(default_factory=Prose)
    noun_clauses: list[str] = field(default_factory=list)
    """Files and first lines of docstrings with a noun clause at their start."""
    long_test_names: list[str] = field(default_factory=list)
    """Names of tests with more than ten words."""
    small_files: list[str] = field(default_factory=list)
    """Files with fewer than 40 lines, except `__init__.py` files."""
    classes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Files that define a class, by the name of the class."""

    @property
    def repeated_classes(self) -> dict[str, set[str]]:
        """Files by class name, for class names defined in several files."""
        return {name: files for name, files in sorted(self.classes.items()) if len(files) > 1}


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below the folders that Git tracks."""
    git = shutil.which("git") or "git"
    listed = subprocess.run([git, "ls-files", *folders], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return [path for name in listed.split("\n") if (path := Path(name)).suffix == ".py" and path.exists()]


def figures_of(paths: list[Path], *, tokens: bool = True) -> Figures:
    """Compute the statistics of Python files. With `tokens=False`, do not count comments and code lines."""
    found = Figures(files=len(paths))
    for path in paths:
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        found.lines += len(lines)
        if len(lines) < FEW_LINES and path.name != "__init__.py":
            found.small_files.append(str(path))
        tree = ast.parse(source)
        nodes = [node for node in ast.walk(tree) if isinstance(node, _DOCUMENTED)]
        without = set[int]()
        for node, docstring in _docstrings(nodes):
            without |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            found.docstrings.add(docstring)
            if NOUN_CLAUSE.match(docstring):
                found.noun_clauses.append(f"{path}: {docstring.splitlines()[0]}")
        for each in nodes:
            if isinstance(each, ast.ClassDef):
                found.classes[each.name].add(str(path))
            elif not isinstance(each, ast.Module) and _is_long(each.name):
                found.long_test_names.append(f"{path}: {each.name}")
        if tokens:
            _add_tokens(found, source, without)
    return found


def _add_tokens(found: Figures, source: str, without: set[int]) -> None:
    """Add the words of a file's comments and the number of its code lines. `without` has the lines of docstrings."""
    code = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found.comments.add(token.string)
        elif token.type not in _LAYOUT:
            code |= set(range(token.start[0], token.end[0] + 1))
    found.code_lines += len(code - without)


_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _docstrings(
    nodes: Iterable[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef],
) -> Iterator[tuple[ast.stmt, str]]:
    for node in nodes:
        docstring = ast.get_docstring(node)
        if docstring:
            yield node.body[0], docstring


def _is_long(name: str) -> bool:
    return name.startswith("test_") and len(name.removeprefix("test_").split("_")) > 10


SOURCE = ("aion", "aion_core", "aion_tools", "handlers", "scripts")


def main() -> None:
    """Print the statistics of the source code and of the tests."""
    for title, folders in (("source", SOURCE), ("tests", ("tests",))):
        found = figures_of(python_files(*folders))
        print(f"{title}: {found.files} files, {found.lines} lines, of them {found.code_lines} of code")
        for kind, prose in (("docstrings", found.docstrings), ("comments", found.comments)):
            print(f"  {kind}: {prose.words} words, {prose.per_hundred:.1f} relative words in a hundred")
        print(f"  docstrings that begin with a noun clause: {len(found.noun_clauses)}")
        print(f"  class names in two files: {len(found.repeated_classes)}")
        print(f"  files under {FEW_LINES} lines: {len(found.small_files)}")
        print(f"  test names of more than ten words: {len(found.long_test_names)}")
    support = [*python_files("tests/support"), *(p for p in python_files("tests") if p.name == "conftest.py")]
    print(f"support code of the tests: {figures_of(support).lines} lines")
    by_folder = Counter(path.parts[1] for path in python_files("aion_core") if len(path.parts) > 2)
    print("files by package: " + ", ".join(f"{name} {count}" for name, count in by_folder.most_common()))


if __name__ == "__main__":
    main()
