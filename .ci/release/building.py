"""Builds wheels and the source distribution, so that one commit gives the same bytes in any directory."""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import packing
import targets

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "build_backend"))

import penstock_profile  # noqa: E402


def epoch() -> int:
    """The time that every file of a release bears: SOURCE_DATE_EPOCH, or that of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(asked.stdout)


def _environment(target: str) -> dict[str, str]:
    """That of the compilers: no path of this machine gets into what they write."""
    crates = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "registry" / "src"
    # zig, which links for an old libc and for other architectures, is a package of this environment.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    flags = [f"--remap-path-prefix={ROOT}={packing.CHECKOUT}", f"--remap-path-prefix={crates}=/cargo"]
    flags.append("-Clink-arg=-Wl,--build-id=sha1")
    if target:
        flags += penstock_profile.flags(target, penstock_profile.compiler()[1])
    return os.environ | {
        "PATH": path,
        "SOURCE_DATE_EPOCH": str(epoch()),
        "RUSTFLAGS": " ".join(flags),
        "CFLAGS": f"-ffile-prefix-map={crates}=/cargo",
    }


def _maturin(*arguments: str | Path, target: str = "") -> None:
    """Run maturin; with a target, by its recorded profile."""
    subprocess.run(
        [Path(sys.executable).with_name("maturin"), *arguments],
        cwd=ROOT,
        env=_environment(target),
        check=True,
    )


def wheel(flavour: targets.Flavour, where: targets.Platform, version: str, out: Path) -> Path:
    """Leave a wheel in `out`, and its debug information in `out`/debug.

    Raises:
        RuntimeError: maturin has named the wheel in another way than the list of a release does.
    """
    name = targets.wheel(version, flavour, where)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        options = ["--zig", "--target", where.triple, "--compatibility", where.policy, *flavour.options]
        if where.triple == penstock_profile.compiler()[0]:
            # maturin turns this off for zig. Functions would then have other names than in the recorded profile, which
            # would not apply to them.
            options += ["--config", "target-applies-to-host=true"]
        build = ("build", "--release", "--quiet", "--locked", "--out", folder)
        _maturin(*build, *options, target=where.triple)
        (built,) = Path(folder).glob("*.whl")
        if built.name != name:
            raise RuntimeError(f"maturin has built {built.name}, and not {name}")
        packing.repack(built, out / name, out / "debug" / targets.debug_file(name), ROOT, epoch())
    return out / name


def sdist(out: Path) -> Path:
    """Leave the source distribution in `out`."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        _maturin("sdist", "--out", folder)
        (built,) = Path(folder).glob("*.tar.gz")
        out.mkdir(parents=True, exist_ok=True)
        (out / built.name).write_bytes(built.read_bytes())
    return out / built.name


def twice(version: str) -> list[str]:
    """Build this machine's abi3 wheel of the last commit in two directories; how the two differ."""
    where = targets.local()
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        # Of unequal length: a path that is left in the library would move what follows it.
        for name in ("one", "another-directory"):
            checkout = Path(folder) / name
            subprocess.run(["git", "clone", "--quiet", ROOT, checkout], check=True)
            subprocess.run([sys.executable, checkout / ".ci" / "release", "build", "--abi3-only"], check=True)
            made.append(checkout / "dist")
        name = targets.wheel(version, targets.ABI3, where)
        names = [name, f"debug/{targets.debug_file(name)}"]
        return [
            f"{name} differs by directory"
            for name in names
            if len({(at / name).read_bytes() for at in made}) > 1
        ]


def offline(folder: Path) -> list[str]:
    """Build a wheel from the source distribution where there is no network; what went wrong.

    The crates that its Cargo.lock names are fetched before. A namespace without a network shows that nothing else is.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-", dir=folder) as name:
        packed = sdist(Path(name))
        with tarfile.open(packed) as archive:
            archive.extractall(name, filter="data")
        source = Path(name) / packed.name.removesuffix(".tar.gz")
        manifest = source / "rust" / "Cargo.toml"
        subprocess.run(["cargo", "fetch", "--quiet", "--locked", "--manifest-path", manifest], check=True)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            "--no-index",
            "-w",
            name,
        ]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"CARGO_NET_OFFLINE": "true", "PATH": path}
        done = subprocess.run(
            ["unshare", "--map-root-user", "--net", *pip, source], env=environment, check=False
        )
        wheels = list(Path(name).glob("*.whl"))
    return (
        []
        if done.returncode == 0 and len(wheels) == 1
        else ["the source distribution does not build offline"]
    )
