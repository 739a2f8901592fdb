"""The rule for `sam build` in a Makefile that its author writes."""

from aion_core.project.files import block_of, build_rule, has_own_rule, with_block

OWN = "all:\n\techo all\n"


def test_rule_is_appended_once() -> None:
    text = with_block(OWN, build_rule())
    assert text.startswith(OWN)
    assert block_of(text) == build_rule()
    assert with_block(text, build_rule()) == text


def test_rule_is_replaced_in_its_place() -> None:
    text = with_block(OWN, build_rule()) + "\nlast:\n\techo last\n"
    other = build_rule().replace("uv run aion", r"uv run \1 aion")
    replaced = with_block(text, other)
    assert replaced == text.replace(build_rule(), other)


def test_rule_of_author_is_seen() -> None:
    assert has_own_rule("build-%:\n\tcp -r . $(ARTIFACTS_DIR)\n")
    assert has_own_rule("build-ApiFunction: x\n\tcp -r . $(ARTIFACTS_DIR)\n")
    assert not has_own_rule(with_block(OWN, build_rule()))
    assert not has_own_rule("build-docs:\n\tmkdocs build\n")


def test_block_of_other_makefile_is_missing() -> None:
    assert block_of(OWN) is None
