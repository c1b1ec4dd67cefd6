"""The package as others get it: what the archives hold, what the index shows, and that it works elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from jrh_mlflow.tracking.mlflow_server import folder_uri
from tests import new_stores
from tests.servers import free_port
from tests.waiting import wait_until

ROOT = Path(__file__).parent.parent
LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info", "build", "dist", "demo", "_build"
)
"""What a fresh clone has not; all else is offered to the build, and must be left out by it where it is no part."""
BESIDE = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml")
MADE = ("PKG-INFO", ".gitignore")
"""What the builder adds: the second so that a wheel made of the archive leaves out the same files."""
DATA = {".css", ".csv", ".html", ".js", ".json", ".svg", ".txt", ".xz", ".yaml", ".yml"}
"""Kinds of files of the package that are no Python; another kind is added here on purpose, or does not belong."""

BUILD = """
import os, shutil, sys
from pathlib import Path
from hatchling import build

folder = Path(sys.argv[1])
shutil.unpack_archive(folder / build.build_sdist(str(folder)), folder / "unpacked")
os.chdir(*(folder / "unpacked").iterdir())
build.build_wheel(str(folder))
"""
DEMO_AND_SERVER = """
import os, sys
import uvicorn
from jrh_mlflow import demo
from jrh_mlflow.cli import main
from jrh_mlflow.tracking import mlflow_server

demo.JUDGES, demo.TESTS = ("Llama8B", "Qwen32B"), ("markdown", "typos")
sys.argv = ["jrh", "demo", "--quick"]
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code

from mlflow import cli, server

def be_uvicorn(command, *, extra_env, **_):
    os.environ.update(extra_env)
    sys.argv = [uvicorn.__file__, *command[3:]]
    uvicorn.main(command[3:])

server._exec_cmd = be_uvicorn
os.environ.update(mlflow_server.server_environment())
command = mlflow_server.server_command("demo", port=int(os.environ["PORT"]))
cli.cli([*command[3:], "--app-name", "jrh"], prog_name="mlflow")
"""
"""The demo, then MLflow's server on its store: one process, which imports everything once."""


@dataclass(frozen=True)
class Built:
    """The archives, made as the index gets them: the wheel out of the source archive."""

    sdist: Path
    wheel: Path

    def in_wheel(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}

    def read(self, name: str) -> str:
        with zipfile.ZipFile(self.wheel) as wheel:
            (found,) = (each for each in wheel.namelist() if each.endswith(f".dist-info/{name}"))
            return wheel.read(found).decode()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    source = shutil.copytree(ROOT, folder / "source", ignore=LEFT_BEHIND)
    _run(sys.executable, "-c", BUILD, folder, cwd=source)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


@pytest.fixture(scope="module")
def metadata(built: Built) -> Message:
    return message_from_string(built.read("METADATA"))


