"""Selection of a project's files: ignore files, built-in rules, private keys."""

import random
import string
from pathlib import Path

import pytest

from aion_tools.package.secrets import looks_like_private_key, searched_content
from aion_tools.package.selection import select
from aion_tools.programs import BuildError

# Beginning of a private key that is used nowhere.
PEM = (
    "-----BEGIN {}PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n-----END {}PRIVATE KEY-----\n"
)


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def chosen(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in select(folder).files}


def left_out(folder: Path) -> dict[str, str]:
    return {each.path: each.reason for each in select(folder).left_out}


def test_code_and_data_files_are_packaged(tmp_path: Path) -> None:
    files = {"agent.py": "", "prompts/hello.txt": "", "src/pkg/__init__.py": "", "aion.yaml": "", "data/a.json": ""}
    assert chosen(written(tmp_path, files)) == set(files)
    assert left_out(tmp_path) == {}


@pytest.mark.parametrize("name", [".env", ".env.local", "sub/.env.production", ".envrc", "prod.env"])
def test_env_files_are_excluded(tmp_path: Path, name: str) -> None:
    written(tmp_path, {"agent.py": "", name: "OPENAI_API_KEY=sk-1", ".aionignore": f"!{name}\n"})
    assert chosen(tmp_path) == {"agent.py"}
    assert left_out(tmp_path)[name] == "may hold secrets"


def test_generated_folders_are_excluded(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "agent.py": "",
            ".git/config": "",
            ".venv/lib/big.so": "",
            "myenv/pyvenv.cfg": "",
            "myenv/lib/big.so": "",
            "node_modules/a/index.js": "",
            ".aws-sam/build/x": "",
            ".aion/state": "",
            "__pycache__/agent.cpython-313.pyc": "",
            "agent.egg-info/PKG-INFO": "",
        },
    )
    assert chosen(tmp_path) == {"agent.py"}
    assert set(left_out(tmp_path)) == {
        ".git/", ".venv/", "myenv/", "node_modules/", ".aws-sam/", ".aion/", "agent.egg-info/",
    }  # fmt: skip


def test_gitignore_excludes_files_below_its_folder_only(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "agent.py": "",
            ".gitignore": "*.log\n/notes/\n",
            "run.log": "",
            "notes/private.txt": "",
            "sub/notes/fine.txt": "",
            "sub/.gitignore": "local.json\n",
            "sub/local.json": "",
            "local.json": "",
        },
    )
    assert chosen(tmp_path) == {"agent.py", "sub/notes/fine.txt", "local.json"}
    assert left_out(tmp_path)["run.log"] == "matched by .gitignore"


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
    "name",
    [
        "aws/credentials",
        "credentials.json",
        "application_default_credentials.json",
        "client_secret_1.apps.googleusercontent.com.json",
        "config/secrets.toml",
        "env.production",
        "admin.kubeconfig",
        "prod.tfvars",
        "terraform.tfstate.backup",
    ],
)
def test_files_named_like_credentials_are_reported(tmp_path: Path, name: str) -> None:
    assert select(written(tmp_path, {"a.py": "", name: "{}"})).credentials == (name,)


def test_code_and_texts_about_credentials_are_not_reported(tmp_path: Path) -> None:
    files = dict.fromkeys(("credentials.py", "secrets.md", "env.py", "env.example", "mysecrets.txt", "tokens.json"), "")
    assert select(written(tmp_path, files)).credentials == ()


@pytest.mark.parametrize(
    ("prefix", "length"), [("sk-proj-", 48), ("sk-ant-api03-", 60), ("ghp_", 36), ("xoxb-", 50), ("AIza", 35)]
)
def test_files_with_an_api_key_are_reported(tmp_path: Path, prefix: str, length: int) -> None:
    key = prefix + ("aB3dE6gH9j" * 6)[:length]
    notebook = '{"source": ["os.environ[\\"API_KEY\\"] = \\"' + key + '\\""]}'
    image = '{"image/png": "AIza' + "aB3dE6gH9j" * 6 + '"}'
    written(tmp_path, {"notes.ipynb": notebook, "image.ipynb": image, "a.py": f'start = "{prefix}…"'})
    assert select(tmp_path).credentials == ("notes.ipynb",)


def test_aionignore_overrides_gitignore(tmp_path: Path) -> None:
    files = {
        ".gitignore": "index.bin\n", ".aionignore": "!index.bin\ntests/\n", "index.bin": "", "tests/t.py": "", "a.py": "",
    }  # fmt: skip
    assert chosen(written(tmp_path, files)) == {"index.bin", "a.py"}
    assert left_out(tmp_path)["tests/"] == "matched by .aionignore"


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


@pytest.mark.parametrize("name", ["secrets", "secrets/", "/src/secrets", "src/*/"])
def test_folder_is_excluded_after_its_parent_is_included(tmp_path: Path, name: str) -> None:
    written(tmp_path, {".aionignore": f"/*\n!/src/\n!src/**\n{name}\n", "src/a.py": "", "src/secrets/b.py": ""})
    assert [file.name for file in select(tmp_path).files] == ["a.py"]
    assert left_out(tmp_path)["src/secrets/"] == "matched by .aionignore"


