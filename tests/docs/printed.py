"""A page's blocks, run as they are printed: in their order, in one folder and one namespace.

A test module of this folder names its page as `PAGE` and calls `Printed(PAGE, world, …).run()`;
`test_every_block_is_run.py` holds that every page with code has one.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import itertools
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jrh_mlflow.cli.main import group
from tests.docs.blocks import Block, blocks
from tests.docs.elsewhere import elsewhere
from tests.docs.world import World
from tests.new_stores import forget_relative

Reader = Callable[[Path], object]
"""Reads a file of the page, as the command does that takes it."""
Word = str | Sequence[str] | Callable[[dict[str, Any]], str]


class Printed:
    """The blocks of one page.

    `names` is what Python blocks take for granted; one that begins with `# NAME.py` is that file, too. `words`
    stands for words of commands, such as the id of a run; a list gives the first, second, … time that a word stands
    in one command, and a function of the names is asked when the command is run. `exits` are exit codes other than
    0, by how the command begins. `readers` read the YAML, TOML and JSON blocks, in their order; a name takes the
    block's place in the folder. With `shown` a `text` block is the output of the code before it, where `…` stands
    for anything.
    """

    def __init__(
        self,
        page: str,
        world: World,
        *,
        names: Mapping[str, Any] | None = None,
        words: Mapping[str, Word] | None = None,
        exits: Mapping[str, int] | None = None,
        readers: Sequence[tuple[str, Reader]] = (),
        shown: bool = False,
    ) -> None:
        self.page, self.world, self.words, self.exits, self.shown = page, world, words or {}, exits or {}, shown
        self.names: dict[str, Any] = dict(names or {})
        self.readers = list(readers)
        self.output = ""
        """Of the last block that was run."""
        self.commands: list[str] = []
        """Commands that were run in place."""
        self.outputs: dict[str, str] = {}
        """What each of them printed."""

    def run(self) -> Printed:
        """Run every block; a language that is neither code nor output fails."""
        with self._entered():
            for block in blocks(self.page):
                runner = getattr(self, f"_run_{block.language}", None)
                assert runner is not None, f"{block} is {block.language!r}: no code and no output."
                runner(block)
        assert not self.readers, f"No block of {self.page} is left for {self.readers}."
        return self

    def run_commands(self, heading: str, begin: str = "") -> Printed:
        """Run the commands under a heading that begin with these words, and nothing else of the page."""
        chosen = [
            (block, command)
            for block in blocks(self.page)
            if (block.heading, block.language) == (heading, "sh")
            for command in _commands(block.text)
            if command.startswith(begin)
        ]
        assert chosen, f"{self.page} has no command {begin!r} under {heading!r}."
        with self._entered():
            self.output = "".join(self._run_command(block, command) for block, command in chosen)
        return self

    def printed(self, begin: str) -> str:
        """Return what the one command printed that begins with these words."""
        [output] = [output for command, output in self.outputs.items() if command.startswith(begin)]
        return output

    @contextlib.contextmanager
    def _entered(self) -> Iterator[None]:
        forget_relative()
        with pytest.MonkeyPatch.context() as self._patch:
            self.world.enter(self._patch)
            yield

    def _run_text(self, block: Block) -> None:
        if self.shown:
            want = re.sub(r"…", "...", block.text)
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            same = doctest.OutputChecker().check_output(want, self.output, flags)
            assert same, f"{block} shows\n{block.text}\nand it was\n{self.output}"

    def _run_python(self, block: Block) -> None:
        if name := re.match(r"# (\w+\.py)\n", block.text):
            Path(name[1]).write_text(block.text, encoding="utf-8")
        # Lines before it are empty, so that a traceback names the line of the page.
        code = compile("\n" * (block.line - 1) + block.text, block.page, "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(code, self.names)
        self.output = output.getvalue()

    def _run_yaml(self, block: Block) -> None:
        assert self.readers, f"Nobody reads {block}."
        name, read = self.readers.pop(0)
        Path(name).write_text(block.text, encoding="utf-8")
        read(Path(name))

    _run_toml = _run_json = _run_yaml

    def _run_sh(self, block: Block) -> None:
        self.output = "".join(self._run_command(block, command) for command in _commands(block.text))

    def _run_command(self, block: Block, command: str) -> str:
        if elsewhere(command):
            program, *arguments = shlex.split(command)
            if program in ("jrh", ".venv/bin/jrh"):
                self._parse(block, arguments)
            return ""
        command = self._filled(command)
        words, _, file = command.partition(" > ")
        arguments = shlex.split(words)
        while re.match(r"[A-Z_]+=", arguments[0]):
            self._set(arguments.pop(0))
        if arguments[0] == "export":
            self._set(arguments[1])
            return ""
        done = self._run_jrh(arguments[1:]) if arguments[0] == "jrh" else _run_other(arguments)
        self.commands.append(command)
        self.outputs[command] = done[1]
        code = next((code for begin, code in self.exits.items() if command.startswith(begin)), 0)
        assert done[0] == code, f"{block}: {command} ended with {done[0]}\n{done[1]}"
        if file:
            Path(file.strip()).write_text(done[1], encoding="utf-8")
        return "" if file else done[1]

    def _set(self, variable: str) -> None:
        name, _, value = variable.partition("=")
        if value != "…":  # what a reader fills in is there already
            self._patch.setenv(name, value)

    def _filled(self, command: str) -> str:
        for word, value in self.words.items():
            pattern = re.compile(rf"(?<![\w/.-]){re.escape(word)}(?![\w-])")
            if pattern.search(command):
                filled = value(self.names) if callable(value) else value
                values = itertools.repeat(filled) if isinstance(filled, str) else iter(filled)
                command = pattern.sub(lambda _, values=values: next(values), command)
        return command

    @staticmethod
    def _run_jrh(arguments: list[str]) -> tuple[int, str]:
        done = CliRunner().invoke(group, arguments)
        code = getattr(done.exception, "exit_code", done.exit_code)
        failed = done.exception is not None and not isinstance(done.exception, SystemExit)
        return code, f"{done.stdout}{done.stderr}{done.exception!r}" if failed else done.stdout

    @staticmethod
    def _parse(block: Block, arguments: list[str]) -> None:
        """Read the options of a command that is run elsewhere; one that does not exist fails."""
        context = group.make_context("jrh", arguments[:1])
        command = group.get_command(context, arguments[0])
        assert command is not None, f"{block}: {arguments}"
        command.make_context(arguments[0], arguments[1:], parent=context)


def _run_other(arguments: list[str]) -> tuple[int, str]:
    if arguments[:2] == ["python", "-m"]:
        return _run_module(arguments[2:])
    if arguments[0] in ("python", "python3"):
        arguments = [sys.executable, *arguments[1:]]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def _run_module(arguments: list[str]) -> tuple[int, str]:
    """In this process, where the tables of a new store are copied and not made."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as output:
        patch.setattr(sys, "argv", arguments)
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    return 0, output.getvalue()


def _commands(text: str) -> Iterator[str]:
    """Commands of a block, without comments; a line that ends with a backslash goes on."""
    for line in text.replace("\\\n", " ").splitlines():
        for command in re.split(r"\s&&\s", _without_comment(line)):
            if command.strip():
                yield " ".join(command.split()) if "'" not in command and '"' not in command else command.strip()


def _without_comment(line: str) -> str:
    """Cut a comment off: a # behind a space and outside of quotes."""
    for match in re.finditer(r"(?:^|\s)#", line):
        before = line[: match.start()]
        if before.count('"') % 2 == before.count("'") % 2 == 0:
            return before
    return line
