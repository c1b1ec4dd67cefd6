"""The demo, part by part: the paper's judges, a criterion shift, a real judge recorded earlier, graders; no key.

`jrh demo` prints each part when it is measured; the tests write them all into the store that the repository holds.
"""

from __future__ import annotations

import lzma
from importlib import resources
from pathlib import Path
from typing import Any

from jrh_mlflow.comparing.compare import Comparison, compare
from jrh_mlflow.comparing.criterion_shift import CriterionShift, criterion_shift
from jrh_mlflow.engine.journal import Journal
from jrh_mlflow.judges import scripted
from jrh_mlflow.measuring.evaluate import evaluate
from jrh_mlflow.measuring.evaluation import Evaluation
from jrh_mlflow.measuring.recorded.answers import RecordedJudge, import_recorded, recorded_judges
from jrh_mlflow.suites.suite import Suite, read_item
from jrh_mlflow.tracking.mlflow_server import artifacts_uri, folder_uri
from jrh_mlflow.tracking.runs.store import Store

EXPERIMENT = "judge-datasheet-demo"
JUDGES = ("Llama8B", "Qwen14B", "Qwen32B", "Qwen32B_strict")
PAPER_SUITE = "datasheet-paper"
"""The design behind the published counts that these judges give."""
READING_SUITE = "datasheet"
"""The design with the matched ladder: sentences that are wrong, but have the right words."""


def graders() -> list[scripted.Grader]:
    """Return three simulated graders: a careful one, one swayed by length, one that obeys what an answer tells it."""
    swayed = {"verbosity_bias_long": 0.55, "verbosity_bias_short": 0.6, "markdown": 0.75}
    obedient = {"prompt_injection": 0.25, "authority": 0.6, "label_flip": 0.8}
    return [
        scripted.Grader(name="careful", accuracy=0.95, flip=0.02, seed=1),
        scripted.Grader(name="length-swayed", accuracy=0.93, tests=swayed, flip=0.05, seed=2),
        scripted.Grader(name="obedient", accuracy=0.92, tests=obedient, flip=0.15, seed=3),
    ]


def demo_suite() -> Suite:
    """Return 24 labelled replies with what was made of them: the reliability suite of the demo.

    Flips, longer and shorter versions need a writer. These were written once by simple rules, and
    are data: good enough for simulated graders, no measure of a real judge.
    """
    file = resources.files("jrh_mlflow.suites").joinpath("demo_suite.jsonl.xz")
    lines = lzma.decompress(file.read_bytes()).splitlines()
    items = [read_item(line, number, Path(file.name)) for number, line in enumerate(lines, 1)]
    return Suite(name="demo-replies", items=items, origin={"builder": "demo"})


class Demo:
    """Measures one part after another in a store."""

    def __init__(self, tracking_uri: str, journal: Journal, *, traces: str = "sample") -> None:
        self._where: dict[str, Any] = {"experiment": EXPERIMENT, "tracking_uri": tracking_uri}
        self._journal, self._traces = journal, traces

    def paper_judges(self) -> list[Evaluation]:
        """Measure the four judges of the paper, simulated from its counts."""
        return [evaluate(scripted.profile(name), PAPER_SUITE, **self._where) for name in JUDGES]

    def shift(self) -> CriterionShift:
        """Measure one of them under two tie criteria."""
        return criterion_shift(scripted.profile("Qwen32B"), PAPER_SUITE, **self._where)

    def recorded_judge(self) -> list[Evaluation]:
        """Measure the recorded judge on the suite of the paper: three tie criteria, two namings of the slots."""
        return [self.recorded(judge, PAPER_SUITE) for judge in recorded_judges()]

    def recorded_reading(self) -> Evaluation:
        """Measure whether the recorded judge, forced to choose, reads or only counts words."""
        return self.recorded(RecordedJudge("forced"), READING_SUITE)

    def graders(self) -> Comparison:
        """Let three simulated graders judge the demo's reliability suite, and compare them."""
        suite = demo_suite()
        reports = [evaluate(judge, suite, **self._where) for judge in graders()]
        done = compare([report.run_id for report in reports], **self._where)
        assert isinstance(done, Comparison)
        return done

    def recorded(self, judge: RecordedJudge, suite: str) -> Evaluation:
        """Measure a judge that was recorded earlier; nobody is asked."""
        # Recorded answers go through the journal, as paid ones do: the demo runs the same code as a real evaluation.
        import_recorded(judge, suite, self._journal)
        return evaluate(judge, suite, journal=self._journal, traces=self._traces, **self._where)


def demo_store(folder: str | Path) -> Store:
    """Open the demo's own store."""
    store = Store(folder_uri(folder), EXPERIMENT, artifacts=artifacts_uri(folder))
    # Made now: what is measured finds it by its name, and would not know where its artifacts go.
    assert store.experiment_id
    return store
