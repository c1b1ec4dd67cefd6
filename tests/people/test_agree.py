"""`jrh.agree` on tables, traces and evaluations in a real MLflow store."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from mlflow.tracing.client import TracingClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.agree import agree as command
from jrh_mlflow.cli.main import _run
from jrh_mlflow.errors import JrhWarning, RecipeError
from jrh_mlflow.schema.estimates import Estimate, NotEstimable
from jrh_mlflow.schema.items import BASELINE, Item
from jrh_mlflow.tracking.traces.review_queues import QueuedTraces
from tests.people.rated_store import JUDGE, NAME, rate_traces

ACCURACIES = {"ann": 0.95, "bob": 0.9, "cem": 0.85, "gpt": 0.85}
HOSTILE = ("<script>alert(1)</script>", "=cmd()|'x'!A1", "\x1b[31mred", "[x](javascript:alert(1)) | `a` **b**")


def labels(n: int = 120, *, words: tuple[str, str] = ("fail", "pass"), seed: int = 0) -> pd.DataFrame:
    """Three people, one of whom has not seen every item, and a judge; the links and groups of items."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        truth = rng.random() < 0.6
        for rater, accuracy in ACCURACIES.items():
            said = truth if rng.random() < accuracy else not truth
            if rater != "cem" or number % 4:
                rows.append({"item": f"q{number:03d}", "rater": rater, "label": words[said], "topic": "ab"[number % 2]})
    return pd.DataFrame(rows)


def text_of(run_id: str, name: str, store_uri: str, folder: Path) -> str:
    path = MlflowClient(tracking_uri=store_uri).download_artifacts(run_id, name, str(folder))
    return Path(path).read_text(encoding="utf-8")


def run_of(done: jrh.Agreement, store_uri: str):
    assert done.run_id is not None
    return MlflowClient(tracking_uri=store_uri).get_run(done.run_id)


@pytest.fixture(scope="module")
def done(store_uri: str) -> jrh.Agreement:
    return jrh.agree(labels(), judge="gpt", positive="pass", group="topic", experiment="people", tracking_uri=store_uri)


def by_hand(frame: pd.DataFrame) -> tuple[int, int]:
    """Items on which the judge gives the majority of the people, and items with both."""
    right = n = 0
    for _, rows in frame.groupby("item"):
        votes = rows.loc[rows["rater"] != "gpt", "label"].value_counts()
        verdict = rows.loc[rows["rater"] == "gpt", "label"].tolist()
        if verdict and (len(votes) == 1 or votes.iloc[0] > votes.iloc[1]):
            n += 1
            right += verdict[0] == votes.index[0]
    return right, n


def test_the_numbers_are_those_of_the_labels(done):
    right, n = by_hand(labels())
    accuracy = done.estimates["agreement/accuracy"]
    assert isinstance(accuracy, Estimate)
    assert (accuracy.value, accuracy.n) == (right / n, n)
    assert len(done.disagreements) == n - right
    assert done.confusion.to_numpy().trace() == right
    assert list(done.people["person"]) == ["ann", "bob", "cem"]
    assert set(done.groups) == {"a", "b"}
    calibration = done.calibration
    assert calibration is not None
    assert list(calibration.columns) == ["item", "judge", "human"]
    assert (calibration["judge"].dtype, calibration["human"].dtype) == (bool, bool)
    assert len(calibration) == n
    assert int((calibration["judge"] == calibration["human"]).sum()) == right


