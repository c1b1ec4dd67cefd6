"""docs/reference/recipes.md: each recipe is read by what the command reads it with."""

from __future__ import annotations

from pathlib import Path

from jrh_mlflow.decisions.gate import read_policy
from jrh_mlflow.recipe import load_generation, load_recipe
from jrh_mlflow.sweeps.space import load_space
from jrh_mlflow.workflow import load_workflow
from tests.docs.printed import Printed
from tests.docs.world import World

PAGE = "docs/reference/recipes.md"
ANSWERS = "id,instruction,response,label\n1,What is 2 + 2?,Four.,pass\n2,What is 3 + 3?,Seven.,fail\n"


def test_every_recipe_is_read(world: World) -> None:
    Path(world.folder / "answers.csv").write_text(ANSWERS, encoding="utf-8")
    readers = [load_recipe, load_generation, load_space, load_workflow, read_policy]
    Printed(PAGE, world, readers=[(f"{n}.yaml", read) for n, read in enumerate(readers)]).run()
