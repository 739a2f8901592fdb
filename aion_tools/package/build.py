"""Build of the Lambda packages of a project's functions.

Dependencies are installed from wheels, so any machine can build for both of Lambda's processors, without docker.
"""

import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from aion_core.loading.frameworks import extras
from aion_tools.agent_code.imports import frameworks_of, loaded_files, missing
from aion_tools.agent_code.project_agents import ProjectAgents, agents_of, check_syntax
from aion_tools.package import trim
from aion_tools.package.cache import scratch
from aion_tools.package.declared import check_python, declared
from aion_tools.package.functions import (
    ALL_EXTRAS,
    CHOSEN_EXTRAS,
    FUNCTION_EXTRAS,
    PLATFORMS,
    UNUSED,
    Target,
    agent_extras,
    required_by,
)
from aion_tools.package.installed import Installed
from aion_tools.package.lock import locked
from aion_tools.package.metadata import distribution_metadata
from aion_tools.package.own_code import RESERVED, compiled_code
from aion_tools.package.package import IMAGE_LIMIT, LAMBDA_LIMIT, Package, add_to_zip, files_in, put, too_large
from aion_tools.package.part import Part, finished
from aion_tools.package.secrets import REMEDY, SecretVerdict
from aion_tools.package.selection import Selection, select, top_module
from aion_tools.programs import BuildError, interpreter, standard_modules
from aion_tools.template import image_form, stacks
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import project_template

_MEGABYTE = 1024**2


