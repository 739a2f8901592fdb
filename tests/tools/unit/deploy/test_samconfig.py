"""Reading and writing an environment in samconfig.toml."""

from pathlib import Path

import pytest

from aion_core.errors import ConfigurationError
from aion_tools.deploy.samconfig import SamConfig, parameters, word
from aion_tools.shipped import shipped
from tests.support.rows import each_row

MULTILINE = """# The prod stack.
[prod.deploy.parameters]
stack_name = "mine"  # ours
parameter_overrides = [
  "Stage=prod",  # the path's first part
  "AlarmEmail=old@example.com",
]
"""


def config(folder: Path, text: str, environment: str = "default") -> SamConfig:
    (folder / "samconfig.toml").write_text(text, errors="surrogateescape")
    return SamConfig.read(folder / "samconfig.toml", environment)


def test_shipped_samconfig_environments_are_read() -> None:
    prod = SamConfig.read(shipped() / "samconfig.toml", "prod")
    assert prod.get("stack_name") == "aion-prod"
    assert prod.parameters["ApiConcurrency"] == "200"
    assert prod.get("region") == "us-east-1"
    assert prod.get("profile") == ""


@pytest.mark.parametrize(
    "overrides",
    ['["Stage=dev", \'CardKeyId="a b"\', \'AlarmEmail=""\']', '\'Stage=dev CardKeyId="a b" AlarmEmail=""\''],
    ids=["list", "string"],
)
def test_parameter_overrides_are_read_from_list_or_string(tmp_path: Path, overrides: str) -> None:
    read = config(tmp_path, f"[default.deploy.parameters]\nparameter_overrides = {overrides}\n")
    assert read.parameters == {"Stage": "dev", "CardKeyId": "a b", "AlarmEmail": ""}


def test_saved_answers_keep_samconfig_comments_and_order(tmp_path: Path) -> None:
    config(tmp_path, MULTILINE, "prod").remember({"region": "eu-west-1"}, {"AlarmEmail": "", "BaseUrl": "https://a.b"})
    written = (tmp_path / "samconfig.toml").read_text()
    for line in ("# The prod stack.", 'stack_name = "mine"  # ours', '  "Stage=prod",  # the path\'s first part'):
        assert line in written
    again = SamConfig.read(tmp_path / "samconfig.toml", "prod")
    assert again.parameters == {"Stage": "prod", "AlarmEmail": "", "BaseUrl": "https://a.b"}
    assert (again.get("stack_name"), again.get("region")) == ("mine", "eu-west-1")


def test_saved_answers_keep_parameters_written_as_one_string(tmp_path: Path) -> None:
    text = "[default.deploy.parameters]\nparameter_overrides = 'Stage=dev RequestRate=20'\n"
    config(tmp_path, text).remember({}, {"AlarmEmail": "a@b.c"})
    read = SamConfig.read(tmp_path / "samconfig.toml")
    assert read.parameters == {"Stage": "dev", "RequestRate": "20", "AlarmEmail": "a@b.c"}


def test_missing_samconfig_file_is_written(tmp_path: Path) -> None:
    SamConfig.read(tmp_path / "samconfig.toml").remember({"stack_name": "mine"}, {"AlarmEmail": ""})
    assert SamConfig.read(tmp_path / "samconfig.toml").get("stack_name") == "mine"


@each_row("value", ["", "plain", "two words", 'a "quoted" one', "back\\slash", "a=b"])
def test_written_samconfig_parameters_are_read_back(value: str) -> None:
    assert parameters([word("Name", value)]) == {"Name": value}


@each_row(
    ("text", "told"),
    [
        ("not toml", "is not valid TOML"),
        ('[default.deploy.parameters]\nparameter_overrides = ["Stage"]\n', "'Stage' has to be NAME=VALUE."),
        ('[default.deploy.parameters]\nparameter_overrides = "Stage=\'dev"\n', "No closing quotation"),
        ("default = 3\n", "default has to be a table"),
        ("[default]\ndeploy = 3\n", "default.deploy has to be a table"),
        ("\udcff", "is not valid TOML: 'utf-8' codec"),
    ],
)
def test_error_names_unusable_samconfig_file(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as refused:
        assert config(tmp_path, text).parameters
    assert "samconfig.toml" in str(refused.value)


@pytest.mark.parametrize("word", ["true", "TRUE", "True"])
def test_words_of_samconfig_have_any_letter_case(tmp_path: Path, word: str) -> None:
    assert config(tmp_path, f'[default.deploy.parameters]\nconfirm_changeset = "{word}"\n').confirms_changes
    assert not config(tmp_path, "[default.deploy.parameters]\nconfirm_changeset = false\n").confirms_changes
