"""MLflow is used by its public names; what is private stands in `tracking/mlflow_internals.py` and nowhere else.

Public is a module that MLflow's reference names, and what has no leading underscore there. Every file is read: imports,
chains from `mlflow` by whatever name it goes, names of modules and settings in texts, attributes with an underscore and
the inside of functions and objects, however they are read.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import pytest

import jrh_mlflow

PACKAGE = Path(jrh_mlflow.__file__).parent
MLFLOW = Path(str(find_spec("mlflow").origin)).parent
RECIPES = PACKAGE.parent / "recipes"
INTERNALS = "jrh_mlflow/tracking/mlflow_internals.py"
PUBLIC = {
    "mlflow",
    "mlflow.artifacts",
    "mlflow.client",
    "mlflow.config",
    "mlflow.data",
    "mlflow.entities",
    "mlflow.entities.model_registry",
    "mlflow.environment_variables",
    "mlflow.exceptions",
    "mlflow.genai",
    "mlflow.genai.datasets",
    "mlflow.genai.judges",
    "mlflow.genai.judges.optimizers",
    "mlflow.genai.label_schemas",
    "mlflow.genai.review_queues",
    "mlflow.genai.scorers",
    "mlflow.tracing",
}
"""Modules that MLflow's reference has a page of, or that its guides import from."""
OTHER_THINGS = {"mlflow.db"}
"""Texts that are the name of a module by chance: a file."""
NO_MLFLOW = {"stats", "scoring", "perturb", "measures", "show", "suites", "models", "engine"}
"""Folders that see no object of MLflow's; `tests/test_layers.py` keeps its imports out of them."""
OF_THE_LANGUAGE = {"_fields", "_make", "_replace", "_asdict", "_exit"}
"""Public in spite of the underscore: of named tuples and of `os`."""
INSIDE = re.compile(r"__(code|closure|globals|defaults|kwdefaults|dict|wrapped|signature|pydantic_\w+)__")
"""What functions and objects are made of: through it all that is private can be read and exchanged."""
OF_USERS = {
    "jrh_mlflow/generation/generate.py",
    "jrh_mlflow/judges/callables.py",
    "jrh_mlflow/options.py",
    "jrh_mlflow/tracking/judges/scorer_facts.py",
}
"""Files that look into functions which users wrote, or into their own, and into nothing of MLflow's."""
READERS = ("getattr", "hasattr", "setattr", "delattr", "__getattribute__", "__setattr__", "attrgetter", "methodcaller")
"""What reads or writes an attribute by its name as a text."""
MODULE = re.compile(r"mlflow(\.\w+)+")
MADE = re.compile(r"(?:def |class |^ +|self\.)(_\w+)(?= *[(:=,])", re.MULTILINE)
"""Methods, classes and fields with an underscore, which a subclass in another file may use."""
LOOKED_AT = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.NamedExpr),
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant),
)
"""Kinds of nodes that a use may stand in: half of a file is of others."""
SETTING = re.compile(r"_MLFLOW_\w+")


@cache
def is_module(name: str) -> bool:
    """Whether MLflow has a module of this name; nothing is imported."""
    if name.split(".")[0] != "mlflow":
        return False
    path = MLFLOW.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_private(name: str) -> bool:
    is_of_the_language = name.startswith("__") and name.endswith("__") and not INSIDE.fullmatch(name)
    return name.startswith("_") and not is_of_the_language


def private_name(dotted: str) -> bool:
    """Whether a dotted name from MLflow leads through a module that is not public, or to a name with an underscore."""
    parts = dotted.split(".")
    if any(map(is_private, parts)):
        return True
    prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    modules = [prefix for prefix in prefixes if prefix == "mlflow" or is_module(prefix)]
    # A module of MLflow's may hold a function of the same name: `mlflow.genai.evaluate`, `mlflow.tracing.disable`.
    return modules[-1] not in PUBLIC


def dotted_name(node: ast.AST, aliases: Mapping[str, str] = MappingProxyType({})) -> str:
    """Spell `mlflow.genai.judges`, its first name as `aliases` has it; an empty text for what is no plain chain."""
    if isinstance(node, ast.Attribute):
        before = dotted_name(node.value, aliases)
        return f"{before}.{node.attr}" if before else ""
    if isinstance(node, ast.Call) and dotted_name(node.func) == "getattr" and len(node.args) > 1:
        holder, name = node.args[:2]
        before = dotted_name(holder, aliases)
        return f"{before}.{name.value}" if before and isinstance(name, ast.Constant) else ""
    return aliases.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def names_of_mlflow(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return what a file calls MLflow and its parts: by imports, and by plain assignments of these."""
    found: dict[str, str] = {}
    for node in nodes:
        pairs = []
        if isinstance(node, ast.Import):
            pairs = [(alias.asname, alias.name) for alias in node.names if alias.asname]
        elif isinstance(node, ast.ImportFrom):
            pairs = [(alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names]
        elif isinstance(node, ast.Assign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            name = dotted_name(node.value, found)
            pairs = [(target.id, name) for target in targets if isinstance(target, ast.Name) and is_module(name)]
        found |= {own: name for own, name in pairs if name.split(".")[0] == "mlflow"}
    return found


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names with an underscore that a file makes itself: functions, classes, assignments, arguments."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted_name(node.value) == "self":
            found.add(node.attr)
    return set(filter(is_private, found))


def last_name(node: ast.AST) -> str:
    """Return `attrgetter` of `operator.attrgetter`, whatever it is an attribute of."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def attributes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield whose attribute with an underscore a node reads or writes, and its name."""
    if isinstance(node, ast.Attribute) and is_private(node.attr):
        yield dotted_name(node.value), node.attr
    if isinstance(node, ast.Call) and last_name(node.func) in READERS:
        words = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        yield from (("", part) for word in words for part in word.split(".") if is_private(part))
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        if isinstance(key, str) and is_private(key) and ast.unparse(node.value).startswith("vars("):
            yield "", key


def private_uses(source: str, known: Collection[str] = ()) -> list[str]:
    """Find what a file uses of MLflow that is not public.

    An attribute with an underscore is the file's own where the file makes it; that of `self` where the package does.

    Args:
        source: Of the file.
        known: Names with an underscore that the package makes.
    """
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, LOOKED_AT)]
    own = own_names(nodes) | OF_THE_LANGUAGE
    ours = own | set(known)
    aliases = names_of_mlflow(nodes)
    found = []
    for node in nodes:
        is_chain = isinstance(node, ast.Attribute | ast.Call)
        names = [*imported(node), *([dotted_name(node, aliases)] if is_chain else [])]
        wrong = [name for name in names if name.split(".")[0] == "mlflow" and private_name(name)]
        wrong += [name for of, name in attributes(node) if name not in (ours if of in ("self", "cls") else own)]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in OTHER_THINGS:
            text = node.value
            is_private_module = MODULE.fullmatch(text) and is_module(text) and text not in PUBLIC
            wrong += [text] if is_private_module or SETTING.fullmatch(text) else []
        found += [f"{getattr(node, 'lineno', 0)}: {name}" for name in wrong]
    return list(dict.fromkeys(found))


