"""Workers, in processes of their own."""

from pathlib import Path

import pytest


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where workers are started, and what is imported is looked for."""
    monkeypatch.chdir(tmp_path)
    # What is changed within a second of its being compiled would not be seen to have changed.
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    return tmp_path
