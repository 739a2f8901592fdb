"""aion.yaml: its accepted contents, and the error message for each mistake."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.deployment import read_deployment_config
from tests.support.rows import each_row

ONE = "aion:\n  agents:\n    a:\n      path: a.py\n"
"""A valid start of an aion.yaml."""


def config(folder: Path, text: str) -> Mapping[str, AgentConfig]:
    file = folder / "aion.yaml"
    file.write_text(text, encoding="utf-8")
    return read_deployment_config(file).agents


def test_agent_key_overrides_value_from_yaml_merge(tmp_path: Path) -> None:
    text = "aion:\n  agents:\n    a: &a {path: a.py, version: '3'}\n    b:\n      <<: *a\n      path: b.py\n"
    agents = config(tmp_path, text)
    assert (agents["b"].path, agents["b"].version) == ("b.py", "3")


def test_file_of_other_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "aion.yaml").write_text("aion: {}\n", encoding="utf-16")
    with pytest.raises(ConfigurationError, match=r"aion\.yaml is not UTF-8: .*Save it with this encoding\."):
        read_deployment_config(tmp_path / "aion.yaml")


EXTENSION = "      capabilities: {extensions: [{uri: u, params: %s}]}\n"


@each_row(
    ("more", "sentence"),
    [
        ("      path: b.py\n", "the key 'path' is twice in one mapping, again at line 5, column 7."),
        ("      name: {{name}}\n", "the key at line 5, column 14 is not a text. Put a text with braces in quotes."),
        ('      name: "\\ud83d"\n', "the text at line 5, column 13 has half a surrogate pair."),
        (f"      configuration: {'[' * 2000}\n", "it is nested too deeply."),
        ("      inputs: [text/plain]\n", "aion.agents.a.inputs is not a key that aion knows."),
        (
            "      iput_modes: []\n",
            "aion.agents.a.iput_modes is not a key that aion knows. Did you mean 'input_modes'?",
        ),
        *(
            (f"  image: {bad}\n", f"aion.image is {said}: it has to be true or false, without quotes.")
            for bad, said in (("'true'", "'true'"), ("", "None"))
        ),
        ("    b: {}\n", "aion.agents.b.path is missing."),
        ("    b: c.py:g\n", "aion.agents.b is 'c.py:g'. Write the path as a key below it: `path: c.py:g`."),
        ("    b:\n", "aion.agents.b is empty: it has keys of its own."),
        ("    my b: {path: b.py}\n", "aion.agents.my b: an agent's id has at most 64 letters, digits, '-' and '_'"),
        ("    b: {path: ''}\n", "aion.agents.b.path is empty."),
        ("      version: 1.0\n", "aion.agents.a.version is 1.0, which YAML does not read as text: put it in quotes."),
        ("      input_modes: []\n", "aion.agents.a.input_modes is empty."),
        *(
            (f"      output_modes: ['{bad}']\n", f"aion.agents.a.output_modes.0 is {bad!r}: a media type is like")
            for bad in ("text", "text/pla in", "*/png", "")
        ),
        ("      provider: {organization: X}\n", "aion.agents.a.provider.url is missing."),
        ("      cors: {origins: null}\n", "aion.agents.a.cors.origins: "),
        ("      cors: {}\n", "aion.agents.a.cors.origins is missing."),
        (
            "      cors: {origins: '*', heders: []}\n",
            "aion.agents.a.cors.heders is not a key that aion knows. Did you mean 'headers'?",
        ),
        *(
            (
                f"      cors: {{origins: ['{bad}']}}\n",
                f"aion.agents.a.cors.origins.0: {bad!r} is not an origin, such as",
            )
            for bad in (
                "app.example.com",
                "https://app.example.com/",
                "https://*",
                "https://u@x.com",
                "https://x.com:port",
            )
        ),
        ("      cors: {origins: ['null']}\n", "aion.agents.a.cors.origins.0: null is the origin of every sandboxed"),
        (
            "      cors: {origins: '*', headers: ['X Y']}\n",
            "aion.agents.a.cors.headers.0 is 'X Y': it has to be a header's",
        ),
        (
            "      cors: {origins: '*', max_age: -1}\n",
            "aion.agents.a.cors.max_age: Input should be greater than or equal",
        ),
        ("      icon_url: icon.png\n", "aion.agents.a.icon_url is 'icon.png': it has to be an http or https URL."),
        (
            "      skills: [{id: s, name: s, description: d}, {id: s, name: t, description: e}]\n",
            "aion.agents.a.skills: two skills have the id 's'.",
        ),
        (
            "      skills: [{id: s, name: s, description: d}]\n"
            "      extended_card: {skills: [{id: s, name: t, description: e}]}\n",
            "aion.agents.a: two skills have the id 's'.",
        ),
        ("      skills: [{id: s, name: s}]\n", "aion.agents.a.skills.0.description is missing."),
        ("      extended_card: {name: X}\n", "aion.agents.a: extended_card has no effect without capabilities."),
        (
            "      push: {events: all}\n      capabilities: {push_notifications: false}\n",
            "aion.agents.a: push has no effect without capabilities.push_notifications: true.",
        ),
        *(
            (
                f"      capabilities: {{extensions: [{{uri: '{bad}'}}]}}\n",
                f"extensions.0.uri is {bad!r}: it has no spaces",
            )
            for bad in ("a b", "https://example.com/a,b")
        ),
        ("      capabilities: {extensions: [{uri: u}, {uri: u}]}\n", "extensions: two extensions have the uri 'u'."),
        (EXTENSION % "{1: 2}", "aion.agents.a.capabilities.extensions.0.params.1 is 1, which YAML does not read"),
        (EXTENSION % "{x: {1: 2}}", "the key 1 is not text; put it in quotes."),
        (EXTENSION % "{x: .nan}", "this cannot be written as JSON"),
        (EXTENSION % ("{x: " + "[" * 40 + "]" * 40 + "}"), "this is nested more than 32 levels deep."),
    ],
)
def test_config_error_names_file_and_problem_in_one_line(tmp_path: Path, more: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        config(tmp_path, ONE + more)
    assert sentence in str(refusal.value)
    assert str(refusal.value).startswith(f"{tmp_path / 'aion.yaml'}: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", " the file is empty: it has keys of its own."),
        (
            "aion:\n\tagents:\n",
            " line 2, column 1: found character '\\t' that cannot start any token. Indent with spaces.",
        ),
        ("aion: [", " line 1, column 8: expected the node content, but found '<stream end>'."),
    ],
)
def test_invalid_yaml_file_error_is_one_line(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        config(tmp_path, text)
    assert str(refusal.value).endswith(sentence)
    assert "\n" not in str(refusal.value)
