"""Runs the wheel for aarch64 and glibc of dist/ on this machine, by qemu's emulation: `make test-aarch64`.

Debian's Python for aarch64 is unpacked, not installed, and pip unpacks the wheel and what it requires. Then
`penstock serve` relays, answers from its cache, and ends at SIGTERM. `make release` has built the wheel.

python run.py [DIRECTORY]       where Python and the packages are kept; takes mmdebstrap and qemu-user-static
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from penstock.testing import ScriptedOrigin, respond

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.client import RawClient, answer  # noqa: E402
from support.command import serve  # noqa: E402

SUITE: Final = "bookworm"
PYTHON: Final = "3.11"
EMULATOR: Final = "qemu-aarch64-static"
BODY: Final = bytes(range(256)) * 256


def run(*command: str | Path) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} ...: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")


def unpacked(work: Path) -> Path:
    """Debian's Python for aarch64. Nothing of it is run meanwhile, as an installation would."""
    root = work / "root"
    if not root.exists():
        packages = f"--include=python{PYTHON},libpython{PYTHON}-stdlib"
        run("mmdebstrap", "--variant=extract", "--architectures=arm64", packages, SUITE, root)
    return root


def packages(work: Path, wheel: Path) -> Path:
    """The wheel and what it requires, for that Python."""
    target = work / "packages"
    shutil.rmtree(target, ignore_errors=True)
    abis = (f"--abi=cp{PYTHON.replace('.', '')}", "--abi=abi3", "--abi=none")
    platforms = [
        f"--platform={name}_aarch64" for name in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    ]
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-compile")
    run(
        *pip,
        "--only-binary=:all:",
        f"--python-version={PYTHON}",
        *abis,
        *platforms,
        f"--target={target}",
        wheel,
    )
    return target


async def relayed(command: tuple[str, ...], environment: dict[str, str]) -> None:
    fields = ("Cache-Control: max-age=60", f"Content-Length: {len(BODY)}")
    async with (
        ScriptedOrigin(respond(answer(*fields, body=BODY))) as origin,
        serve("--origin", origin.url, "--cache=8MiB", command=command, environment=environment) as running,
    ):
        client = await RawClient.connect(running.port)
        for result in ("miss", "hit"):
            reply = await client.ask("/segment")
            assert reply.body == BODY
            assert result in str(reply.head.one("Cache-Status")), reply.head
        client.abort()
        running.process.terminate()
        assert await running.ended() == 0, running.log()


def main(work: Path) -> None:
    for program, package in (("mmdebstrap", "mmdebstrap"), (EMULATOR, "qemu-user-static")):
        if shutil.which(program) is None:
            sys.exit(f"run.py: {program} is not found: apt-get install {package}")
    wheels = list((ROOT / "dist").glob("*-abi3-manylinux*_aarch64.whl"))
    if len(wheels) != 1:
        sys.exit("run.py: there is no wheel for aarch64 in dist/: make release")
    work.mkdir(parents=True, exist_ok=True)
    root = unpacked(work)
    python = root / "usr" / "bin" / f"python{PYTHON}"
    command = (EMULATOR, "-L", str(root), str(python), "-m", "penstock")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(work),
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": str(packages(work, wheels[0])),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    said = subprocess.run(
        [*command, "--version"], env=environment, capture_output=True, text=True, check=True
    )
    asyncio.run(relayed(command, environment))
    print(f"{said.stdout.strip()} of {wheels[0].name} relayed 64 KiB and answered from its cache")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.gettempdir()) / "penstock-aarch64")
