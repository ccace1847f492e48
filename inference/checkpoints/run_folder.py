"""Folder of a run: its lock, and files that are written whole or not at all.

| File                | Holds                                                                   |
|---------------------|-------------------------------------------------------------------------|
| `manifest.json`     | description of the run, see :mod:`inference.checkpoints.manifest`       |
| `draws.*.npy`       | draws of a site, ``(chain, draw, *shape)``                              |
| `stats.*.npy`       | a statistic of transitions, ``(chain, draw)``                           |
| `state.npz`         | the last recorded state of the chains, of a fit, or of particles        |
| `state.earlier.npz` | of several processes, the state before the last meeting of their chains |
| `jobs.*.npz`        | results of independent jobs that are finished                           |
| `lock`              | the number of the process that uses the folder                          |

Nothing is pickled. `manifest.json`, `state.npz` and `jobs.*.npz` end with a SHA-256 checksum of
their content, and `state.npz` has CRC-32 checksums of the draws before it. All contain the random
identity of the run, so that a file of another run is recognized.
"""

import errno
import hashlib
import io
import json
import os
import pathlib
import secrets
import zipfile
from typing import Any

import numpy as np

from inference.common.serialization import tag_in

try:
    import fcntl
except ImportError:  # on Windows, where a folder has no lock
    fcntl = None

MANIFEST = "manifest.json"
STATE = "state.npz"
EARLIER_STATE = "state.earlier.npz"
_OF_PROCESS = "process-"  # and its number: a folder within that of a run of several processes
LOCK = "lock"
_IDENTITY = "identity"  # entry of manifests and states
# What a run may leave that was killed before its manifest was there.
_OF_NO_RUN = LOCK, "probe", "probe.partial", f"{MANIFEST}.partial"
_MARK = b"\nsha256:"
_TAIL = len(_MARK) + 64  # bytes of a checksum at the end of a file
# By what a file holds in place of a folder.
_HOW_TO_GO_ON = {
    "MCMCResult": " It holds a result of mcmc, whose chains go on by "
    "inference.resume(inference.MCMCResult.load(file), model, *args, num_draws=...)",
    "SMCResult": " It holds a result of smc, which is at its end; with new rows of data it goes "
    "on by inference.SMCResult.load(file).update(key, model, *args)",
    "SVIResult": " It holds a result of svi, which goes on by svi(..., "
    "state=inference.SVIResult.load(file).state)",
}


