"""Soufflé's compiler: where it is, its version, and the binaries that it has made, which are kept."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.command import say
from semi_naive.host.threads import cpus

BINARIES = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "semi-naive" / "souffle"


@dataclass
class SouffleCompiler:
    """A Soufflé: its path, its version, and the bits of its numbers (32, or 64 if it was built so)."""

    path: str
    version: str
    bits: int


def compilers(folders: str | None) -> list[SouffleCompiler]:
    """The Soufflés in the folders (separated as those of PATH are), or the first one on the PATH; those of 64 bits first."""
    paths = [shutil.which("souffle", path=folder) for folder in (folders or "").split(os.pathsep) if folder]
    found = [path for path in paths if path] or [path for path in [shutil.which("souffle")] if path]
    return sorted(map(_compiler, found), key=lambda each: -each.bits)


def _compiler(path: str) -> SouffleCompiler:
    told = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    version, bits = re.search(r"(?m)^Version: *(\S*)", told), re.search(r"(?m)^Word size: *(\d+)", told)
    return SouffleCompiler(path, version[1] if version else "", int(bits[1]) if bits else 32)


def compiled(program: Path, compiler: str) -> str:
    """The binary that a compiler makes of a program. It is kept: C++ takes half a minute. If the program includes files, all
    programs in its folder count as part of it."""
    BINARIES.mkdir(parents=True, exist_ok=True)
    made_of = hashlib.sha256(f"{compiler} {os.stat(compiler).st_mtime_ns}".encode())
    for part in [program, *sorted({*program.parent.rglob("*.dl")} - {program})] if includes(program) else [program]:
        made_of.update(b"\0" + part.read_bytes())
    binary = BINARIES / made_of.hexdigest()[:16]
    if not binary.exists():
        say(f"{program.name}: Soufflé compiles it")
        with tempfile.TemporaryDirectory(dir=BINARIES) as unfinished:
            made = os.path.join(unfinished, binary.name)
            subprocess.run([compiler, "-w", f"-j{cpus()}", "-o", made, str(program)], check=True, capture_output=True)
            os.replace(made, binary)
    return str(binary)


def includes(program: Path) -> bool:
    """True if a program includes files."""
    return re.search(r"(?m)^\s*[.#]\s*include\b", program.read_text()) is not None
