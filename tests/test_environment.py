"""An environment is made with uv, and with pip where uv cannot be had."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
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
    """An environment that was made before, with pip and setuptools of the tests' own: to unpack them takes seconds."""
    made, pip = tmp_path / "made", tmp_path / "pip"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made], check=True)
    pip.mkdir()
    for name in ("pip", "setuptools"):
        with suppress(PackageNotFoundError):
            for file in {path.parts[0] for path in distribution(name).files or () if path.parts[0].startswith(name)}:
                (pip / file).symlink_to(str(distribution(name).locate_file(file)))
    (site,) = made.glob("lib/python*/site-packages")
    (site / "pip.pth").write_text(f"{pip}\n", encoding="utf-8")
    return made


def made(folder: Path, requirement: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.environment", folder, requirement]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_where_uv_cannot_be_had_pip_installs_and_says_so_and_its_failure_is_the_commands(
    index: Path, folder: Path, tmp_path: Path
) -> None:
    there = made(folder, "frost")
    assert there.returncode == 0
    assert "uv could not install it: pip, which takes longer, tries." in there.stderr
    subprocess.run([folder / "bin" / "python", "-c", "import frost; assert frost.COLD"], check=True)
    # A pip that finds nothing, at once: the real one takes seconds to find nothing twice.
    (tmp_path / "pip" / "pip").unlink()
    (tmp_path / "pip" / "pip").mkdir()
    refusing = "import sys; sys.exit(f'No matching distribution found for {sys.argv[-1]}')\n"
    (tmp_path / "pip" / "pip" / "__main__.py").write_text(refusing, encoding="utf-8")
    missing = made(folder, "no-such-package")
    assert missing.returncode == 1
    assert "No matching distribution found for no-such-package" in missing.stderr
