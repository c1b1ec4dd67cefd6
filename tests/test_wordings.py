"""A sentence of the product is asserted in one test file, that of the room that makes it.

Elsewhere tests look at states, numbers and keys: who changes a sentence changes one test file with it.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

TESTS = Path(__file__).parent
N_WORDS = 5
"""In a row, letters only. Fewer are a key, a head, a name or a command."""
WORD = r"[A-Za-z]+(?:'[a-z]+)?(?![\w/@=\[(`{<-]|\.\w)"
ROW = re.compile(rf"(?<![^\s\"'(*]){WORD}(?:\\?[,;:.]? {WORD}){{{N_WORDS - 1},}}")
CODE = re.compile(r"`[^`\n]*`")
DOCSTRING = re.compile(r"^\s*\"{3}.*?\"{3}", re.MULTILINE | re.DOTALL)
LINE_END = re.compile(r"\"\s*\n\s*[fr]*\"")
"""Between the parts of a string that is written on several lines."""
LITERAL = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
BLOCK = re.compile(r"^(?=@|def |async def |class |[A-Z]\w* = |[A-Z]\w*: )", re.MULTILINE)
LOOKING = re.compile(r"\b(startswith|endswith|match|fullmatch|search|findall|escape|count|index|find|set|list)$")
"""Calls inside an `assert` whose argument is held against the product, and not given to it."""
Places = dict[str, set[str]]


def phrases(text: str) -> Iterator[str]:
    """Each five words that follow one another, in lower case and without punctuation."""
    for row in ROW.findall(text):
        words = re.findall(r"[a-z']+", row.lower())
        yield from (" ".join(words[start : start + N_WORDS]) for start in range(len(words) - N_WORDS + 1))


def rough_phrases(source: str) -> set[str]:
    """Phrases of the strings of a file, without parsing it: only blocks with one that another file has are parsed."""
    literals = LITERAL.findall(LINE_END.sub("", DOCSTRING.sub("", source)))
    long = (text.replace(r"\n", " ") for text in literals if text.count(" ") >= N_WORDS - 1)
    return {phrase for text in long for phrase in phrases(text)}


def blocks(source: str) -> Iterator[str]:
    """The functions, classes and constants of a file, with their decorators."""
    decorators = ""
    for block in BLOCK.split(source):
        decorators += block
        if not block.startswith("@"):
            yield decorators
            decorators = ""


def strings(nodes: set[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield CODE.sub("`", node.value)


def below(*nodes: ast.AST) -> set[ast.AST]:
    return {part for node in nodes for part in ast.walk(node)}


def held(tree: ast.AST) -> set[ast.AST]:
    """What a test holds against the product: `assert`, `match=`, and the columns and texts that are read there only."""
    nodes = list(ast.walk(tree))
    found = below(*(node.test for node in nodes if isinstance(node, ast.Assert)))
    found -= below(*(argument for node in found if isinstance(node, ast.Call) for argument in _given(node)))
    found |= below(*(node for node in nodes if isinstance(node, ast.keyword) and node.arg == "match"))
    for function in nodes:
        if isinstance(function, ast.FunctionDef):
            for call in function.decorator_list:
                found |= below(*_held_cells(function, call, found))
            found |= below(*_held_values(function, found))
    return found


def _given(call: ast.Call) -> Iterator[ast.AST]:
    """The arguments that a call inside an `assert` gives to the product."""
    if not LOOKING.search(ast.unparse(call.func)):
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        yield from (
            argument for argument in arguments if not any(isinstance(node, ast.Compare) for node in below(argument))
        )


def _held_values(function: ast.FunctionDef, found: set[ast.AST]) -> Iterator[ast.AST]:
    nodes = below(*function.body)
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = any(isinstance(part, ast.Call) for part in below(node.value))
            if not made and only_in(node.targets[0].id, nodes, found):
                yield node.value


def _held_cells(function: ast.FunctionDef, call: ast.expr, found: set[ast.AST]) -> Iterator[ast.AST]:
    if not (isinstance(call, ast.Call) and ast.unparse(call.func).endswith("parametrize") and len(call.args) > 1):
        return
    first = call.args[0]
    parts = first.elts if isinstance(first, ast.Tuple | ast.List) else [first]
    names = [name.strip() for part in parts if isinstance(part, ast.Constant) for name in str(part.value).split(",")]
    for row in getattr(call.args[1], "elts", ()):
        cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row]) if len(names) > 1 else [row]
        for name, cell in zip(names, cells, strict=False):
            if only_in(name, below(*function.body), found):
                yield cell


def only_in(name: str, nodes: set[ast.AST], found: set[ast.AST]) -> bool:
    """Whether `name` is read among `nodes`, and nowhere but in what is held against the product."""
    uses = {node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)}
    return bool(uses) and uses <= found


def asserted(source: str, shared: set[str]) -> Places:
    """Phrases of `shared` that a file asserts, with the tests; not those that it gave to the product itself."""
    try:
        return _asserted(list(blocks(source)), shared)
    except SyntaxError:  # A text on several lines holds what looks like the beginning of a block.
        return _asserted([source], shared)


def _asserted(whole: list[str], shared: set[str]) -> Places:
    trees = {block: ast.parse(block) for block in whole if not shared.isdisjoint(rough_phrases(block))}
    places: Places = defaultdict(set)
    given: set[str] = set()
    for tree in trees.values():
        found = held(tree)
        for top in tree.body:
            expected = found & below(top) | (below(top) if _constant_is_held(top, whole) else set())
            for phrase in {phrase for text in strings(expected) for phrase in phrases(text)} & shared:
                places[phrase].add(getattr(top, "name", "a constant"))
            docstrings = {node.value for node in below(top) if isinstance(node, ast.Expr)}
            given |= {phrase for text in strings(below(top) - expected - docstrings) for phrase in phrases(text)}
    return {phrase: tests for phrase, tests in places.items() if phrase not in given}


def _constant_is_held(top: ast.stmt, whole: list[str]) -> bool:
    if not (isinstance(top, ast.Assign) and isinstance(top.targets[0], ast.Name)):
        return False
    name = top.targets[0].id
    users = [ast.parse(block) for block in whole if re.search(rf"\b{name}\b", block)]
    return only_in(name, below(*users), {node for tree in users for node in held(tree)})


def repeated(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Phrases that more than one file asserts, with the tests of each."""
    files: Places = defaultdict(set)
    for path, source in sources.items():
        for phrase in rough_phrases(source):
            files[phrase].add(path)
    shared = {phrase for phrase, paths in files.items() if len(paths) > 1}
    found: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for path in sorted({path for phrase in shared for path in files[phrase]}):
        for phrase, tests in asserted(sources[path], shared).items():
            found[phrase][path] = tests
    return {
        phrase: [f"{path}: {', '.join(sorted(tests))}" for path, tests in paths.items()]
        for phrase, paths in found.items()
        if len(paths) > 1
    }


