"""What to do where more tasks would decide: take those left, write some, ask again, or be content with less."""

from __future__ import annotations

from jrh_mlflow.measures.variation import asking_again_helps
from jrh_mlflow.perturb.languages import LANGUAGES
from jrh_mlflow.schema.estimates import Reading
from jrh_mlflow.suites.suite import Suite
from jrh_mlflow.suites.tasks import built_in_tasks

_OWN = "docs/howto/own_tasks.md"
_AGAIN = {
    "little": "asking each again would help little",
    "much": "asking each again (`--replicates 2`) would help about as much as more tasks",
}


def more_tasks_text(further: int, suite: Suite, *, again: Reading | None = None, reached: str = "") -> str:
    """Say how many tasks there are left, and what else can be done, in one sentence without its end.

    Args:
        further: How many more would decide.
        suite: What was asked.
        again: What asking again would do (`variance/asking_again`), where that was read.
        reached: What can be decided with the tasks that there are: `take a limit of 0.3 or more`.
    """
    language = str(suite.origin.get("language", "en"))
    own = built_in_tasks(language) if language in LANGUAGES else []
    asked, library = {item.task for item in suite.items}, {task.id for task in own}
    left = len(library - asked) if asked <= library else 0
    if asked - library:
        there = f"this suite has {len(asked):,} tasks; add tasks, sources or pairs of your own ({_OWN})"
    elif further <= left:
        spoken = "" if language == "en" else f" --language {language}"
        build = f"`jrh suite build{spoken} --n-tasks {len(asked) + further} -o more`"
        there = f"the built-in library has {left} that are not in this suite ({build})"
    else:
        rest = f"{left} of them not in this suite" if left else "all of them in this suite"
        write = f"write tasks of your own (`jrh suite tasks --example`, {_OWN})"
        there = f"the built-in library has {len(library)}, {rest}; {write}"
    options = [there, *([f"or {reached}"] if reached else [])]
    help_again = _AGAIN.get(asking_again_helps(again), "")
    return ", ".join(options) + (f"; {help_again}" if help_again else "")
