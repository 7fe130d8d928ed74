"""The release script refuses what is no release, and splits a library so that debuggers find the rest."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / ".ci" / "release"
sys.path.insert(0, str(RELEASE))

import checking  # noqa: E402
import packing  # noqa: E402
import targets  # noqa: E402

EPOCH = 1_700_000_000


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, RELEASE, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A directory with every file of a release, all of them empty."""
    for name in targets.expected("1.2.3"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_a_release_has_a_wheel_for_each_platform_and_flavour_with_its_debug_file() -> None:
    names = targets.expected("1.2.3")
    assert len(names) == 1 + 2 * 4 * 2
    assert "penstock-1.2.3.tar.gz" in names
    assert "penstock-1.2.3-cp311-abi3-musllinux_1_2_aarch64.whl" in names
    assert "penstock-1.2.3-cp314-cp314t-manylinux_2_28_x86_64.whl" in names
    assert "debug/penstock-1.2.3-cp311-abi3-manylinux_2_28_x86_64-debug.tar.xz" in names


def test_the_expected_files_are_a_release(whole: Path) -> None:
    (whole / checking.SUMS).touch()
    assert checking.files(whole, targets.expected("1.2.3")) == []


def test_a_missing_file_and_one_too_many_are_refused(whole: Path) -> None:
    wheel = "penstock-1.2.3-cp311-abi3-manylinux_2_28_aarch64.whl"
    (whole / wheel).rename(whole / "penstock-1.2.3-cp311-abi3-linux_aarch64.whl")
    assert checking.files(whole, targets.expected("1.2.3")) == [
        f"{wheel} is missing",
        "penstock-1.2.3-cp311-abi3-linux_aarch64.whl is no file of this release",
    ]


def test_the_command_refuses_an_empty_directory_and_writes_no_checksums(tmp_path: Path) -> None:
    done = run("--folder", tmp_path, "check")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == len(targets.expected(checking.version(ROOT)))
    assert all(line.startswith("release: ") and line.endswith(" is missing") for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the check of versions reads."""
    (tmp_path / "rust").mkdir()
    (tmp_path / "rust" / "Cargo.toml").write_text('[workspace.package]\nversion = "1.2.3"\n')
    lock = '[[package]]\nname = "penstock-http"\nversion = "1.2.3"\n[[package]]\nname = "tokio"\nversion = "1.0.0"\n'
    (tmp_path / "rust" / "Cargo.lock").write_text(lock)
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3] - 2026-11-26\n\n- Fixed it.\n")
    return tmp_path


def test_versions_that_agree_are_released(checkout: Path) -> None:
    assert checking.versions(checkout, "v1.2.3") == []


@pytest.mark.parametrize("tag", ["1.2.3", "v1.2.4", "v1.2.3rc1"])
def test_a_tag_of_another_version_is_refused(checkout: Path, tag: str) -> None:
    (line,) = checking.versions(checkout, tag)
    assert line == f"the tag is {tag}, and rust/Cargo.toml has 1.2.3: the tag of that is v1.2.3"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            "## [Unreleased]\n\n## [1.2.2] - 2026-11-26\n",
            "CHANGELOG.md has no line '## [1.2.3] - YYYY-MM-DD'",
        ),
        ("## [1.2.3]\n", "CHANGELOG.md has no line '## [1.2.3] - YYYY-MM-DD'"),
        (
            "## [Unreleased]\n\n- Added it.\n\n## [1.2.3] - 2026-11-26\n",
            "CHANGELOG.md has changes under [Unreleased]: move them to [1.2.3]",
        ),
    ],
)
def test_a_changelog_without_the_version_is_refused(checkout: Path, changes: str, says: str) -> None:
    (checkout / "CHANGELOG.md").write_text(changes)
    assert checking.versions(checkout, "v1.2.3") == [says]
    assert checking.versions(checkout, None) == []


def test_a_lock_file_of_another_version_is_refused(checkout: Path) -> None:
    lock = checkout / "rust" / "Cargo.lock"
    lock.write_text(lock.read_text().replace("1.2.3", "1.2.2"))
    (line,) = checking.versions(checkout, None)
    assert line.startswith("rust/Cargo.lock has penstock-http 1.2.2, and rust/Cargo.toml 1.2.3")


def test_this_checkout_has_one_version() -> None:
    assert checking.versions(ROOT, None) == []


def library(folder: Path, *, padding: int = 0) -> Path:
    """A small library with debug information and the linker's build id, in the place of the engine."""
    source, built = folder / "a.c", folder / "a.so"
    source.write_text(
        f"static const char pad[{padding + 1}] = {{1}};\nint f(int i) {{ return pad[i] + 1; }}\n"
    )
    options = ["-g", "-shared", "-fPIC", "-Wl,--build-id=sha1", f"-fdebug-prefix-map={folder.parent}=/there"]
    subprocess.run(["cc", *options, "-o", built, source], cwd=folder, check=True)
    return built


def wheel(folder: Path, content: bytes) -> Path:
    """A wheel as maturin leaves it, so far as the check reads it."""
    path = folder / "penstock-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl"
    info = "penstock-1.2.3.dist-info"
    files = {
        "penstock/_native.abi3.so": content,
        "penstock/py.typed": b"",
        "penstock/_native.pyi": b"",
        "penstock/demo/media/init.mp4": b"",
        f"{info}/licenses/LICENSE": b"",
        f"{info}/sboms/penstock-python.cyclonedx.json": f'{{"ref": "path+file://{folder}/rust"}}'.encode(),
        f"{info}/entry_points.txt": b"",
    }
    record = "".join(f"{name},sha256=x,{len(data)}\n" for name, data in files.items())
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 26, 0, 0, 0)), data)
    return path