def test_the_run_holds_everything(done, store_uri, tmp_path):
    run = run_of(done, store_uri)
    right, n = by_hand(labels())
    assert run.info.status == "FINISHED"
    assert (run.data.tags["jrh.kind"], run.data.tags["jrh.simulated"]) == ("agree", "false")
    assert run.data.tags["mlflow.note.content"].splitlines()[2].startswith("**")
    assert run.data.tags["jrh.agreement/accuracy"].startswith(f"{right / n:.2f} [")
    assert run.data.tags["jrh.profile"].startswith("gpt agrees with ")
    assert run.data.params["judge.name"] == "gpt"
    assert run.data.params["agree.epsilon"] == "0.2"
    assert (run.data.params["agree.positive"], run.data.params["agree.group"]) == ("pass", "topic")
    assert run.data.metrics == pytest.approx(done.logged)
    headline = {
        *("agreement/accuracy/rate", "agreement/kappa/value", "agreement/ac1/value", "agreement/sensitivity/rate"),
        *("agreement/specificity/rate", "agreement/human_ceiling/rate", "agreement/judge_on_ceiling/rate"),
        *("agreement/human_alpha/value", "alt_test/winning_rate/rate", "alt_test/advantage_probability/rate"),
    }
    assert headline <= set(run.data.metrics)
    for key in headline:
        axis = key.rpartition("/")[0]
        assert {f"{axis}/ci_low", f"{axis}/ci_high", f"{axis}/n"} <= set(run.data.metrics)
    assert not any(key.startswith("category/") for key in run.data.metrics)
    assert done.metrics["category/a/agreement/accuracy/n"] > 0
    folder = Path(MlflowClient(tracking_uri=store_uri).download_artifacts(run.info.run_id, "", str(tmp_path)))
    assert {path.name for path in (folder / "figures").iterdir()} == {"ceiling.svg", "confusion.svg"}
    assert {path.stem for path in (folder / "tables").iterdir()} == {
        *("calibration", "confusion", "disagreements", "estimates", "groups", "people")
    }
    assert (folder / "agreement.md").read_text(encoding="utf-8") == done.to_markdown()
    assert "<h1>Agreement of gpt with 3 people</h1>" in (folder / "agreement.html").read_text(encoding="utf-8")
    assert json.loads((folder / "agreement.json").read_text(encoding="utf-8")) == done.to_dict()
    read = pd.read_csv(folder / "tables" / "calibration.csv")
    pd.testing.assert_frame_equal(read, done.calibration.reset_index(drop=True), check_dtype=False)


def test_results_are_shown_as_text_frames_and_cards(done):
    assert repr(done).startswith("Agreement('gpt': accuracy 0.")
    assert set(done.to_frame()["axis"]) == set(done.estimates)
    assert " agrees with " in done._repr_html_()
    assert done.plot().axes
    assert done.plot("confusion").axes
    with pytest.raises(RecipeError, match="figure"):
        done.plot("nothing")


