"""Selection of a project's files: ignore files, built-in rules, possible secrets."""

from pathlib import Path

import pytest

from aion_tools.package.secrets import SecretVerdict
from aion_tools.package.selection import select
from aion_tools.programs import BuildError
from tests.support.rows import each_row


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def chosen(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in select(folder).files}


def left_out(folder: Path) -> dict[str, str]:
    return {each.path: each.reason for each in select(folder).left_out}


@pytest.mark.parametrize("name", [".env", ".env.local", "sub/.env.production", ".envrc", "prod.env"])
def test_env_files_are_excluded(tmp_path: Path, name: str) -> None:
    written(tmp_path, {"agent.py": "", name: "OPENAI_API_KEY=sk-1", ".aionignore": f"!{name}\n"})
    assert chosen(tmp_path) == {"agent.py"}
    assert left_out(tmp_path)[name] == "environment variables"


# The names of empty files, and texts of others; the packaged ones among them; and the reasons for others.
SELECTIONS: dict[str, tuple[str, dict[str, str], str, dict[str, str]]] = {
    "code and data": (
        "agent.py prompts/hello.txt src/pkg/__init__.py aion.yaml data/a.json",
        {},
        "agent.py prompts/hello.txt src/pkg/__init__.py aion.yaml data/a.json",
        {},
    ),
    "generated folders": (
        "agent.py .git/config .venv/lib/big.so myenv/pyvenv.cfg myenv/lib/big.so node_modules/a/index.js .aws-sam/build/x "
        ".aion/state __pycache__/agent.cpython-313.pyc agent.egg-info/PKG-INFO",
        {},
        "agent.py",
        {},
    ),
    "gitignore below its folder": (
        "agent.py run.log notes/private.txt sub/notes/fine.txt sub/local.json local.json",
        {".gitignore": "*.log\n/notes/\n", "sub/.gitignore": "local.json\n"},
        "agent.py sub/notes/fine.txt local.json",
        {"run.log": "matched by .gitignore"},
    ),
    "aionignore before gitignore": (
        "index.bin tests/t.py a.py",
        {".gitignore": "index.bin\n", ".aionignore": "!index.bin\ntests/\n"},
        "index.bin a.py",
        {"tests/": "matched by .aionignore"},
    ),
    "files of the deployment": (
        "template.yaml samconfig.toml Makefile uv.lock pylock.toml requirements.txt stacks/roles.yaml stacks/mine.py "
        "config/template.yaml config/stacks/roles.yaml",
        {},
        "stacks/mine.py config/template.yaml config/stacks/roles.yaml",
        {},
    ),
    "indexes without a password": (
        "",
        {
            "pyproject.toml": 'url = "https://user:${PASSWORD}@pypi.example/simple"\n',
            "requirements-dev.txt": "--find-links https://user:${PASSWORD}@pypi.example/simple\n",
        },
        "pyproject.toml requirements-dev.txt",
        {},
    ),
    "wheel of aion-lambda": (
        "aion_lambda-0.1.0-py3-none-any.whl mine-1.0-py3-none-any.whl",
        {},
        "mine-1.0-py3-none-any.whl",
        {},
    ),
    # The options `--zips` and `--to` of `aion build` may name any folder.
    "packages of earlier builds": (
        "agent.py dist/data.zip dist/ApiFunction.zip code/aion_core/log.py code/handlers/api.py",
        {},
        "agent.py dist/data.zip",
        {"dist/ApiFunction.zip": "a built package", "code/": "a built package"},
    ),
    "env file of langgraph.json": (
        "a.py",
        {"keys.txt": "KEY=1", "langgraph.json": '{"graphs": {"a": "a.py:g"}, "env": "./keys.txt"}'},
        "a.py langgraph.json",
        {"keys.txt": "environment variables"},
    ),
}


@each_row(("names", "texts", "packaged", "reasons"), SELECTIONS.values())
def test_files_of_project_are_packaged_or_left_out(
    names: str, texts: dict[str, str], packaged: str, reasons: dict[str, str], tmp_path: Path
) -> None:
    assert chosen(written(tmp_path, {**dict.fromkeys(names.split(), ""), **texts})) == set(packaged.split())
    assert reasons.items() <= left_out(tmp_path).items()


