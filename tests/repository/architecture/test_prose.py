"""Style of docstrings and names: first words of docstrings, length of test names, unique class names."""

from functools import cache

import pytest

from scripts.figures import SOURCE, Figures, figures_of, python_files

TESTS = ("examples", "tests")


@cache
def figures(*folders: str) -> Figures:
    """Return the style figures of the Python files in these folders."""
    return figures_of(python_files(*folders), tokens=folders == SOURCE)


@pytest.mark.parametrize("folders", [SOURCE, TESTS], ids=["source", "tests"])
def test_docstrings_begin_without_a_noun_clause(folders: tuple[str, ...]) -> None:
    assert figures(*folders).noun_clauses == []


def test_names_of_tests_have_at_most_ten_words() -> None:
    assert figures(*TESTS).long_test_names == []


def test_class_names_of_source_are_unique() -> None:
    assert figures(*SOURCE).repeated_classes == {}


def test_prose_of_source_has_few_relative_clauses() -> None:
    """Limit relative words (that, which, who) per 100 words: well-written libraries have one or two."""
    found = figures(*SOURCE)
    assert found.docstrings.per_hundred <= 2.5
    assert found.comments.per_hundred <= 3
