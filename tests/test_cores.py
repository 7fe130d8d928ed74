"""How many engine threads an engine has by default."""

import os
from pathlib import Path

import pytest

from penstock._cores import engine_threads, usable_cores


def group(root: Path, path: str, name: str, text: str) -> None:
    folder = root / path
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))


@pytest.mark.parametrize(
    ("own", "parent", "cores"),
    [
        ("max 100000", "max 100000", 16),
        ("400000 100000", "max 100000", 4),
        ("max 100000", "250000 100000", 2),
        ("50000 100000", "max 100000", 1),
        ("nonsense", "max 100000", 16),
    ],
)
@pytest.mark.usefixtures("many")
def test_the_smallest_quota_on_the_way_up_counts(tmp_path: Path, own: str, parent: str, cores: int) -> None:
    group(tmp_path, "pods/one", "cpu.max", own)
    group(tmp_path, "pods", "cpu.max", parent)
    membership = tmp_path / "membership"
    membership.write_text("0::/pods/one\n")
    assert usable_cores(tmp_path, membership) == cores


@pytest.mark.usefixtures("many")
def test_the_first_version_of_control_groups(tmp_path: Path) -> None:
    group(tmp_path, "cpu,cpuacct/one", "cpu.cfs_quota_us", "300000\n")
    group(tmp_path, "cpu,cpuacct/one", "cpu.cfs_period_us", "100000\n")
    membership = tmp_path / "membership"
    membership.write_text("5:memory:/one\n4:cpu,cpuacct:/one\n")
    assert usable_cores(tmp_path, membership) == 3


@pytest.mark.usefixtures("many")
def test_in_a_container_the_group_is_mounted_at_the_root(tmp_path: Path) -> None:
    group(tmp_path, ".", "cpu.max", "200000 100000")
    membership = tmp_path / "membership"
    membership.write_text("0::/kubepods/of/the/host\n")
    assert usable_cores(tmp_path, membership) == 2


def test_without_control_groups_the_affinity_counts(tmp_path: Path) -> None:
    assert usable_cores(tmp_path, tmp_path / "none") == len(os.sched_getaffinity(0))


def test_one_core_is_left_to_the_event_loop() -> None:
    assert engine_threads() == max(1, usable_cores() - 1)