def test_gitignore_in_parent_folder_applies(tmp_path: Path) -> None:
    written(tmp_path, {".git/config": "", ".gitignore": "secrets.json\n", "svc/a.py": "", "svc/secrets.json": "{}"})
    assert chosen(tmp_path / "svc") == {"a.py"}
    (tmp_path / "svc" / ".aionignore").write_text("!secrets.json\n")
    assert chosen(tmp_path / "svc") == {"a.py", "secrets.json"}


def test_gitignore_with_bom_and_bad_pattern_is_read(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": "", "b.log": "", "c.txt": ""})
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\n[z-a]\nc.txt\n")
    assert chosen(tmp_path) == {"a.py"}


def test_unprintable_file_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "we\nird.py").touch()
    with pytest.raises(BuildError, match=r"we\\nird\.py' has unprintable characters"):
        select(tmp_path)


@pytest.mark.parametrize("name", ["queue.py", "src/logging/__init__.py"])
def test_module_replacing_standard_module_is_refused(tmp_path: Path, name: str) -> None:
    written(tmp_path, {"agent.py": "", name: ""})
    with pytest.raises(BuildError, match=f"rename {name}, .* would replace Python's own module (queue|logging)$"):
        select(tmp_path)
    (tmp_path / ".aionignore").write_text(name)
    assert chosen(tmp_path) == {"agent.py"}


@pytest.mark.parametrize("name", ["tools/queue.py", "logging/data.json", "queue", "src/queue/part.py"])
def test_file_replacing_no_standard_module_is_packaged(tmp_path: Path, name: str) -> None:
    assert chosen(written(tmp_path, {name: ""})) == {name}


@pytest.mark.parametrize(
    "written_files",
    [
        {"data/.gitignore": "*\n", ".aionignore": "!data/\n!index.bin\n"},
        {"data/.gitignore": "!*.bin\n", ".aionignore": "*.bin\n!index.bin\n"},
    ],
)
def test_aionignore_overrides_gitignore_of_subfolder(tmp_path: Path, written_files: dict[str, str]) -> None:
    written(tmp_path, {**written_files, "data/index.bin": "", "data/other.bin": ""})
    assert [file.name for file in select(tmp_path).files] == ["index.bin"]


@pytest.mark.parametrize(
    "patterns",
    [
        "*\n!*/\n!keep.txt",
        "data/**\n!data/**/\n!keep.txt",
        "data/**\n!data/deep\n!data/deep/keep.txt",
        "*.txt\n!keep.txt",
    ],
)
def test_file_is_included_again_as_in_git(tmp_path: Path, patterns: str) -> None:
    written(tmp_path, {".gitignore": patterns, "data/deep/keep.txt": "", "data/deep/other.txt": ""})
    assert [file.name for file in select(tmp_path).files] == ["keep.txt"]


@pytest.mark.parametrize("name", ["secrets", "src/*/"])
def test_folder_is_excluded_after_its_parent_is_included(tmp_path: Path, name: str) -> None:
    written(tmp_path, {".aionignore": f"/*\n!/src/\n!src/**\n{name}\n", "src/a.py": "", "src/secrets/b.py": ""})
    assert [file.name for file in select(tmp_path).files] == ["a.py"]
    assert left_out(tmp_path)["src/secrets/"] == "matched by .aionignore"


PASSWORD = "https://user:" + "hunter2@pypi.example/simple"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", f'[[tool.uv.index]]\nurl = "{PASSWORD}"\n'),
        ("libs/mine/PyProject.toml", '[tool.uv]\nextra-index-url = ["https://user:' + 'p@ssw0rd@pypi.example"]\n'),
        ("pyproject.toml", 'mine = { git = "https://' + 'ghp_0192837465afbecdgihj@git.example/m" }\n'),
        ("pyproject.toml", '[[tool.pdm.source]]\nurl = "https://pypi.example"\npassword = "' + 'hunter2hunter"\n'),
        ("Pipfile", f'[[source]]\nurl = "{PASSWORD}"\n'),
        ("Dockerfile", f"RUN pip install -i {PASSWORD} mine\n"),
        ("requirements-dev.txt", f"--extra-index-url={PASSWORD}\n"),
        ("deps.in", f"--find-links {PASSWORD}\n"),
    ],
)
def test_installation_file_with_password_is_excluded(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path, {"agent.py": "", name: text})
    assert chosen(tmp_path) == {"agent.py"}
    (found,) = select(tmp_path).findings
    assert (left_out(tmp_path), found.verdict) == ({name: found.why}, SecretVerdict.LEFT_OUT)
    (tmp_path / ".aionignore").write_text(f"!{name}")
    assert chosen(tmp_path) == {"agent.py", name}
    assert [each.verdict for each in select(tmp_path).findings] == [SecretVerdict.WARNED]


