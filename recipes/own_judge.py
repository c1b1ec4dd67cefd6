"""A judge of your own in a few lines: any function from what is shown to an answer.

Run: jrh evaluate --judge recipes/own_judge.py:judge
"""

from __future__ import annotations

import jrh_mlflow as jrh


def judge(shown: jrh.Presentation) -> jrh.Answer:
    """Prefer the response that uses more of the task's own words; tie when neither does."""
    wanted = set(shown.instruction.lower().split())
    first, second = (len(wanted & set((text or "").lower().split())) for text in (shown.first, shown.second))
    value = "tie" if first == second else "1" if first > second else "2"
    return jrh.Answer(value, rationale=f"{first} against {second} words of the task")


if __name__ == "__main__":
    done = jrh.evaluate(judge)
    print(done.datasheet.to_markdown(title="Judge datasheet: more of the task's words"))
