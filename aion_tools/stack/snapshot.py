"""Snapshot file with an emulator's tables, queues, buckets and keys."""

import hashlib
import io
import json
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from moto.backends import get_backend

from aion_tools.stack import EmulatorError
from aion_tools.stack.emulator import SERVICES, Emulator
from aion_tools.template.names import BUCKET, KEY, QUEUE, TABLE
from aion_tools.template.reader import Template

FORMAT = 1
_MAGIC = b"aion snapshot\n"
_PEM = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()


class Unusable(Exception):
    """Error of a snapshot that cannot be restored. The message states the reason."""


class SnapshotFile:
    """File with the snapshot of one emulator. Each new snapshot replaces the file atomically.

    The file is a pickle. Write access to it permits running code, like write access to the agents' files.
    """

    def __init__(self, path: Path, template: Template, *, layout: int) -> None:
        """Accept only snapshots whose items have this layout."""
        self._path, self._layout = path, layout
        self._header = {
            "format": FORMAT,
            "layout": layout,
            "aion": version("aion-lambda"),
            "moto": version("moto"),
            "resources": fingerprint(template),
        }

    def restore(self, emulator: Emulator) -> bool:
        """Restore the emulator's state from the file. Return False if the file does not exist.

        Raises Unusable if the file is damaged or comes from another version or from a template with other resources.
        Raises EmulatorError if its items have another layout.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Unusable(f"cannot read it ({error.strerror})") from error
        magic, header, digest, body = _split(content)
        if magic != _MAGIC.strip() or hashlib.sha256(body).hexdigest().encode() != digest:
            raise Unusable("it is damaged")
        try:
            written = json.loads(header)
        except ValueError as error:
            raise Unusable("it is damaged") from error
        if not isinstance(written, dict):
            raise Unusable("it is damaged")
        if written.get("layout") != self._layout:
            raise EmulatorError(
                f"{self._path} has another layout of stored items than this version of aion reads "
                f"({self._layout}): delete this file, or start with `aion dev --store dynamodb --fresh`"
            )
        if written != self._header:
            raise Unusable(_difference(written, self._header))
        try:
            state = pickle.loads(body)  # noqa: S301  # our own file, see the class's docstring
        except Exception as error:  # unpickling may raise any exception
            raise Unusable(f"it is damaged ({type(error).__name__})") from error
        with emulator.paused():
            _restore(state, emulator.account)
        emulator.release_messages()
        return True

    def write(self, emulator: Emulator) -> None:
        """Replace the file by the emulator's current state. The emulator pauses while its state is copied."""
        with emulator.paused():
            body = _dumped(emulator.account)
        digest = hashlib.sha256(body).hexdigest().encode()
        content = b"\n".join([_MAGIC.strip(), json.dumps(self._header).encode(), digest, body])
        temporary = self._path.with_name(f"{self._path.name}.new")
        # Create the folder, because the developer may have deleted it since the start.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(self._path)

    def set_aside(self) -> Path:
        """Rename an unusable snapshot file and return its new path."""
        aside = self._path.with_name(f"{self._path.name}.unusable")
        with suppress(FileNotFoundError):
            self._path.replace(aside)
        return aside

    def delete(self) -> None:
        """Delete the snapshot file if it exists."""
        self._path.unlink(missing_ok=True)


class Saver:
    """Thread that writes the emulator's snapshot at regular intervals, if its state may have changed."""

    def __init__(
        self, file: SnapshotFile, emulator: Emulator, *, seconds: float, failed: Callable[[OSError], None]
    ) -> None:
        """Save the emulator's state every few `seconds`. Call `failed` once if the file cannot be written."""
        self._file, self._emulator, self._seconds, self._failed = file, emulator, seconds, failed
        self._stopping = threading.Event()
        self._saved = -1
        self._has_reported = False
        self._thread = threading.Thread(target=self._run, name="snapshot", daemon=True)

    def start(self) -> None:
        """Start the thread that writes snapshots."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and write a last snapshot if there were changes."""
        self._stopping.set()
        self._thread.join()
        self._save()

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            self._save()

    def _save(self) -> None:
        writes = self._emulator.writes
        if writes == self._saved:
            return
        try:
            self._file.write(self._emulator)
        except OSError as error:
            if not self._has_reported:
                self._failed(error)
            self._has_reported = True
        else:
            self._saved = writes


def fingerprint(template: Template) -> str:
    """Return a hash of the names and properties of the template's tables, queues, buckets and keys."""
    resources = {
        name: [
            kind,
            template.attribute(name, None, name).replace(template.place.endpoint, ""),
            template.properties(name),
        ]
        for kind in (TABLE, QUEUE, BUCKET, KEY)
        for name in template.resources(kind)
    }
    return hashlib.sha256(json.dumps(resources, sort_keys=True, default=str).encode()).hexdigest()[:16]


class _Pickler(pickle.Pickler):
    """Pickler with support for the locks and private keys in moto's objects."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _LOCKS):
            return type(value), ()
        if isinstance(value, _RLOCK):
            return threading.RLock, ()
        if isinstance(value, threading.Condition):
            return threading.Condition, ()
        if isinstance(value, _KEYS):
            return _key, (value.private_bytes(*_PEM),)
        return NotImplemented


_LOCKS = (threading.Event,)
_RLOCK = type(threading.RLock())
_KEYS = PrivateKeyTypes.__args__  # type: ignore[attr-defined]


def _key(pem: bytes) -> PrivateKeyTypes:
    return serialization.load_pem_private_key(pem, None)


def _dumped(account: str) -> bytes:
    state = {
        service: {
            region: {name: value for name, value in vars(backend).items() if not callable(value)}
            for region, backend in get_backend(service)[account].items()  # type: ignore[call-overload]
        }
        for service in SERVICES
    }
    out = io.BytesIO()
    _Pickler(out, pickle.HIGHEST_PROTOCOL).dump(state)
    return out.getvalue()


def _restore(state: dict[str, Any], account: str) -> None:
    for service, regions in state.items():
        for region, attributes in regions.items():
            backend = get_backend(service)[account][region]  # type: ignore[call-overload]
            for name, value in attributes.items():
                setattr(backend, name, value)


def _split(content: bytes) -> list[bytes]:
    parts = content.split(b"\n", 3)
    if len(parts) != 4:
        raise Unusable("it is damaged")
    return parts


def _difference(written: dict[str, Any], ours: dict[str, Any]) -> str:
    for name in ("aion", "moto"):
        if written.get(name) != ours[name]:
            return f"it was written by {name} {written.get(name)}, and this is {name} {ours[name]}"
    if written.get("resources") != ours["resources"]:
        return "it was written for a template with other resources"
    return "it has an unknown format"
