"""Packages of projects of many shapes, each built with an empty cache, and imported by Lambda's Python alone."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aion_tools.package.build import Build
from aion_tools.programs import find_uv, interpreter, machine_architecture, run
from aion_tools.shipped import shipped
from tests.support.e2e.runtime_emulator import LAMBDA_PYTHON
from tests.tools.unit.package.wheels import HATCHLING, index, library, pyproject, sdist, sha256, wheel, write

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="the packages are made for Linux"),
    pytest.mark.skipif(interpreter(LAMBDA_PYTHON) is None, reason=f"no Python {LAMBDA_PYTHON} here"),
]
AION = "aion-lambda[api]"
SOURCES = f'[tool.uv.sources]\naion-lambda = {{ path = "{shipped()}" }}\n'
AGENT = """from importlib.metadata import version
from a2a.server.agent_execution import AgentExecutor
{imports}

class Mine(AgentExecutor):
    async def execute(self, context, queue): ...
    async def cancel(self, context, queue): ...

agent = Mine()
"""


@dataclass
class Project:
    """A project to build, in the folder of its agent."""

    folder: Path
    index: str
    """URL of a package index with a password."""
    wheels: Path
    """Folder of the index's distributions."""
    expects: list[str] = field(default_factory=list)
    """Expressions that hold in the built package, after `import mine`."""

    def write(self, text: str, expects: str, files: Mapping[str, str] | None = None) -> None:
        """Write the pyproject.toml and other files, and note what the built package must contain."""
        self.expects.append(expects)
        write(self.folder, {"pyproject.toml": text, **(files or {})})


SHAPES: dict[str, Callable[[Project], None]] = {}


def shape(make: Callable[[Project], None]) -> Callable[[Project], None]:
    SHAPES[make.__name__.replace("_", " ")] = make
    return make


# --- Shapes ---


@shape
def constraints(project: Project) -> None:
    for version in ("1.0", "2.0"):
        wheel(project.wheels, version=version)
    settings = '[tool.uv]\nconstraint-dependencies = ["mine<2", "idna<3.11"]\n'
    text = pyproject(AION, "mine") + settings + indexed(project)
    project.write(text, "version('mine') == '1.0' and version('idna').startswith('3.10')")


@shape
def overrides(project: Project) -> None:
    wheel(project.wheels, requires="idna>=99")
    settings = '[tool.uv]\noverride-dependencies = ["idna<3.11"]\n'
    project.write(pyproject(AION, "mine") + settings + indexed(project), "version('idna').startswith('3.10')")


@shape
def member_of_uv_workspace(project: Project) -> None:
    library(project.folder / "libs" / "mine", {"mine/words.txt": "shared"})
    workspace = '[tool.uv]\nworkspace = { members = ["agents/*", "libs/*"] }\n'
    write(project.folder, {"pyproject.toml": f"{workspace}{SOURCES}mine = {{ workspace = true }}\n"})
    project.folder /= "agents/one"
    text = pyproject(AION, "mine", name="one")
    project.write(text, "files('mine').joinpath('words.txt').read_text() == 'shared'")


@shape
def poetry_2_with_project(project: Project) -> None:
    written = wheel(project.wheels)
    table = '[project]\nname = "my-agent"\nversion = "0.1.0"\nrequires-python = ">=3.11,<4.0"\n'
    dependencies = f'dependencies = ["{AION}", "mine (>=1,<2)", "idna (>=3,<4)"]\n[tool.poetry]\npackage-mode = false\n'
    backend = '[build-system]\nrequires = ["poetry-core>=2.0.0,<3.0.0"]\nbuild-backend = "poetry.core.masonry.api"\n'
    exported = f"--extra-index-url {project.index}\nmine==1.0 --hash=sha256:{sha256(written)}\nidna==3.10\n"
    project.write(table + dependencies + backend, "version('idna') == '3.10'", {"requirements.txt": exported})


@shape
def requirements_txt_with_hashes(project: Project) -> None:
    for version in ("1.0", "2.0"):
        written = wheel(project.wheels, version=version, files={"mine.py": f"value = '{version}'"})
    lines = f"--extra-index-url {project.index}\nmine==2.0 \\\n    --hash=sha256:{sha256(written)}\n{AION}\n"
    project.write("", "mine.value == '2.0'", {"requirements.txt": lines})
    (project.folder / "pyproject.toml").unlink()