class RunFolder:
    """Folder of a run, locked until `close`."""

    def __init__(self, path: str | os.PathLike[str], *, is_begun: bool = False) -> None:
        """Makes the folder if there is none, and locks it.

        Args:
            path: Path of the folder.
            is_begun: Whether the folder must exist already.

        Raises:
            TypeError: if `path` is not a path.
            ValueError: if the folder holds something else than a run, if another process uses it,
                or if it must exist and does not.
            OSError: if it cannot be written.
        """
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint must be the path of a folder, got {path!r}")
        self.path = pathlib.Path(path)
        self._lock = None
        self._identity: str | None = None
        self.name = repr(os.fspath(path))
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(
                f"checkpoint={self.name} is a file; give the path of a folder, which may be new."
                + _HOW_TO_GO_ON.get(tag_in(self.path) or "", "")
            )
        if is_begun and not self.path.exists():
            raise self.emptiness()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._check_files()
            self._lock = self._take_lock()
            self.write("probe", b"")
            (self.path / "probe").unlink()
        except OSError as error:
            self.close()
            raise self.refusal(error) from error

    def _check_files(self) -> None:
        names = [x.name for x in self.path.iterdir() if x.name not in _OF_NO_RUN]
        if number := sum(name.startswith(_OF_PROCESS) for name in names):
            raise ValueError(
                f"checkpoint={self.name} is the folder of a run of several processes, {number} of "
                "which have files there: call in as many, with a mesh of the devices of all, or "
                "give another folder"
            )
        if names and MANIFEST not in names:
            raise ValueError(
                f"checkpoint={self.name} is not the folder of a run: it has {sorted(names)[:3]} "
                f"and no {MANIFEST}; give a new or empty folder"
            )

    def _take_lock(self) -> Any:
        lock = open(self.path / LOCK, "a+")  # noqa: SIM115
        if fcntl is not None:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                number = lock.read().strip()
                lock.close()
                raise ValueError(
                    f"checkpoint={self.name} is in use by process {number}; wait for it, or give "
                    "another folder"
                ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock

    def close(self) -> None:
        """Gives the lock back; the end of a process does, too."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file whole or not at all, and waits until the disk has it.

        Raises:
            OSError: if it cannot be written; the former file is unchanged then.
        """
        partial = self.path / f"{name}.partial"
        try:
            with open(partial, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path / name)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        self.sync()

    def sync(self) -> None:
        """Waits until the disk has the names of the files."""
        if os.name == "posix":
            number = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def refusal(self, error: OSError, name: str = "", num_bytes: int = 0) -> OSError:
        """Error for a folder, or a file in it, that cannot be written.

        Args:
            error: The system's error.
            name: The file, if it is one.
            num_bytes: Its size.
        """
        reason = os.strerror(error.errno or 0) if error.errno else str(error)
        file = f"the file {name} of {num_bytes} bytes: " * bool(name)
        advice = "give a folder in which there is room, and this process may make files"
        if error.errno == errno.EFBIG:
            advice = (
                "the disk or a limit of this process (ulimit -f) allows no file of this size; "
                "raise it, give another folder, or keep fewer sites or draws"
            )
        return type(error)(
            error.errno, f"checkpoint={self.name} cannot be written: {file}{reason}; {advice}"
        )

    def emptiness(self) -> ValueError:
        """Error for a folder without a run."""
        return ValueError(
            f"checkpoint={self.name} has no run; begin one with inference.mcmc(..., "
            f"checkpoint={self.name})"
        )

    def damage(self, name: str, what: str) -> ValueError:
        """Error for a damaged file."""
        draws = '; files of draws can be read by np.load(file, mmap_mode="r")'
        others = "begin the run anew in another folder"
        if name.startswith("jobs."):
            others = "remove it: its jobs are then made again"
        return ValueError(
            f"{name} in checkpoint={self.name} is damaged: {what}. Nothing was changed. Restore "
            f"the file from a copy, or {others}" + draws * any(self.path.glob("draws.*"))
        )

    def write_state(self, state: dict[str, np.ndarray], name: str = STATE) -> None:
        """Writes the state of the run, or another file of arrays."""
        buffer = io.BytesIO()
        whole = state | {_IDENTITY: np.array(self._identity)}
        np.savez(buffer, **whole)  # pyright: ignore[reportArgumentType]
        content = buffer.getvalue()
        self.write(name, content + _MARK + hashlib.sha256(content).hexdigest().encode())

    def keep_earlier_state(self) -> None:
        """Keeps the last recorded state, if there is one, before a new one takes its place.

        Raises:
            OSError: if it cannot be written.
        """
        if (self.path / STATE).exists():
            self.write(EARLIER_STATE, (self.path / STATE).read_bytes())

    def read_state(self, name: str = STATE) -> dict[str, np.ndarray] | None:
        """The last recorded state, or another file of arrays; `None` if there is none.

        Raises:
            ValueError: if it is damaged, or of another run than the manifest.
        """
        try:
            content = (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        content, tail = content[:-_TAIL], content[-_TAIL:]
        if tail != _MARK + hashlib.sha256(content).hexdigest().encode():
            raise self.damage(name, "its checksum differs")
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                state = dict(archive)
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise self.damage(name, str(error)) from error
        if self._identity is None:
            self.read_manifest()
        if str(state.pop(_IDENTITY, "")) != str(self._identity):
            raise self.damage(name, f"it is of another run than {MANIFEST}")
        return state

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest; a new run gets its identity.

        Raises:
            OSError: if it cannot be written.
        """
        if self._identity is None:
            self._identity = secrets.token_hex(16)
        whole = manifest | {_IDENTITY: self._identity}
        whole |= {"sha256": _hash_manifest(whole)}
        content = json.dumps(whole, indent=1).encode()
        try:
            self.write(MANIFEST, content)
        except OSError as error:
            raise self.refusal(error, MANIFEST, len(content)) from error

    def read_manifest(self) -> dict[str, Any] | None:
        """Description of the run; `None` for a new folder.

        Raises:
            ValueError: if the file is damaged.
        """
        try:
            manifest = json.loads((self.path / MANIFEST).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self.damage(MANIFEST, str(error)) from error
        if not isinstance(manifest, dict) or manifest.pop("sha256", "") != _hash_manifest(manifest):
            raise self.damage(MANIFEST, "its checksum differs")
        self._identity = manifest.pop(_IDENTITY, None)
        return manifest


def folder_of_process(path: Any, process: int, num_processes: int) -> pathlib.Path:
    """Path of the folder of a process, within that of a run of several.

    Raises:
        TypeError: if `path` is not a path.
        ValueError: if the folder has something else, or a run of another number of processes.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a folder, got {path!r}")
    whole = pathlib.Path(path)
    if whole.exists() and not whole.is_dir():
        return whole  # which RunFolder refuses
    name = repr(os.fspath(path))
    names = {x.name for x in whole.iterdir()} if whole.exists() else set()
    if MANIFEST in names:
        raise ValueError(
            f"checkpoint={name} is the folder of a run of one process, and this call is one of "
            f"{num_processes}: call with a mesh of the devices of one, or give another folder"
        )
    expected = {f"{_OF_PROCESS}{i}" for i in range(num_processes)}
    others = sorted(names - expected - {*_OF_NO_RUN})
    if others and all(x.startswith(_OF_PROCESS) for x in others):
        raise ValueError(
            f"checkpoint={name} is the folder of a run of more processes, as it has {others[-1]}, "
            f"and this call is one of {num_processes}: call in as many, or give another folder"
        )
    if others:
        raise ValueError(
            f"checkpoint={name} is not the folder of a run: it has {others[:3]}; give a new or "
            "empty folder"
        )
    return whole / f"{_OF_PROCESS}{process}"


def _hash_manifest(manifest: Any) -> str:
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