def test_a_sentence_is_asserted_in_one_test_file() -> None:
    paths = [path for path in sorted(TESTS.rglob("*.py")) if "benchmarks" not in path.parts]
    found = repeated({str(path.relative_to(TESTS.parent)): path.read_text(encoding="utf-8") for path in paths})
    lines = [f"{phrase!r}\n    " + "\n    ".join(places) for phrase, places in sorted(found.items())]
    assert not found, (
        "\n".join(lines) + "\nKeep a sentence in the test file of the room that makes it (`grep` the package; tests/ "
        "mirrors it). Elsewhere look at the number, key, class, exit code, field or name, or import what makes it."
    )


SENTENCE = "'x' is of no use here today"
HELD = {
    "assert": f'def test_a():\n    assert "{SENTENCE}" in line',
    "part of a text": f'def test_a():\n    assert line == f"{{name}}: {SENTENCE}, {{name}}"',
    "two lines": 'def test_a():\n    assert line == (\n        "x is of "\n        f"no use here today"\n    )',
    "call": f'def test_a():\n    assert line.startswith("{SENTENCE}")',
    "any": f'def test_a():\n    assert any("{SENTENCE}" in note for note in notes)',
    "match": f'def test_a():\n    with pytest.raises(ValueError, match=r"{SENTENCE}\\."):\n        pass',
    "table": f'@pytest.mark.parametrize("a, said", [(1, "{SENTENCE}")])\ndef test_a(a, said):\n    assert said in f(a)',
    "own text": f'def test_a():\n    whole = "{SENTENCE}"\n    assert str(f()) == whole',
    "constant": f'SAID = "{SENTENCE}"\n\n\ndef test_a():\n    assert f() == SAID',
}
FREE = {
    "input": f'def test_a():\n    assert ask("{SENTENCE}") == 1',
    "table": f'@pytest.mark.parametrize("a", ["{SENTENCE}"])\ndef test_a(a):\n    assert ask(a) == 1',
    "lines": f'LONG = """\\\ndef f():\n    pass\n"""\n\n\ndef test_a():\n    assert ask("{SENTENCE}", LONG)',
    "docstring": f'def test_a():\n    """{SENTENCE}"""\n    assert f()',
    "code": 'def test_a():\n    assert "`x is of no use here today`" in line',
    "keys": 'def test_a():\n    assert "is_of/no use-here --today" in line',
    "few words": 'def test_a():\n    assert "is of no use" in line',
}


@pytest.mark.parametrize("way", HELD)
def test_a_sentence_of_two_files_is_found_however_it_is_asserted(way: str) -> None:
    found = repeated({"one.py": HELD["assert"], "two.py": HELD[way]})
    assert found["of no use here today"] == [
        "one.py: test_a",
        f"two.py: {'a constant' if way == 'constant' else 'test_a'}",
    ]


@pytest.mark.parametrize("way", FREE)
def test_inputs_code_keys_and_docstrings_may_stand_in_several_files(way: str) -> None:
    assert repeated({"one.py": HELD["assert"], "two.py": dedent(FREE[way])}) == {}