def test_a_file_is_read_like_the_frame(tmp_path):
    frame = labels(40)
    frame.to_csv(tmp_path / "labels.csv", index=False)
    frame.to_json(tmp_path / "labels.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "labels.parquet")
    frame.to_excel(tmp_path / "labels.xlsx", index=False)
    expected = jrh.agree(frame, judge="gpt", log=False).metrics
    for ending in ("csv", "jsonl", "parquet", "xlsx"):
        assert jrh.agree(tmp_path / f"labels.{ending}", judge="gpt", log=False).metrics == expected
    renamed = frame.rename(columns={"item": "question", "rater": "who", "label": "verdict"})
    named = {"item": "question", "rater": "who", "label": "verdict"}
    assert jrh.agree(renamed, judge="gpt", log=False, **named).metrics == expected
    assert jrh.agree(frame.to_dict("records"), judge="gpt", log=False).metrics == expected


def test_people_alone_are_read_without_a_judge():
    done = jrh.agree(labels().query("rater != 'gpt'"), log=False)
    assert isinstance(done.estimates["agreement/human_ceiling"], Estimate)
    assert isinstance(done.estimates["agreement/accuracy"], NotEstimable)
    assert (done.calibration, dict(done.judge)) == (None, {})
    text = done.to_markdown()
    assert text.startswith(f"# Agreement of 3 people\n\n**{done.verdict.sentences[0]}**\n")
    assert "People agree " in text
    json.dumps(done.to_dict(), allow_nan=False)
    assert "<h2>Judge</h2>" not in done.to_html()


def test_one_person_has_no_ceiling_and_the_page_says_so():
    done = jrh.agree(labels().query("rater in ('ann', 'gpt')"), judge="gpt", log=False)
    assert isinstance(done.estimates["alt_test/winning_rate"], NotEstimable)
    assert "gpt agrees with ann on " in done.to_html()
    assert "one person: a ceiling needs two" in done.to_html()
    assert done.calibration is None  # which label is positive is not known


@pytest.mark.drawn
def test_ordered_labels_are_read_by_quadratic_kappa():
    frame = labels(60)
    rng = np.random.default_rng(3)
    frame["label"] = np.where(rng.random(len(frame)) < 0.2, "so-so", frame["label"])
    done = jrh.agree(frame, judge="gpt", scale=["fail", "so-so", "pass"], log=False)
    assert isinstance(done.estimates["agreement/kappa_quadratic"], Estimate)
    page = done.to_markdown()
    assert "agrees with the median of people on " in page
    assert "a person against the others has a quadratic kappa of " in page
    assert done.plot().axes[0].get_xlabel() == "quadratic kappa against the others"


def test_numbers_without_levels_are_read_by_kappa_alone():
    rng = np.random.default_rng(4)
    truth = rng.normal(size=50)
    rows = [
        {"item": item, "rater": rater, "label": round(float(value + noise * rng.normal()), 3)}
        for rater, noise in {"ann": 0.3, "bob": 0.3, "cem": 0.4, "gpt": 0.4}.items()
        for item, value in enumerate(truth)
    ]
    done = jrh.agree(pd.DataFrame(rows), judge="gpt", scale="numeric", log=False)
    assert "gpt has a quadratic kappa of 0." in done.to_html()
    assert "Confusion matrix" not in done.to_html()
    json.dumps(done.to_dict(), allow_nan=False)


@pytest.mark.parametrize(
    ("frame", "options", "problem"),
    [
        (labels(5).query("rater == 'gpt'"), {"judge": "gpt"}, "two raters"),
        (labels(5), {"judge": "gtp"}, "No rater is called 'gtp'. Did you mean 'gpt'"),
        (labels(5).query("(rater == 'gpt') == (item < 'q002')"), {"judge": "gpt"}, "share no item"),
        (labels(5), {"judge": "gpt", "scale": ["bad", "pass"]}, "outside the scale"),
        (labels(5), {"judge": "gpt", "positive": "good"}, "positive label 'good'"),
        (labels(5), {"judge": "gpt", "epsilon": 1.5}, "epsilon"),
        (labels(5), {"judge": "gpt", "group": "tpic"}, "no column 'tpic'. Did you mean 'topic'"),
        (labels(5).pivot(index="item", columns="rater", values="label").reset_index(), {}, r"melt\(id_vars='item'"),
        (pd.DataFrame({"id": [1, 2], "ann": ["a", "b"], "gpt": ["a", "a"]}), {}, r"melt\(id_vars='id'"),
        (labels(5).drop(columns="label"), {}, "one row per item and rater"),
        (labels(5), {"queue": "second look"}, "`queue` is about traces"),
        (labels(5), {"name": "correct"}, "`name` is about traces"),
        (labels(5).head(0), {}, "no rows"),
        (7, {}, "cannot be a int"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_one_line(frame, options, problem):
    with pytest.raises(RecipeError, match=problem) as caught:
        jrh.agree(frame, log=False, **options)
    assert "\n" not in str(caught.value)


def test_hostile_labels_stay_text(store_uri, tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret-0123")
    frame = labels(40).replace({"label": {"fail": HOSTILE[0], "pass": HOSTILE[3]}})
    frame.loc[frame["item"] == "q001", "label"] = HOSTILE[1]
    frame.loc[frame["item"] == "q002", "label"] = HOSTILE[2]
    frame.loc[frame["item"] == "q003", "label"] = "my key is sk-very-secret-0123"
    frame["rater"] = frame["rater"].replace({"ann": HOSTILE[1], "bob": HOSTILE[0], "gpt": HOSTILE[2]})
    frame["link"] = "javascript:alert(1)"
    done = jrh.agree(
        frame, judge=HOSTILE[2], positive=HOSTILE[0], group="topic", experiment="people", tracking_uri=store_uri
    )
    page, markdown = done.to_html(), done.to_markdown()
    assert "<script" not in page
    assert "href=" not in page.replace('href="#term-', "")
    assert "\x1b" not in markdown
    assert "<script" not in markdown.replace(f"`{HOSTILE[0]}`", "")
    assert "[x](javascript" not in markdown.replace("`[x](javascript:alert(1)) \\| ˋaˋ **b**`", "")
    folder = Path(MlflowClient(tracking_uri=store_uri).download_artifacts(done.run_id, "", str(tmp_path)))
    files = [path for path in folder.rglob("*") if path.suffix in (".json", ".md", ".html", ".csv")]
    assert len(files) == 10
    assert not [path for path in files if "sk-very-secret" in path.read_text(encoding="utf-8")]
    headers = [path.read_text(encoding="utf-8").partition("\n")[0] for path in (folder / "tables").glob("*.csv")]
    assert any(f"'{HOSTILE[1]}" in header for header in headers)
    assert not [header for header in headers if "\x1b" in header or f",{HOSTILE[1]}" in header]
    people = pd.read_csv(folder / "tables" / "people.csv")
    assert f"'{HOSTILE[1]}" in set(people["person"])
    assert json.loads((folder / "agreement.json").read_text(encoding="utf-8"))["judge"]["name"] == HOSTILE[2]


# Traces.


def test_traces_are_read_by_who_said_it_with_links(store_uri):
    store = rate_traces(store_uri, "agree-traces", n=30, expectations=0, code=0)
    done = jrh.agree("traces:/agree-traces", group="category", tracking_uri=store_uri)
    frame = store.labels.replace({"rater": {JUDGE: "gpt"}})
    right, n = by_hand(frame)
    accuracy = done.estimates["agreement/accuracy"]
    assert isinstance(accuracy, Estimate)
    assert (accuracy.value, accuracy.n) == (pytest.approx(right / n), n)
    assert done.judge["source_id"] == JUDGE
    assert set(done.disagreements["item"]) < set(store.traces["item"])
    assert all(item in link for item, link in zip(done.disagreements["item"], done.disagreements["link"], strict=True))
    run = run_of(done, store_uri)
    assert run.info.experiment_id == store.experiment_id
    # The experiment is the application's: what its pages open on is not ours to choose.
    assert not MlflowClient(tracking_uri=store_uri).get_experiment(store.experiment_id).tags
    assert run.data.params["agree.name"] == NAME
    assert run.data.params["judge.source_id"] == JUDGE
    assert len(done.groups) > 1
    some = jrh.agree("traces:/agree-traces", tracking_uri=store_uri, max_traces=20, log=False)
    traces = MlflowClient(tracking_uri=store_uri).search_traces(locations=[store.experiment_id], max_results=20)
    assert some.report.counts["items"] <= 20
    for source in (list(traces), [trace.info.trace_id for trace in traces]):
        assert jrh.agree(source, tracking_uri=store_uri, log=False).metrics == some.metrics


def test_a_review_queue_offers_the_whole_scale_in_its_order(store_uri):
    for name, values, scale, asked in [
        ("words", ("ok", "bad"), ["great", "ok", "bad"], {"options": ["great", "ok", "bad"]}),
        ("numbers", (2, 4), (1, 5), {"min_value": 1, "max_value": 5}),
        ("seen", ("ok", "bad"), None, {"options": ["bad", "ok"]}),
    ]:
        # A judge that fails most right answers disagrees with people on some of few.
        few = {"n": 8, "sensitivity": 0.3, "expectations": 0, "code": 0}
        store = rate_traces(store_uri, f"queue-{name}", values=values, **few)
        jrh.agree(f"traces:/queue-{name}", tracking_uri=store_uri, log=False, queue="second look", scale=scale)
        known = TracingClient(store_uri).store.list_label_schemas(store.experiment_id)
        (schema,) = [each for each in known if each.name == NAME]
        assert asked.items() <= vars(schema.input).items()


def test_disagreements_go_into_a_review_queue_where_the_store_has_one(store_uri, monkeypatch):
    store = rate_traces(store_uri, "agree-queue", n=20, expectations=0, code=0)
    options = {"tracking_uri": store_uri, "log": False, "queue": "second look"}
    done = jrh.agree("traces:/agree-queue", **options)
    tracing = TracingClient(store_uri).store
    queue = tracing.get_review_queue_by_name(store.experiment_id, name="second look")
    held = {item.item_id for item in tracing.list_review_queue_items(queue.queue_id)}
    assert held == set(done.disagreements["item"])
    assert held
    queued = QueuedTraces(queue="second look", added=len(held), already=0, links=("",))
    assert any(note.startswith(str(queued)) for note in done.notes)
    again = jrh.agree("traces:/agree-queue", **options)
    assert any(note.startswith(str(replace(queued, added=0, already=len(held)))) for note in again.notes)
    monkeypatch.delattr(type(tracing), "get_review_queue_by_name")
    with pytest.warns(JrhWarning, match="has no review queues"):
        without = jrh.agree("traces:/agree-queue", **options)
    assert "has no review queues" in without.to_markdown()
    assert without.metrics == done.metrics


# Evaluations.


def people_suite(n: int = 36) -> jrh.Suite:
    """Items that three people have labelled, and a perturbed copy of each."""
    rng = np.random.default_rng(5)
    items = []
    for number in range(n):
        people = {name: ("no", "yes")[(number % 3 > 0) ^ bool(rng.random() < 0.1)] for name in ("ann", "bob", "cem")}
        for condition in (BASELINE, "typos"):
            items.append(
                Item(
                    id=f"s{number:03d}/{condition}",
                    task=f"s{number:03d}",
                    condition=condition,
                    kind="response",
                    instruction="Explain the tides.",
                    rubric="Is it right?",
                    response=f"{condition} {number}",
                    answers=("no", "yes"),
                    expected=("no", "yes")[number % 3 > 0],
                    meta={"people": people, "group": "ab"[number % 2]},
                )
            )
    return jrh.Suite(name="people", items=items)


def answer(presentation: jrh.Presentation) -> str:
    condition, number = str(presentation.response).split()
    if int(number) == 7:
        raise RuntimeError("the service is down")
    if int(number) == 8:
        return "perhaps"
    right = int(number) % 3 > 0
    return ("no", "yes")[right if condition == BASELINE and int(number) % 6 else not right]


@pytest.fixture(scope="module")
def evaluation(store_uri: str) -> jrh.Evaluation:
    return jrh.evaluate(answer, people_suite(), experiment="graded", tracking_uri=store_uri, traces="none")


def test_an_evaluation_is_read_on_its_unperturbed_items(evaluation, store_uri):
    done = jrh.agree(evaluation)
    assert done.report.counts["items"] == 36
    accuracy = done.estimates["agreement/accuracy"]
    assert isinstance(accuracy, Estimate)
    assert accuracy.n == 34
    assert accuracy.value > 0.7  # it errs on every perturbed item
    assert any("no verdict on 2 of 36 items (1 error, 1 unparsed)" in note for note in done.notes)
    assert done.report.positive == "yes"
    assert set(done.groups) == {"a", "b"}
    run = run_of(done, store_uri)
    assert MlflowClient(tracking_uri=store_uri).get_experiment(run.info.experiment_id).name == "graded"
    assert run.data.params["agree.run"] == run.data.params["judge.run_id"] == evaluation.run_id
    assert run.data.params["suite.sha256"] == people_suite().sha256
    assert run.data.params["judge.prompt_sha256"] == done.judge["prompt_sha256"]
    for name in (evaluation.run_id, f"runs:/{evaluation.run_id}", evaluation.run_id[:10]):
        again = jrh.agree(name, tracking_uri=store_uri, log=False)
        assert again.metrics == done.metrics


def test_a_simulated_judge_stays_simulated(store_uri):
    oracle = jrh.evaluate(
        jrh.scripted.Oracle(),
        people_suite(9),
        experiment="graded",
        tracking_uri=store_uri,
        progress=False,
        traces="none",
    )
    done = jrh.agree(oracle)
    assert run_of(done, store_uri).data.tags["jrh.simulated"] == "true"
    assert any("Simulated" in note for note in done.notes)


def test_the_first_of_several_answers_counts_and_people_stay_in_a_run_without_texts(store_uri):
    asked: dict[str, int] = {}

    def wavering(presentation: jrh.Presentation) -> str:
        text = str(presentation.response)
        asked[text] = asked.get(text, -1) + 1
        return ("no", "yes")[(int(text.split()[1]) % 3 > 0) ^ bool(asked[text])]

    options = {"experiment": "graded", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    run = jrh.evaluate(wavering, people_suite(9), replicates=2, concurrency=1, texts=False, **options)
    done = jrh.agree(run.run_id, tracking_uri=store_uri, log=False)
    accuracy = done.estimates["agreement/accuracy"]
    assert isinstance(accuracy, Estimate)
    assert accuracy.value > 0.8
    assert "The judge was asked 2 times about each item: its first answer counts." in done.notes


def test_an_evaluation_without_peoples_labels_is_refused(store_uri, evaluation):
    suite = jrh.datasheet_suite(n_tasks=2, depth=1)
    options = {"experiment": "graded", "tracking_uri": store_uri, "progress": False, "traces": "none"}
    pairs = jrh.evaluate(jrh.scripted.AlwaysTie(), suite, **options)
    with pytest.raises(RecipeError, match="carries no labels of people"):
        jrh.agree(pairs, log=False)
    with pytest.raises(RecipeError, match="leave `judge` out"):
        jrh.agree(evaluation, judge="other", log=False)
    with pytest.raises(RecipeError, match="There is no run"):
        jrh.agree("0" * 32, tracking_uri=store_uri, log=False)


# The command.


def run_command(*arguments: str):
    return CliRunner().invoke(command, list(arguments))


def test_the_command_prints_a_screen_a_page_or_json(tmp_path, store_uri):
    labels().to_csv("labels.csv", index=False)
    options = ["labels.csv", "--judge", "gpt", "--positive", "pass", "--tracking-uri", store_uri]
    screen = run_command(*options, "--group", "topic")
    assert screen.exit_code == 0, screen.output
    assert "gpt agrees with " in screen.output
    assert "human ceiling" in screen.output
    assert "&" not in screen.output
    assert "logged: run " in screen.output
    page = run_command(*options, "--markdown", "--no-log")
    assert page.output.startswith("# Agreement of gpt with 3 people")
    assert "logged:" not in page.output
    facts = json.loads(run_command(*options, "--json", "--no-log").output)
    assert facts["run_id"] is None
    assert facts["estimates"]["agreement/accuracy"]["n"] > 0
    assert facts["judge"] == {"name": "gpt"}
    assert all(math.isfinite(value) for value in facts["metrics"].values())


def test_the_command_takes_a_column_of_clusters():
    labels().assign(talk=lambda rows: rows["item"].str[1:].astype(int) // 4).to_csv("labels.csv", index=False)
    options = ["labels.csv", "--judge", "gpt", "--positive", "pass", "--no-log", "--json"]
    facts = json.loads(run_command(*options, "--cluster", "talk").output)
    assert facts["n_clusters"] == 30
    assert facts["estimates"]["agreement/accuracy"]["n_clusters"] == 30
    assert {row["cluster"] for row in facts["calibration"]} == set(map(str, range(30)))
    assert json.loads(run_command(*options).output)["n_clusters"] is None


@pytest.mark.parametrize(
    ("scale", "kind"), [("fail,pass", "ordinal"), ("numeric", "numeric"), ("0-1.5", "numeric"), (None, "nominal")]
)
def test_the_scale_is_read_from_the_command_line(scale, kind):
    words = ("0", "1") if kind == "numeric" else ("fail", "pass")
    labels(12, words=words).to_csv("labels.csv", index=False)
    done = run_command("labels.csv", "--judge", "gpt", "--no-log", "--json", *(["--scale", scale] if scale else []))
    assert json.loads(done.output)["kind"] == kind


def test_bad_input_ends_with_one_line_and_code_2(monkeypatch, capsys):
    labels(6).pivot(index="item", columns="rater", values="label").reset_index().to_csv("wide.csv", index=False)
    labels(6).to_csv("labels.csv", index=False)
    told = {
        ("nowhere.csv",): "There is no file nowhere.csv",
        ("wide.csv", "--judge", "gpt"): "melt(id_vars='item', var_name='rater', value_name='label')",
        ("labels.csv", "--judge", "ann\x1b[31m"): "No rater is called",
        ("labels.csv", "--judge", "gpt", "--scale", "bad,good"): "outside the scale",
        ("labels.csv", "--queue", "again"): "`queue` is about traces",
    }
    for arguments, problem in told.items():
        monkeypatch.setattr("sys.argv", ["jrh", "agree", *arguments, "--no-log"])
        with pytest.raises(SystemExit) as stopped:
            _run()
        said = capsys.readouterr()
        assert (stopped.value.code, said.out) == (2, "")
        assert said.err.startswith("jrh: ")
        assert problem in said.err
        assert said.err.count("\n") == 1
        assert "\x1b" not in said.err


def test_the_help_has_an_example():
    assert "Example: jrh agree labels.csv" in run_command("--help").output


def test_other_column_names_can_be_given() -> None:
    frame = labels(5)
    named = frame.rename(columns={"item": "trace", "rater": "who", "label": "grade"})
    done = jrh.agree(named, judge="gpt", item="trace", rater="who", label="grade", log=False)
    assert done.estimates == jrh.agree(frame, judge="gpt", log=False).estimates