@pytest.fixture
def cc() -> None:
    if shutil.which("cc") is None or shutil.which("rustc") is None:
        pytest.skip("needs a C compiler and rustc, which has the program that splits")


@pytest.mark.usefixtures("cc")
def test_a_wheel_is_stripped_and_its_debug_file_found_by_the_build_id(tmp_path: Path) -> None:
    built = wheel(tmp_path, library(tmp_path).read_bytes())
    (said,) = checking.contents(built)
    assert said.endswith("has debug information")
    out, debug = tmp_path / "out" / built.name, tmp_path / "out" / "debug" / "d.tar.xz"
    out.parent.mkdir()
    packing.repack(built, out, debug, tmp_path, EPOCH)
    assert checking.contents(out) == []
    with zipfile.ZipFile(out) as archive:
        stripped = archive.read("penstock/_native.abi3.so")
        sbom = archive.read("penstock-1.2.3.dist-info/sboms/penstock-python.cyclonedx.json")
        archive.extractall(tmp_path / "installed")
    assert sbom == b'{"ref": "path+file:///penstock/rust"}'
    made = stripped[packing.build_id(stripped)].hex()
    with tarfile.open(debug) as archive:
        (member,) = archive.getmembers()
        assert member.name == f".build-id/{made[:2]}/{made[2:]}.debug"
        information = archive.extractfile(member)
        assert information is not None
        content = information.read()
    assert content[packing.build_id(content)].hex() == made
    assert b".debug_info\0" in content
    # What was stripped still loads.
    code = f"import ctypes; print(ctypes.CDLL({str(tmp_path / 'installed/penstock/_native.abi3.so')!r}).f(0))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"2\n"


@pytest.mark.usefixtures("cc")
def test_the_same_code_gives_the_same_wheel_in_another_directory(tmp_path: Path) -> None:
    made = []
    for name in ("one", "another-directory"):
        folder = tmp_path / name
        folder.mkdir()
        built = wheel(folder, library(folder).read_bytes())
        packing.repack(built, folder / "out.whl", folder / "debug.tar.xz", folder, EPOCH)
        made.append((folder / "out.whl").read_bytes())
    assert made[0] == made[1]


@pytest.mark.usefixtures("cc")
def test_a_wheel_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = wheel(tmp_path, library(tmp_path).read_bytes())
    monkeypatch.setattr(checking, "MOST_BYTES", 1000)
    assert f"{built.name} has {built.stat().st_size} bytes: at most 1000 are allowed" in checking.contents(
        built
    )


def test_a_wheel_without_its_list_of_dependencies_is_refused(tmp_path: Path) -> None:
    built = tmp_path / "penstock-1.2.3-cp311-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(built, "w") as archive:
        archive.writestr("penstock-1.2.3.dist-info/RECORD", "penstock-1.2.3.dist-info/RECORD,,\nother.py,,\n")
    said = checking.contents(built)
    assert any("cyclonedx" in line for line in said)
    assert f"RECORD of {built.name} names other files than there are" in said


def test_a_library_without_a_build_id_is_refused() -> None:
    with pytest.raises(ValueError, match="the library has 0 build ids"):
        packing.build_id(b"\x7fELF")


def test_checksums_are_those_that_sha256sum_reads(whole: Path) -> None:
    names = targets.expected("1.2.3")
    (whole / checking.SUMS).write_text(checking.sums(whole, names))
    done = subprocess.run(["sha256sum", "--check", "--quiet", checking.SUMS], cwd=whole, check=False)
    assert done.returncode == 0


def test_the_workflow_calls_the_script_and_decides_nothing() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    uses = [line.split("uses:")[1].strip() for line in text.splitlines() if "uses:" in line]
    assert uses
    for one in uses:
        action, _, rest = one.partition("@")
        revision, _, version = rest.partition(" # ")
        assert len(revision) == 40, f"{action} is not named by a hash"
        assert version.startswith("v")
    for where in targets.PLATFORMS:
        assert f"platform: {where.triple}\n" in text
    assert ".ci/release check --tag" in text