def test_deployment_files_in_top_folder_are_excluded(tmp_path: Path) -> None:
    files = dict.fromkeys(
        ("template.yaml", "samconfig.toml", "Makefile", "uv.lock", "infra/roles.yaml", "infra/mine.py"), ""
    )
    written(tmp_path, {**files, "requirements.txt": "", "config/template.yaml": ""})
    assert chosen(tmp_path) == {"infra/mine.py", "config/template.yaml"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", '[[tool.uv.index]]\nurl = "https://user:password@pypi.example/simple"\n'),
        ("libs/mine/pyproject.toml", '[tool.uv]\nextra-index-url = ["https://user:p@ssword@pypi.example"]\n'),
        ("pyproject.toml", '[tool.uv.sources]\nmine = { git = "https://ghp_0123456789abcdefghij@git.example/m" }\n'),
        ("pyproject.toml", '[[tool.pdm.source]]\nurl = "https://pypi.example"\npassword = "password"\n'),
        ("uv.toml", '[[index]]\nurl = "https://user:password@pypi.example/simple"\n'),
        ("libs/mine/uv.lock", 'source = { registry = "https://user:password@pypi.example/simple" }\n'),
        ("pip.conf", "[global]\nindex-url = https://user:password@pypi.example/simple\n"),
        ("Pipfile", '[[source]]\nurl = "https://user:password@pypi.example/simple"\n'),
        ("requirements-dev.txt", "--extra-index-url=https://user:password@pypi.example/simple\n"),
        ("libs/mine/requirements.txt", "mine @ https://user:password@pypi.example/mine-1.0-py3-none-any.whl\n"),
    ],
)
def test_installation_file_with_password_is_excluded(tmp_path: Path, name: str, text: str) -> None:
    written(tmp_path, {"agent.py": "", name: text})
    assert chosen(tmp_path) == {"agent.py"}
    assert left_out(tmp_path) == {name: "has a password of a package index"}
    (tmp_path / ".aionignore").write_text(f"!{name}")
    assert chosen(tmp_path) == {"agent.py", name}


def test_included_requirements_with_password_are_excluded(tmp_path: Path) -> None:
    option = "--extra-index-url https://user:password@pypi.example/simple\n"
    included = {"lists/base.txt": "-c=../limits.txt\n-r missing.txt\n" + option, "limits.txt": option}
    written(tmp_path, {"requirements.txt": "-r lists/base.txt\n", **included, "lists/no.txt": option})
    assert chosen(tmp_path) == {"lists/no.txt"}


def test_binary_file_named_requirements_is_packaged(tmp_path: Path) -> None:
    """In a large PDF, some bytes look by chance like the option `-r`."""
    (tmp_path / "requirements.pdf").write_bytes(b"%PDF\n-rx\0y\n")
    assert chosen(tmp_path) == {"requirements.pdf"}


@pytest.mark.parametrize(
    "url",
    [
        "https://pypi.example:8080/mine@1/simple",
        "https://oauth2accesstoken@pypi.example/simple",
        "https://user:${PASSWORD}@pypi.example/simple",
        "https://${TOKEN}@pypi.example/simple",
        "git+ssh://git@git.example/mine.git",
    ],
)
def test_installation_files_without_password_are_packaged(tmp_path: Path, url: str) -> None:
    files = {"pyproject.toml": f'url = "{url}"\n', "requirements-dev.txt": f"--find-links {url}\n"}
    assert chosen(written(tmp_path, files)) == set(files)


def test_packages_of_earlier_builds_are_excluded(tmp_path: Path) -> None:
    """The options `--zips` and `--to` of `aion build` may name any folder."""
    built = dict.fromkeys(("dist/ApiFunction.zip", "code/aion_core/log.py", "code/handlers/api.py"), "")
    written(tmp_path, {"agent.py": "", "dist/data.zip": "", **built})
    assert chosen(tmp_path) == {"agent.py", "dist/data.zip"}
    assert left_out(tmp_path) == {"dist/ApiFunction.zip": "a built package", "code/": "a built package"}


def test_env_file_of_langgraph_json_is_excluded(tmp_path: Path) -> None:
    written(
        tmp_path,
        {"a.py": "", "keys.txt": "KEY=1", "langgraph.json": '{"graphs": {"a": "a.py:g"}, "env": "./keys.txt"}'},
    )
    assert chosen(tmp_path) == {"a.py", "langgraph.json"}
    assert left_out(tmp_path)["keys.txt"] == "may hold secrets"


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


def test_links_in_a_circle_are_not_followed_endlessly(tmp_path: Path) -> None:
    written(tmp_path, {"a/1": "", "b/2": "", "c/3": ""})
    for link, target in {"a/link": "b", "b/link": "c", "c/link": "b"}.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    assert {"a/1", "a/link/2", "a/link/link/3", "b/link/3", "c/link/2"} <= chosen(tmp_path)


