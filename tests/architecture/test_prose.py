"""Prose of the code: docstrings begin with a verb or a noun phrase, test names are short, class names are unique."""

import pytest

from infra.figures import SOURCE, figures_of, python_files


@pytest.mark.parametrize("folders", [SOURCE, ("examples", "tests")], ids=["source", "tests"])
def test_docstrings_begin_without_a_noun_clause(folders: tuple[str, ...]) -> None:
    assert figures_of(python_files(*folders)).noun_clauses == []


def test_names_of_tests_have_at_most_ten_words() -> None:
    assert figures_of(python_files("tests")).long_test_names == []


def test_class_names_of_source_are_unique() -> None:
    assert figures_of(python_files(*SOURCE)).repeated_classes == {}


def test_prose_of_source_has_few_relative_clauses() -> None:
    """Plain libraries have one or two relative words in a hundred; this code once had seven."""
    found = figures_of(python_files(*SOURCE))
    assert found.docstrings.per_hundred <= 2.5
    assert found.comments.per_hundred <= 3