@pytest.fixture(scope="module")
def bin_of_wheel(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of an environment with the wheel in it, which shares only the requirements with the one of the tests."""
    folder = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    site = _run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # A path alone: files `.pth` in that folder, such as that of an editable installation, are not read.
    Path(site, "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = ("install", "--quiet", "--no-index", "--no-deps", "--no-compile", built.wheel)
    _run(sys.executable, "-m", "pip", "--python", python, *install, cwd=folder)
    return folder / "bin"


def _run(*command: str | Path, cwd: Path) -> str:
    """Run a program that knows nothing of the checkout; return what it printed."""
    done = subprocess.run(command, cwd=cwd, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MLFLOW_TRACKING_URI")}


def package_files() -> set[str]:
    files = (path for path in (ROOT / "jrh_mlflow").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in files}


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(built: Built) -> None:
    files = {name for name in built.in_wheel() if ".dist-info/" not in name}
    assert files == package_files()
    assert {name for name in files if not name.endswith(".py") and Path(name).suffix not in DATA} == {
        "jrh_mlflow/py.typed"
    }


def test_the_source_archive_holds_the_package_and_the_files_beside_it_and_nothing_else(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        files = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert files == {*package_files(), *BESIDE, *MADE}


def test_the_index_is_told_license_pythons_extras_and_addresses(metadata: Message) -> None:
    assert metadata["License-Expression"] == "Apache-2.0"
    classifiers = metadata.get_all("Classifier", [])
    assert not [one for one in classifiers if one.startswith("License ::")], "PEP 639: the expression says it"
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 14)} <= set(classifiers)
    assert metadata["Requires-Python"] == ">=3.10"
    assert set(metadata.get_all("Provides-Extra", [])) >= {"postgres", "inspect", "align", "excel", "ray"}
    urls = dict(str(line).split(", ") for line in metadata.get_all("Project-URL", []))
    assert urls.keys() == {"Homepage", "Documentation", "Changelog", "Issues", "Source"}
    assert all(url.startswith(urls["Source"]) for url in urls.values())


def test_links_and_pictures_of_the_description_lead_to_files_of_this_version(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown = MarkdownIt("commonmark").enable("table").render(str(metadata.get_payload()))
    # Not of texts that only look like an address: the parser says what is one.
    addresses = re.findall(r'(?:href|src)="([^"]+)"', shown)
    assert len(addresses) > 10
    assert [address for address in addresses if not address.startswith(("https://", "http://127.0.0.1", "#"))] == []
    ours = [address for address in addresses if f"/v{metadata['Version']}/" in address]
    assert ours
    for address in ours:
        path = address.partition(f"/v{metadata['Version']}/")[2].partition("#")[0]
        assert (ROOT / path).exists(), address


def test_commands_and_pages_are_entry_points(built: Built) -> None:
    told = built.read("entry_points.txt")
    assert "jrh = jrh_mlflow.cli:main" in told
    assert re.search(r"\[mlflow\.app\]\s+jrh = jrh_mlflow\.\S+:create_app", told)


def test_it_is_imported_from_where_it_was_installed(bin_of_wheel: Path, metadata: Message, tmp_path: Path) -> None:
    asked = "import jrh_mlflow as jrh; print(jrh.__file__, jrh.__version__)"
    file, version = _run(bin_of_wheel / "python", "-c", asked, cwd=tmp_path).split()
    assert bin_of_wheel.parent in Path(file).parents
    assert version == metadata["Version"]
    assert _run(bin_of_wheel / "jrh", "--version", cwd=tmp_path) == f"jrh, version {version}\n"


@dataclass(frozen=True)
class Demo:
    """What it printed, and where its store is served."""

    printed: str
    url: str


@pytest.fixture(scope="module")
def demo(bin_of_wheel: Path, store_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """In a folder whose store has its tables: `store_uri` made the ones that are copied."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "demo").mkdir()
    (folder / "demo" / "mlflow.db").touch()
    new_stores.make_tables(folder_uri(folder / "demo"))
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [bin_of_wheel / "python", "-c", DEMO_AND_SERVER]
    with (folder / "log").open("wb") as log:
        variables = {**_environment(), "PORT": str(port)}
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=log, stderr=log)
        try:
            wait_until(lambda: process.poll() is not None or _answers(f"{url}/health"))
            yield Demo((folder / "log").read_text(encoding="utf-8"), url)
        finally:
            process.terminate()
            process.wait()


def _answers(url: str) -> bool:
    try:
        return bool(_page(url))
    except OSError:
        return False


def _page(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=120) as answer:
        return str(answer.read().decode())


@pytest.mark.slow
def test_the_demo_runs_from_it(demo: Demo) -> None:
    assert re.search(r"dark current +\d\.\d\d \[", demo.printed), demo.printed
    assert "What was found" in demo.printed


@pytest.mark.slow
def test_the_pages_beside_mlflow_are_found_and_show_the_judges_of_the_demo(demo: Demo) -> None:
    judge = re.search(r'href="(datasheet/[0-9a-f]{32})"[^>]*>Qwen32B', _page(f"{demo.url}/jrh/"))
    assert judge
    assert "dark current" in _page(f"{demo.url}/jrh/{judge[1]}").lower()