class Build:
    """Build of a project's packages. Its creation reports problems of the project before anything is installed."""

    def __init__(
        self,
        folder: Path,
        functions: Sequence[str] = (),
        *,
        architecture: str | None = None,
        python: str | None = None,
        configs: Sequence[Path] | None = None,
    ) -> None:
        """Read the project in this folder, for these functions or for all.

        Processor, Python version and AION_CONFIG come from the project's template.yaml or, if it is missing, from that of
        aion-lambda. The last three arguments replace them. Raises BuildError, TemplateError or UvMissing.
        """
        self.folder = folder.resolve()
        self.functions = tuple(functions or FUNCTION_EXTRAS)
        if unknown := [each for each in self.functions if each not in FUNCTION_EXTRAS]:
            raise BuildError(
                f"{unknown[0]} is not a function of aion, so it has no package; the functions are {', '.join(FUNCTION_EXTRAS)}"
            )
        self.template = project_template(self.folder, BUILD_PLACE)
        self._has_images = image_form.is_wanted(self.folder)
        if self._has_images and self.template.path.parent == self.folder and not stacks.are_used(self.folder):
            raise BuildError(
                f"`image: true` in aion.yaml needs a template.yaml that nests {stacks.FOLDER}, as `aion new` writes it: the "
                "functions of this template.yaml are zips"
            )
        self.target = self._target(architecture, python)
        named = {each: self.template.environment(each).get("AION_CONFIG") for each in self.functions}
        self._config = next(filter(None, named.values()), None)
        self._with_agents = {each for each in self.functions if named[each]}
        self.agents = ProjectAgents((), ())
        self.selection: Selection | None = None
        if self._config:
            self._read_agents([self.folder / self._config] if configs is None else configs)
        else:
            self.declared = declared(self.folder)
        self._lock = locked(self.declared, self._frameworks_of_agents(), self.target)
        self._frameworks = self._frameworks_of_agents(self._lock.frameworks if self.declared.lock else ())

    @cached_property
    def installed(self) -> Installed:
        """Dependencies of all functions, installed on first use. Raises BuildError or UvMissing."""
        return Installed(self._lock, self.target)

    def is_image(self, function: str) -> bool:
        """Return True if a function of this build is deployed as a container image."""
        return self._has_images and function in self._with_agents

    def write(self, function: str, folder: Path, *, link: bool = False) -> Package:
        """Write a function's package into a folder. Raises BuildError or UvMissing.

        With `link`, its files are hard links to the cache: the folder must be in the cache, and nobody may change them.
        """
        own = self._own(function)
        package, part = self._package(function, own, folder)
        copy = os.link if link else shutil.copy
        shutil.copytree(part.code, folder, copy_function=copy, dirs_exist_ok=True)
        for place, file in own.items():
            (folder / place).unlink(missing_ok=True)  # it may be a link to the cache
            put(file, folder / place, copy)
        return package

    def zip(self, function: str, archive: Path) -> Package:
        """Write a function's package as a zip. Equal packages give equal bytes. Raises BuildError or UvMissing."""
        own = self._own(function)
        package, part = self._package(function, own, archive)
        archive.parent.mkdir(parents=True, exist_ok=True)
        # Beside the archive, because a build that is killed must not leave half of it.
        with TemporaryDirectory(prefix=".aion-", dir=archive.parent) as beside:
            made = Path(beside, archive.name)
            shutil.copyfile(part.zip(own), made)
            if own:
                add_to_zip(made, own)
            made.replace(archive)
        return package

    def _package(self, function: str, own: Mapping[str, Path], code: Path) -> tuple[Package, Part]:
        """Return a function's package with the project's `own` files, which the caller writes, and its part from the cache.

        Raises BuildError or UvMissing.
        """
        has_agents = function in self._with_agents
        limit = IMAGE_LIMIT if self.is_image(function) else LAMBDA_LIMIT
        own_size = sum(file.stat().st_size for file in own.values())
        # In whole megabytes, so that an edit of the project rarely needs another part.
        room = limit - math.ceil(own_size / _MEGABYTE) * _MEGABYTE
        words = trim.boto_words(own.values())
        exclude = self.agents.exclude if has_agents else ()
        part = finished(self.installed, self._of_aion, self._distributions(function), words, exclude, room)
        if (size := part.size + own_size) > limit:
            raise BuildError(too_large(function, size, limit, part.weights, is_image=self.is_image(function)))
        for place, file in own.items():
            _refuse_replaced(place, file, part.code)
        if has_agents:
            self._check_imports(part.code)
        agents = self.agents.agents if has_agents else ()
        return Package(function, self.target, agents, code, size, tuple(self._warnings(part))), part

    @cached_property
    def _of_aion(self) -> Path:
        return compiled_code(self.target.python)

    def _own(self, function: str) -> dict[str, Path]:
        """Return the project's files for a function's package, by their path in the package."""
        return files_in(Path(self._project.name)) if function in self._with_agents else {}

    @cached_property
    def _project(self) -> "TemporaryDirectory[str]":
        """Folder in the cache with the project's files and their .pyc files, as in a package."""
        made = scratch()
        files = {Path(made.name, place): content for place, content in self._project_files()}
        for file, content in files.items():
            if isinstance(content, Path):
                put(content, file)
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                file.chmod(0o644)
        trim.compile_modules(Path(made.name), self.target.python, [file for file in files if file.suffix == ".py"])
        return made

    def _warnings(self, part: Part) -> Iterator[str]:
        if part.excluded:
            yield f"`exclude` in aion.yaml leaves out {part.excluded / _MEGABYTE:.1f} MB of the dependencies"
        if not interpreter(self.target.python):
            yield (
                "the package has no .pyc files, which makes cold starts slower: this machine has no Python "
                f"{self.target.python} (install it with `uv python install {self.target.python}`)"
            )
        elif part.dropped:
            yield (
                f"the .pyc files of {', '.join(part.dropped)} are left out, because the package would be above Lambda's limit: "
                "cold starts are slower"
            )

    def _target(self, architecture: str | None, python: str | None) -> Target:
        properties = self.template.resolved(self.functions[0], "Runtime", "Architectures")
        architecture = architecture or (properties.get("Architectures") or ["x86_64"])[0]
        if architecture not in PLATFORMS:
            raise BuildError(
                f"Lambda has no processor {architecture!r}: set Architecture in template.yaml to {' or '.join(PLATFORMS)}"
            )
        return Target(architecture, python or properties["Runtime"].removeprefix("python"))

    def _read_agents(self, configs: Sequence[Path]) -> None:
        self.agents = found = agents_of(self.folder, configs)
        # Check the syntax first, because a file with a syntax error has no known imports, and imports name the frameworks.
        loaded = {file for agent in found.agents for file in loaded_files(agent.file, found.roots)}
        check_syntax(loaded, self.folder, self.target.python)
        check_python(self.folder, self.target.python)
        self.declared = declared(self.folder, found.requirements)
        self.selection = select(self.folder)
        if refused := self.selection.with_verdict(SecretVerdict.REFUSED):
            raise BuildError(f"a package must have no secrets: {'; '.join(map(str, refused))}. {REMEDY}")
        self._refuse_lost(self.selection, [*found.configs, *(agent.file for agent in found.agents), *sorted(loaded)])

    def _frameworks_of_agents(self, otherwise: Iterable[str] = ()) -> set[str]:
        agents, roots = self.agents.agents, self.agents.roots
        return {each for agent in agents for each in frameworks_of(agent.file, roots, otherwise)}

    def _distributions(self, function: str) -> set[str]:
        """Return the names of the distributions for a function's package. Raises BuildError if the lock lacks one."""
        without = UNUSED.get(function, frozenset())
        frameworks = self._frameworks if function in self._with_agents else ()
        chosen = [name for name in self.declared.extras if function in CHOSEN_EXTRAS[name]]
        needed = required_by(*FUNCTION_EXTRAS[function], *agent_extras(frameworks), *chosen)
        if lost := self.installed.missing(needed, without):
            raise BuildError(
                f"{'uv.lock' if self.declared.lock else 'the project'} lacks {', '.join(lost)}, which {function} needs: require "
                f"aion-lambda[{','.join(sorted(self._frameworks)) or 'api'}] in pyproject.toml, and run `uv lock`"
            )
        found = self.installed.reachable(needed, without)
        if function in self._with_agents:
            # The rest of the lock is the project's, also what its requirements name only by a path or URL.
            own = required_by(*ALL_EXTRAS, *agent_extras(extras()), *self.declared.extras)
            others = self.installed.names - self.installed.reachable(own)
            found |= self.installed.reachable(self.declared.lines) | (set() if self.declared.is_aion else others)
        return found

    def _project_files(self) -> Iterator[tuple[str, Path | bytes]]:
        """Yield the path in the package of each file of the project, with the file or its generated content."""
        assert self.selection is not None  # noqa: S101  # read with the agents
        for file in self.selection.files:
            place = file.relative_to(self.folder).as_posix()
            first = place.split("/")[0].removesuffix(".py")
            if first not in RESERVED:
                yield place, file
            elif not self.declared.is_aion:
                raise BuildError(
                    f"rename {place}, or add it to .aionignore: the name {first} is reserved for aion's own code in a package"
                )
        if self.agents.generated and self._config:
            yield self._config, self.agents.generated.encode()
        if not self.declared.is_aion:
            yield from ((place, text.encode()) for place, text in distribution_metadata(self.folder))

    def _refuse_lost(self, selection: Selection, needed: Sequence[Path]) -> None:
        """Raise BuildError if the package leaves out a file that an agent needs."""
        chosen = set(selection.files)
        for file in needed:
            if file not in chosen and file.resolve() not in chosen:
                place = file.relative_to(self.folder).as_posix()
                reason = "".join(f": {each.reason}" for each in selection.left_out if f"{place}/".startswith(each.path))
                raise BuildError(f"{place} is excluded from the package{reason}, but an agent needs it")

    def _check_imports(self, dependencies: Path) -> None:
        """Raise BuildError if an agent imports a module that neither this folder nor the project's contains."""
        folders = dependencies, Path(self._project.name)
        roots = [root.relative_to(self.folder) for root in self.agents.roots]
        places = [folder / root for folder in folders for root in (Path(), *roots)]
        standard = standard_modules(self.target.python)
        for lost in missing([agent.file for agent in self.agents.agents], self.agents.roots, places, standard):
            raise BuildError(
                f"{lost.file.relative_to(self.folder)}, line {lost.line}, imports {lost.name}, but the package does not contain "
                f"it: correct the name, or add the dependency with `uv add`"
            )


def _refuse_replaced(place: str, file: Path, dependencies: Path) -> None:
    """Raise BuildError if a file of the project would replace one of a dependency that code may need."""
    theirs = dependencies / place
    if theirs.is_dir():
        raise BuildError(f"rename the file {place}: a dependency has a folder with this name")
    if above := [each for each in PurePath(place).parents if (dependencies / each).is_file()]:
        raise BuildError(f"rename the folder {above[0]}: a dependency has a file with this name")
    if top_module(place) and theirs.is_file() and theirs.read_bytes() != file.read_bytes():
        raise BuildError(
            f"rename {place.partition('/')[0]}, or add it to .aionignore: a dependency has a module with this name"
        )