def test_link_to_parent_folder_is_not_followed_endlessly(tmp_path: Path) -> None:
    written(tmp_path, {"sub/a.py": ""})
    (tmp_path / "sub" / "up").symlink_to(tmp_path / "sub")
    assert chosen(tmp_path) == {"sub/a.py"}


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_pem_private_keys_are_recognized(tmp_path: Path, kind: str) -> None:
    key = tmp_path / "deploy.txt"
    key.write_text(PEM.format(kind, kind))
    assert looks_like_private_key(key, searched_content(key))
    assert select(tmp_path).private_keys == ("deploy.txt",)


def test_service_account_file_is_a_private_key(tmp_path: Path) -> None:
    account = tmp_path / "account.json"
    account.write_text('{"private_key": "' + PEM.format("", "").replace("\n", "\\n") + '"}')
    assert looks_like_private_key(account, searched_content(account))


@pytest.mark.parametrize(
    "text",
    [
        "[default]\naws_secret_access_key = {}\n",
        "export AWS_SECRET_ACCESS_KEY='{}'\n",
        'boto3.client("s3", aws_secret_access_key="{}")\n',
        '"os.environ[\\"AWS_SECRET_ACCESS_KEY\\"] = \\"{}\\""',
        '{{"Credentials": {{"SecretAccessKey": "{}"}}}}',
        "Access key ID,Secret access key\r\nAKIAABCDEFGHIJKLMNOP,{}\r\n",
    ],
)
def test_aws_secret_access_keys_are_recognized(tmp_path: Path, text: str) -> None:
    written(tmp_path, {"keys": text.format("wJalrXUtnFEMI/K7wJalrXUtnFEMI/K7MDENG123")})
    assert select(tmp_path).private_keys == ("keys",)


@pytest.mark.parametrize("key", ["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "os.environ['KEY']", "minioadmin"])
def test_code_without_an_aws_secret_access_key_is_packaged(tmp_path: Path, key: str) -> None:
    written(tmp_path, {"code.py": f"boto3.client('s3', aws_secret_access_key={key})\n"})
    assert select(tmp_path).private_keys == ()


@pytest.mark.parametrize(
    "key",
    [
        "x" * 40,
        "XXXXXXXX/XXXXXXXX+XXXXXXXX/XXXXXXXX/XXXX",
        "1234567890" * 4,
        ("YOURAWSKEYGOESHERE" * 3)[:40],
        "yourSecretAccessKeyGoesHereReplaceMeSoon",
        "je7MtGbClwBF/2Zp9Utk/h3yCo8nvbEXAMPLEKEY",
    ],
)
def test_placeholder_of_aws_secret_access_key_is_packaged(tmp_path: Path, key: str) -> None:
    assert len(key) == 40
    written(tmp_path, {"config.ini": f"aws_secret_access_key = {key}\n"})
    assert select(tmp_path).private_keys == ()
    # A placeholder does not hide a key after it.
    true_key = "wJalrXUtnFEMI/K7wJalrXUtnFEMI/K7MDENG123"
    written(tmp_path, {"config.ini": f"aws_secret_access_key = {key}\naws_secret_access_key = {true_key}\n"})
    assert select(tmp_path).private_keys == ("config.ini",)


def test_random_secret_access_keys_are_no_placeholders(tmp_path: Path) -> None:
    letters = string.ascii_letters + string.digits + "/+"
    # Services with the API of S3 may use keys of hexadecimal digits.
    for alphabet, count in ((letters, 2000), ("0123456789abcdef", 200)):
        for seed in range(count):
            key = "".join(random.Random(seed).choices(alphabet, k=40))
            content = f"aws_secret_access_key = {key}\n".encode()
            assert looks_like_private_key(tmp_path / "config.ini", content), key


@pytest.mark.parametrize(
    "text",
    [
        'KEY = (\n    "-----BEGIN PRIVATE KEY-----\\n"\n    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\\n"\n)\n',
        "> -----BEGIN EC PRIVATE KEY-----\n> MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: me\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n",
        "PuTTY-User-Key-File-3: ssh-ed25519\n",
        '{"kty": "EC", "crv": "P-256", "d": "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE"}',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_unusual_private_key_formats_are_recognized(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "x.txt").write_bytes(text.encode(encoding))
    assert looks_like_private_key(tmp_path / "x.txt", searched_content(tmp_path / "x.txt"))


@pytest.mark.parametrize("name", ["id_rsa", "id_ed25519", "id_ed25519_work", "store.p12", "cert.pfx", "a.p8"])
def test_key_files_are_recognized_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00")
    assert looks_like_private_key(tmp_path / name, searched_content(tmp_path / name))


@pytest.mark.parametrize(
    "text",
    ['if "-----BEGIN PRIVATE KEY-----" in text: ...', "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQ\n", ""],
)
def test_code_mentioning_private_keys_is_not_private_key(tmp_path: Path, text: str) -> None:
    (tmp_path / "check.py").write_text(text)
    assert not looks_like_private_key(tmp_path / "check.py", searched_content(tmp_path / "check.py"))


def test_package_summary_lists_excluded_secret_files_first(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": "", ".git/config": "", ".env": "", ".gitignore": "x.log", "x.log": ""})
    assert select(tmp_path).summary == "excluded: .env; .git/, .gitignore (hidden); x.log (matched by .gitignore)"