@shape
def explicit_index_with_password(project: Project) -> None:
    wheel(project.wheels)
    wheel(project.wheels, "idna", version="99.0")  # not from this index
    text = pyproject(AION, "mine") + indexed(project, "explicit = true\n") + "mine = { index = 'own' }\n"
    project.write(text, "version('mine') == '1.0' and version('idna') < '99'")


@shape
def markers(project: Project) -> None:
    for name in ("mine", "others", "olds"):
        wheel(project.wheels, name)
    lines = ["mine ; sys_platform == 'linux'", "others ; sys_platform == 'win32'", "olds ; python_version < '3.12'"]
    project.write(
        pyproject(AION, *lines) + indexed(project), "find_spec('others') is None and find_spec('olds') is None"
    )


@shape
def git_dependency(project: Project) -> None:
    source = library(project.folder.parent / "repository", {"mine/__init__.py": "value = 'committed'\n"})
    for command in (["init", "--quiet"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm1"]):
        run(["git", "-C", str(source), *command])
    write(source, {"mine/__init__.py": "value = 'edited'\n"})
    project.write(pyproject(AION, f"mine @ git+{source.as_uri()}") + SOURCES, "mine.value == 'committed'")


@shape
def local_folder(project: Project) -> None:
    library(project.folder / "lib" / "mine", {"mine/words.txt": "of the folder"})
    text = pyproject(AION, "mine") + SOURCES + 'mine = { path = "lib/mine", editable = true }\n'
    project.write(text, "files('mine').joinpath('words.txt').read_text() == 'of the folder'")


@shape
def src_layout(project: Project) -> None:
    text = pyproject(AION, name="mine") + SOURCES + HATCHLING
    project.write(text, "mine.value == 1 and version('mine') == '0.1.0'", {"src/mine/__init__.py": "value = 1\n"})


@shape
def python_sdist(project: Project) -> None:
    sdist(project.wheels, "mine", {"pyproject.toml": pyproject(name="mine", version="1.0") + HATCHLING, "mine.py": ""})
    project.write(pyproject(AION, "mine") + indexed(project), "version('mine') == '1.0'")


@shape
def data_files_of_dependency(project: Project) -> None:
    content = {"mine/__init__.py": "", "mine/a/words.json": "{}", "requirements.txt": "theirs"}
    wheel(project.wheels, files={**content, "mine-1.0.data/data/share/mine.txt": "shared"})
    expects = (
        "files('mine').joinpath('a', 'words.json').read_text() == '{}' and Path(place, 'share/mine.txt').is_file()"
    )
    project.write(pyproject(AION, "mine") + indexed(project), expects)


def indexed(project: Project, more: str = "") -> str:
    """Return the tables of pyproject.toml for the project's index. Its last table has the sources."""
    return f'[[tool.uv.index]]\nname = "own"\nurl = "{project.index}"\n{more}{SOURCES}'


# --- Test ---

# Each takes five CPU-seconds, so `make test` builds one project without uv.lock; test_installed.py builds one with it.
QUICK = {"requirements txt with hashes"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    (tmp_path / "wheels").mkdir()
    with index(tmp_path / "wheels", password="hunter2") as url:
        yield Project(tmp_path / "my project", url, tmp_path / "wheels")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.deep] * (name not in QUICK)) for name in SHAPES]
)
def test_project_is_built_and_imported(project: Project, tmp_path: Path, name: str) -> None:
    SHAPES[name](project)
    code = AGENT.format(imports="import mine")
    write(project.folder, {"aion.yaml": "aion: {agents: {mine: {path: agent.py}}}", "agent.py": code})
    if not (project.folder / "requirements.txt").is_file():
        run([find_uv(), "lock", "--quiet", "--project", str(project.folder)])
    built = Build(project.folder, architecture=machine_architecture(), python=LAMBDA_PYTHON)
    package = built.write("ApiFunction", tmp_path / "package")
    assert not package.warnings
    prologue = (
        "import sys; place = sys.argv[1]; sys.path[:0] = [place, place + '/src']\nimport agent, mine, boto3, fastapi\n"
    )
    tools = "from importlib.metadata import version\nfrom importlib.resources import files\nfrom pathlib import Path\n"
    checks = "from importlib.util import find_spec\n" + "".join(f"assert {each}\n" for each in project.expects)
    command = [str(interpreter(LAMBDA_PYTHON)), "-I", "-S", "-c", prologue + tools + checks, str(package.code)]
    done = subprocess.run(command, cwd="/", env={}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # A password of a server on this machine is no secret, so the project's own pyproject.toml may contain it.
    kept = [file.name for file in package.code.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
    assert kept in ([], ["pyproject.toml"])
