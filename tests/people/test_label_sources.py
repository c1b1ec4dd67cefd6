"""A new source of labels is one file: it is dropped into the folder, and agree and correct read it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import jrh_mlflow as jrh
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.people import labels
from jrh_mlflow.people.label_reader import labels_of
from jrh_mlflow.people.labels import LabelOptions
from jrh_mlflow.people.labels.traces import drawn_facts

SOURCE = '''
"""Exports of an annotation tool: a JSON line per task, with everybody's choice."""
import json
from pathlib import Path
from jrh_mlflow.people.labels import JUDGE, PERSON, LabelOptions, LabelSource, LabelTable, long_frame

class Annotations(LabelSource):
    def takes(self, source):
        return str(source).endswith(".annotations.jsonl")

    def read(self, source, options):
        tasks = [json.loads(line) for line in Path(source).read_text(encoding="utf-8").splitlines()]
        rows = [(task["task"], choice) for task in tasks for choice in task["choices"]]
        columns = {
            "item": [task for task, _ in rows],
            "rater": [choice["by"] for _, choice in rows],
            "kind": [JUDGE if choice["machine"] else PERSON for _, choice in rows],
            "label": [choice["value"] for _, choice in rows],
        }
        return LabelTable(frame=long_frame(columns), shown=Path(source).name)

SOURCE = Annotations()
'''


@pytest.fixture
def annotations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a contributor in the folder of sources, and an export of the tool."""
    folder = tmp_path / "labels"
    folder.mkdir()
    (folder / "annotations_of_a_tool.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.setattr(labels, "__path__", [*labels.__path__, str(folder)])
    path = tmp_path / "export.annotations.jsonl"
    tasks = []
    for task, row in enumerate(said().itertuples()):
        people = [{"by": name, "value": getattr(row, name), "machine": False} for name in ("ann", "bob", "cem")]
        judge = {"by": "gpt", "value": row.gpt, "machine": True}
        tasks.append({"task": f"t{task}", "choices": [*(people if task < 100 else []), judge]})
    path.write_text("\n".join(map(json.dumps, tasks)), encoding="utf-8")
    return path


def said() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    truth = rng.random(300) < 0.7
    errors = {"ann": 0.05, "bob": 0.1, "cem": 0.1, "gpt": 0.15}
    columns = {name: np.where(truth ^ (rng.random(300) < error), "yes", "no") for name, error in errors.items()}
    return pd.DataFrame(columns)


def test_agree_reads_a_new_source_as_it_reads_a_table(annotations: Path) -> None:
    found = jrh.agree(str(annotations), log=False)
    long = said().head(100).melt(ignore_index=False, var_name="rater", value_name="label").rename_axis("item")
    same = jrh.agree(long.reset_index(), judge="gpt", log=False)
    assert found.report.judge == "gpt"
    assert found.report.people_names == ("ann", "bob", "cem")
    assert found.estimates["agreement/accuracy"] == same.estimates["agreement/accuracy"]
    assert found.source.shown == "export.annotations.jsonl"


def test_correct_reads_it_with_the_majority_of_people(annotations: Path) -> None:
    frame = said()
    people = (frame[["ann", "bob", "cem"]] == "yes").sum(axis=1) >= 2
    table = pd.DataFrame({"judge": frame["gpt"], "human": people.astype(object).where(frame.index < 100)})
    found, same = jrh.correct(str(annotations)), jrh.correct(table)
    assert found.estimate == same.estimate
    assert (found.n_labelled, found.n_unlabelled) == (100, 200)


def test_every_source_gives_the_same_columns(annotations: Path) -> None:
    table = labels_of([{"item": "a", "rater": "ann", "label": 1}])
    assert list(table.frame)[:9] == list(labels_of(str(annotations)).frame)[:9]
    assert list(table.frame)[:4] == ["item", "rater", "kind", "label"]
    kept = pd.DataFrame({"judge": [True], "human": [True], "cluster": ["s1"], "inclusion": [0.5]})
    wide = labels_of(kept, LabelOptions(part="calibration", judge="judge")).frame
    assert set(wide["cluster"]) == {"s1"}
    assert set(wide["inclusion"]) == {0.5}


def test_the_cluster_of_a_table_is_the_column_that_is_named() -> None:
    rows = [{"item": item, "rater": "ann", "label": 1, "talk": f"t{item // 2}"} for item in range(4)]
    assert labels_of(rows, LabelOptions(cluster="talk")).frame["cluster"].tolist() == ["t0", "t0", "t1", "t1"]
    assert labels_of(rows).frame["cluster"].isna().all()
    wide = pd.DataFrame({"judge": [True, False], "human": [True, True], "talk": ["a", "b"]})
    options = LabelOptions(part="verdicts", judge="judge", cluster="talk")
    assert labels_of(wide, options).frame["cluster"].tolist() == ["a", "b", "a", "b"]
    with pytest.raises(RecipeError, match="talks"):
        labels_of(rows, LabelOptions(cluster="talks"))


def test_a_trace_is_of_its_session_and_tells_how_it_was_drawn() -> None:
    tags = {"jrh.inclusion": "0.25", "jrh.drawn": "random", "team": "north"}
    facts = drawn_facts({"mlflow.trace.session": "s1"}, tags, None)
    assert facts == {"cluster": "s1", "inclusion": 0.25, "drawn": "random"}
    assert drawn_facts(None, tags, "team")["cluster"] == "north"
    assert drawn_facts(None, {}, None) == {"cluster": None, "inclusion": None, "drawn": None}