def test_only_aionignore_includes_files_that_are_excluded_by_name(tmp_path: Path) -> None:
    written(tmp_path, {"npmrc": "", "prod.env": "", ".gitignore": "*\n!npmrc\n!prod.env\n"})
    assert chosen(tmp_path) == set()
    (tmp_path / ".aionignore").write_text("!npmrc\n!prod.env\n")
    assert chosen(tmp_path) == {"npmrc"}
    assert [(found.path, found.verdict) for found in select(tmp_path).findings] == [
        ("npmrc", SecretVerdict.WARNED), ("prod.env", SecretVerdict.LEFT_OUT),
    ]  # fmt: skip


def test_links_to_files_outside_folder_are_excluded(tmp_path: Path) -> None:
    folder = written(tmp_path / "here", {"a.py": "", "data/b.txt": ""})
    written(tmp_path, {"credentials": "secret", "others/c.txt": ""})
    (folder / "link").symlink_to(tmp_path / "credentials")
    (folder / "folder").symlink_to(tmp_path / "others")
    (folder / "inside").symlink_to(folder / "data" / "b.txt")
    assert chosen(folder) == {"a.py", "data/b.txt", "inside"}
    assert left_out(folder) == {"link": "link out of the folder", "folder/": "link out of the folder"}


def test_link_to_an_env_file_is_excluded(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": "", ".env": "KEY=1", "prod.env": "KEY=1"})
    (tmp_path / "settings.txt").symlink_to(".env")
    (tmp_path / "more.txt").symlink_to("prod.env")
    assert chosen(tmp_path) == {"a.py"}


def test_link_into_a_hidden_folder_is_excluded(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": "", ".aws/config": "", ".cache/deep/data.txt": "", "plain/b.txt": ""})
    for link, target in {"awslink": ".aws", "deep": ".cache/deep", "data.txt": ".cache/deep/data.txt"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    (tmp_path / "also").symlink_to("plain")
    assert chosen(tmp_path) == {"a.py", "plain/b.txt", "also/b.txt"}
    assert [left_out(tmp_path)[name] for name in ("awslink/", "deep/", "data.txt")] == ["hidden"] * 3


def test_link_is_judged_by_name_of_its_target(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": "", "npmrc": "", "id_rsa": ""})
    (tmp_path / "settings.txt").symlink_to("npmrc")
    (tmp_path / "data.bin").symlink_to("id_rsa")
    (tmp_path / "token.json").symlink_to("npmrc")
    assert [(found.path, found.verdict) for found in select(tmp_path).findings] == [
        ("data.bin", SecretVerdict.REFUSED), ("id_rsa", SecretVerdict.REFUSED), ("npmrc", SecretVerdict.LEFT_OUT), ("settings.txt", SecretVerdict.LEFT_OUT), ("token.json", SecretVerdict.LEFT_OUT),
    ]  # fmt: skip


def test_links_in_a_circle_are_not_followed_endlessly(tmp_path: Path) -> None:
    written(tmp_path, {"a/1": "", "b/2": "", "c/3": ""})
    for link, target in {"a/link": "b", "b/link": "c", "c/link": "b"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    assert {"a/1", "a/link/2", "a/link/link/3", "b/link/3", "c/link/2"} <= chosen(tmp_path)


def test_link_to_parent_folder_is_not_followed_endlessly(tmp_path: Path) -> None:
    written(tmp_path, {"sub/a.py": ""})
    (tmp_path / "sub" / "up").symlink_to(tmp_path / "sub")
    assert chosen(tmp_path) == {"sub/a.py"}


def test_package_summary_lists_excluded_secret_files_first(tmp_path: Path) -> None:
    logs = {f"{number}.log": "" for number in range(9)}
    written(tmp_path, {"a.py": "", ".git/config": "", ".env": "", "npmrc": "", ".gitignore": "*.log", **logs})
    assert select(tmp_path).summary == (
        "excluded: .env (environment variables); npmrc (settings of npm or pip, with tokens); .git/, .gitignore (hidden); "
        "0.log, 1.log, 2.log, 3.log, 4.log, 5.log, 6.log, 7.log and 1 more (matched by .gitignore)"
    )


def test_package_summary_names_every_excluded_secret(tmp_path: Path) -> None:
    written(tmp_path, {f"{number}.env": "" for number in range(9)})
    assert "more" not in select(tmp_path).summary
