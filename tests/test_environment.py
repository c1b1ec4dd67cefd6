"""An environment is made with uv, and with pip where uv cannot be had."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index of one package, which pip's settings name; it has no uv."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / "frost-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("frost.py", "COLD = True\n")
        wheel.writestr("frost-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: frost\nVersion: 1.0\n")
        wheel.writestr("frost-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("frost-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An environment that was made before, with the pip of the one of the tests: to unpack one takes seconds."""
    made, pip = tmp_path / "made", tmp_path / "pip"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    pip.mkdir()
    for file in {path.parts[0] for path in distribution("pip").files or () if path.parts[0].startswith("pip")}:
        (pip / file).symlink_to(str(distribution("pip").locate_file(file)))
    (site,) = made.glob("lib/python*/site-packages")
    (site / "pip.pth").write_text(f"{pip}\n", encoding="utf-8")
    return made


def test_where_uv_cannot_be_had_pip_installs_and_says_so_and_its_failure_is_the_commands(
    index: Path, folder: Path
) -> None:
    def made(requirement: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.environment", folder, requirement]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    there, missing = made("frost"), made("no-such-package")
    assert there.returncode == 0
    assert "uv could not install it: pip, which takes longer, tries." in there.stderr
    subprocess.run([folder / "bin" / "python", "-c", "import frost; assert frost.COLD"], check=True)
    assert missing.returncode == 1
    assert "No matching distribution found for no-such-package" in missing.stderr