FOLDERS = [folder for folder in PACKAGE.iterdir() if folder.is_dir() and folder.name not in NO_MLFLOW]
FILES = [*PACKAGE.glob("*.py"), *(path for folder in (*FOLDERS, RECIPES) for path in folder.rglob("*.py"))]
SOURCES = {str(path.relative_to(PACKAGE.parent)): path.read_text(encoding="utf-8") for path in sorted(FILES)}


def test_private_names_of_mlflow_are_used_in_one_file_only() -> None:
    known = {name for source in SOURCES.values() for name in MADE.findall(source)}
    found = {file: uses for file, source in SOURCES.items() if (uses := private_uses(source, known))}
    for file in OF_USERS:
        found[file] = [use for use in found[file] if not INSIDE.fullmatch(use.split(": ")[1])]
    found = {file: uses for file, uses in found.items() if uses}
    assert list(found) == [INTERNALS], {file: uses for file, uses in found.items() if file != INTERNALS}


def test_the_one_file_holds_private_uses_only() -> None:
    functions = [node for node in ast.walk(ast.parse(SOURCES[INTERNALS])) if isinstance(node, ast.FunctionDef)]
    idle = [one.name for one in functions if not private_uses(ast.unparse(one))]
    assert idle == [], "it uses nothing private: its place is elsewhere"


@pytest.mark.parametrize(
    "source",
    [
        "from mlflow.genai.judges.utils import get_default_model",
        "from mlflow.genai.scorers.base import Scorer",
        "from mlflow.genai.judges import _helpers",
        "from mlflow.genai import utils",
        "import mlflow.tracking.fluent",
        "def f():\n    from mlflow.tracing.client import TracingClient",
        "if TYPE_CHECKING:\n    from mlflow.store.tracking import sqlalchemy_store",
        "from importlib import import_module\nimport_module('mlflow.server.handlers')",
        "sys.modules.get('mlflow.genai.scorers.base')",
        "logging.getLogger('mlflow.store.db.utils')",
        "mlflow.tracking.context.registry.resolve_tags()",
        "mlflow._something()",
        "judge._check_can_be_registered()",
        "judge.panel.scorers[0]._scorers",
        "object.__setattr__(judge, '_model', 'x')",
        "judge._model = 'x'",
        "getattr(judge, '_base_url', None)",
        "operator.attrgetter('data._get_root_span')(trace)",
        "vars(judge)['_model']",
        "judge.__dict__['_model']",
        "judge.__pydantic_private__.get('_model')",
        "getattr(judge, '__pydantic_private__')",
        "mlflow.genai.evaluate.__code__ = f.__code__",
        "vars(function)['__signature__'] = x",
        "import mlflow as m\nm.tracking.fluent.run_id()",
        "import mlflow.genai as g\ng.utils.trace_utils.f()",
        "from mlflow import genai\ngenai.utils.trace_utils.f()",
        "from mlflow import genai as g\nj = g.judges\nj.utils.get_default_model()",
        "def f():\n    import mlflow as m\n    getattr(m, 'tracking').fluent.run_id()",
        "if (m := mlflow.genai):\n    m.utils.f()",
        "class A(Scorer):\n    def f(self):\n        return self._original_func",
        "os.environ['_MLFLOW_STATIC_PREFIX']",
    ],
)
def test_a_private_use_is_seen_however_it_is_written(source: str) -> None:
    assert private_uses(source)


@pytest.mark.parametrize(
    "source",
    [
        "import mlflow\nmlflow.genai.evaluate(data, scorers=[])",
        "from mlflow import MlflowClient, MlflowException",
        "from mlflow.entities import Feedback, Trace",
        "from mlflow.genai.scorers import get_scorer",
        "import mlflow.genai.judges.optimizers",
        "x = 'mlflow.spanInputs'",
        "x = 'mlflow.db'",
        "class A:\n    def f(self):\n        self._kept = 1\n        return self._kept",
        "class A:\n    _kept = 1\ndef f(a):\n    return a._kept",
        "def f(self):\n    return self.__class__.__name__",
        "import mlflow as m\nm.genai.evaluate(data, scorers=[])",
        "from mlflow import genai\njudges = genai.judges\njudges.get_judge()",
        "import pandas as m\nm.tracking.fluent.run_id()",
    ],
)
def test_a_public_use_is_not(source: str) -> None:
    assert private_uses(source) == []
