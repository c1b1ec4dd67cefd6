"""An optimiser of MLflow's inside ours: what it sees, what is measured, what is returned."""

from __future__ import annotations

import copy
import gc
import io
import threading
import warnings
from types import FrameType, FunctionType, ModuleType
from typing import Any

import pandas as pd
import pytest
from mlflow.entities import Trace
from mlflow.genai.judges import AlignmentOptimizer

import jrh_mlflow as jrh
from jrh_mlflow.errors import JrhWarning, JudgeError, RecipeError
from jrh_mlflow.outputs import csv_text
from jrh_mlflow.people.alignment.aligned import alignment_content
from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.tracking.judges.scorers import in_memory_trace
from tests.people.alignment.align_tools import (
    NAME,
    CodeJudge,
    Returns,
    does_nothing,
    labelled,
    number_of,
    right_on,
    said,
    trace_of,
    truth,
)


def checked(inner: Any, **settings: Any) -> jrh.CheckedOptimizer:
    return jrh.CheckedOptimizer(inner, log=False, **{"concurrency": 1, "suite": None, **settings})


def ids(traces: list[Trace]) -> set[str]:
    return {trace.info.trace_id for trace in traces}


def aligned_by(optimizer: jrh.CheckedOptimizer, judge: CodeJudge, traces: list[Trace]) -> tuple[Any, jrh.Alignment]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JrhWarning)
        returned = judge.align(traces, optimizer=optimizer)
    assert optimizer.result is not None
    return returned, optimizer.result


def test_a_better_judge_is_found_and_returned_by_mlflows_own_align():
    better = right_on(lambda number: number % 20 != 0)
    optimizer = checked(Returns(lambda *_: better))
    assert isinstance(optimizer, AlignmentOptimizer)
    returned, result = aligned_by(optimizer, right_on(lambda number: number % 3 != 0), labelled(200))
    assert returned is better is result.judge
    assert result.decision == "better"
    assert isinstance(result.difference, Estimate)
    assert result.difference.n == 100
    assert result.difference.ci_low is not None
    assert result.difference.ci_low > 0
    assert "it is better" in result.reason


def test_a_worse_judge_is_sent_back_and_the_old_one_returned_with_a_warning():
    judge, worse = right_on(lambda _: True), right_on(lambda number: number % 3 != 0)
    optimizer = checked(Returns(lambda *_: worse))
    with pytest.warns(JrhWarning, match="Sent back, the judge is as it was: .*it is worse"):
        assert judge.align(labelled(200), optimizer=optimizer) is judge
    assert optimizer.result is not None
    assert (optimizer.result.decision, optimizer.result.judge, optimizer.result.aligned) == ("sent back", judge, worse)


def test_an_optimiser_that_does_nothing_is_not_worse_and_never_better():
    judge = right_on(lambda number: number % 4 != 0)
    returned, result = aligned_by(checked(does_nothing()), judge, labelled(160))
    assert returned is judge
    assert result.decision == "not worse"
    assert isinstance(result.difference, Estimate)
    assert (result.difference.value, result.report.agreement.gains) == (0, 0)


def test_an_optimiser_that_memorises_its_training_traces_is_sent_back():
    """It knows all it was shown and guesses the rest: measured where it learned it would read 1."""
    judge, traces = right_on(lambda number: number % 5 != 0), labelled(100)

    def memorise(_: Any, training: Any) -> CodeJudge:
        known = {trace.info.trace_id: trace.info.assessments[0].value for trace in training}
        return CodeJudge(lambda outputs, trace: known.get(trace.info.trace_id, "yes"))

    returned, result = aligned_by(checked(Returns(memorise)), judge, traces)
    assert (returned, result.decision) == (judge, "sent back")


def reachable(*roots: Any) -> set[str]:
    """Ids of the traces that can be reached from objects, however deep; code is not followed."""
    seen, ahead, found = set[int](), list(roots), set[str]()
    while ahead:
        one = ahead.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | FrameType):
            continue
        seen.add(id(one))
        if isinstance(one, Trace):
            found.add(one.info.trace_id)
        ahead += gc.get_referents(one)
    return found


@pytest.mark.parametrize("holdout", [0.3, 0.5])
def test_the_inner_optimiser_sees_each_training_trace_and_nothing_of_the_held_out_ones(holdout):
    """Not through the judge either, which remembers what it was shown."""
    judge, traces, inner = right_on(lambda _: True), labelled(80), does_nothing()
    found: list[set[str]] = []

    def look_around(given: Any, training: Any) -> Any:
        found.append(reachable(given, training, inner))
        return given

    inner.made = look_around
    _, result = aligned_by(checked(inner, holdout=holdout), judge, traces)
    held_out = {one.trace for one in result.report.traces}
    assert len(held_out) == round(80 * holdout)
    assert held_out <= ids(judge.seen)
    assert found == [ids(traces) - held_out] == [ids(inner.traces)]
    assert all(trace.info.assessments for trace in inner.traces), "it learns from what people said"


def test_the_judge_never_sees_what_was_said_about_the_trace_it_judges():
    judge, traces = right_on(lambda number: number % 4 != 0), labelled(80)
    after = right_on(lambda number: number % 4 != 0)
    aligned_by(checked(Returns(lambda *_: after), suite="short"), judge, traces)
    for one in (judge, after):
        assert len(one.seen) == 40 + 40
        assert not any(trace.info.assessments for trace in one.seen)
    assert all(trace.info.assessments for trace in traces), "the user's traces are as they were"


def test_an_expectation_under_the_judges_name_is_not_shown_to_it_and_others_are():
    from mlflow.entities import AssessmentSource, Expectation, Feedback

    class Expects(CodeJudge):
        def __call__(self, *, outputs: Any = None, expectations: Any = None, trace: Any = None) -> Feedback:
            shown.append(expectations)
            return Feedback(name=self.name, value=truth(outputs))

    shown: list[Any] = []
    human = AssessmentSource(source_type="HUMAN", source_id="ann")
    told = [Expectation(name=name, value=name, source=human) for name in (NAME.upper(), "facts")]
    traces = [trace_of(number, said(truth(f"Reply {number}")), *told) for number in range(40)]
    aligned_by(checked(does_nothing()), Expects(lambda *_: "yes"), traces)
    assert shown == [{"facts": "facts"}] * 40


def test_the_split_is_by_label_and_the_same_for_the_same_seed_whatever_the_order():
    judge, traces = right_on(lambda _: True), labelled(50, label=lambda number: "yes" if number % 5 == 0 else "no")
    runs = []
    for order, seed in ((traces, 0), (traces[::-1], 0), (traces, 1)):
        optimizer = checked(does_nothing(), seed=seed)
        _, result = aligned_by(optimizer, judge, order)
        runs.append({one.trace for one in result.report.traces})
        assert sum(one.label == "yes" for one in result.report.traces) == 5
    assert runs[0] == runs[1] != runs[2]


def test_traces_without_a_label_of_a_person_are_left_out_and_counted():
    unlabelled = [trace_of(500 + number, said("yes", "model", kind="LLM_JUDGE")) for number in range(3)]
    unlabelled += [trace_of(600, said("yes", name="rude")), trace_of(601, said("yes", valid=False))]
    split = [trace_of(700, said("yes", "ann"), said("no", "bob"))]
    three = [trace_of(701, said("yes", "ann"), said("no", "bob"), said("no", "cem"))]
    traces = [*labelled(160), *unlabelled, *split, *three]
    inner = does_nothing()
    _, result = aligned_by(checked(inner), right_on(lambda _: True), [*traces, traces[0]])
    assert result.report.counts == {
        "given": 168,
        "training": 81,
        "held out": 80,
        "without a person's label": 5,
        "without a majority of people": 1,
        "given twice": 1,
    }
    assert ids(inner.traces).isdisjoint(ids([*unlabelled, *split]))


def test_traces_of_the_same_content_are_never_on_both_sides_and_count_once():
    """A copy of a training trace among the held-out ones would be known by heart."""
    single = labelled(100)
    copies = [trace_of(number, said(truth(f"Reply {number}"))) for number in range(100)]
    for number, trace in enumerate(copies):
        trace.info.trace_id = f"tr-copy-{number}"
    inner = does_nothing()
    _, result = aligned_by(checked(inner), right_on(lambda _: True), [*single, *copies])
    held_out = [one for one in [*single, *copies] if one.info.trace_id in {each.trace for each in result.report.traces}]
    assert len(held_out) == 50
    assert {number_of(trace.data.spans[0].outputs) for trace in inner.traces}.isdisjoint(
        number_of(trace.data.spans[0].outputs) for trace in held_out
    )
    assert result.report.counts["same content as a held-out trace"] == 50


def test_what_the_judge_has_learned_from_before_is_never_held_out():
    """A judge that was aligned before carries traces: their ids in its memory, or their words in its instructions."""
    traces = labelled(100)
    remembered, quoted = traces[:20], traces[20:30]
    judge = right_on(lambda _: True)
    words = "\n".join(trace.data.spans[0].outputs + " It is a whole reply." for trace in quoted)
    judge._instructions = f"Is {{{{ outputs }}}} polite? Examples: {words}"
    object.__setattr__(judge, "_episodic_trace_ids", [trace.info.trace_id for trace in remembered])
    inner = does_nothing()
    _, result = aligned_by(checked(inner), judge, traces)
    assert ids([*remembered, *quoted]) <= ids(inner.traces)
    assert result.report.counts["known to the judge"] == 30


def test_an_optimiser_that_changes_the_judge_in_place_does_not_change_the_users():
    judge = right_on(lambda _: True)
    wrong = right_on(lambda _: False)

    def spoil(given: Any, _: Any) -> Any:
        given._answer = wrong._answer
        return given

    returned, result = aligned_by(checked(Returns(spoil)), judge, labelled(160))
    assert (returned, result.decision) == (judge, "sent back")
    assert judge._answer is not wrong._answer


def test_a_judge_that_cannot_be_copied_whole_is_aligned_all_the_same():
    judge = right_on(lambda _: True)
    judge._lock = threading.Lock()
    returned, result = aligned_by(checked(does_nothing()), judge, labelled(160))
    assert (returned.name, result.decision) == (NAME, "not worse")


def test_traces_whose_root_has_no_inputs_and_outputs_are_told_apart_by_their_spans():
    """As OpenTelemetry writes them; they are not all of one content."""

    def inner_span(number: int) -> Trace:
        trace = trace_of(number, said(truth(f"Reply {number}")))
        bare = in_memory_trace(None, None)
        bare.info = trace.info
        (span,) = trace.data.spans
        bare.data.spans.append(span)
        span._span._parent = span._span.context
        return bare

    judge = CodeJudge(lambda _, trace: truth(trace.data.spans[-1].outputs))
    _, result = aligned_by(checked(does_nothing()), judge, [inner_span(number) for number in range(160)])
    assert len(result.report.traces) == 80


@pytest.mark.parametrize("traces", [pd.DataFrame({"trace": ["tr-1"]}), ["tr-1"], []])
def test_what_are_no_traces_is_told_with_how_to_get_some(traces):
    with pytest.raises(RecipeError, match=r"return_type=\"list\"|None of 0 traces"):
        checked(does_nothing()).align(right_on(lambda _: True), traces)


def test_failed_and_unreadable_answers_are_no_verdicts_and_too_many_send_it_back():
    judge, after = right_on(lambda number: number % 3 != 0), right_on(lambda _: True)
    whole = after._answer

    def flattering(share: int) -> CodeJudge:
        failing: list[Any] = [ValueError("no service"), "perhaps", None]
        return CodeJudge(
            lambda outputs, trace: (
                failing[number_of(outputs) % 3] if number_of(outputs) % share == 0 else whole(outputs, trace)
            )
        )

    _, result = aligned_by(checked(Returns(lambda *_: flattering(8))), judge, labelled(80))
    assert result.decision == "sent back"
    assert "the judge after aligning " in result.reason
    _, result = aligned_by(checked(Returns(lambda *_: flattering(40))), judge, labelled(200))
    assert result.decision == "better"
    assert isinstance(result.difference, Estimate)
    assert 0 < result.difference.excluded <= 5
    assert result.difference.n + result.difference.excluded == 100


def test_a_judge_that_hardly_answers_is_refused_before_anything_is_paid_for_alignment():
    inner = does_nothing()
    with pytest.raises(JudgeError, match=r"no verdict on 80 of 80 held-out traces .*ValueError: no service"):
        checked(inner).align(CodeJudge(lambda *_: ValueError("no service")), labelled(160))
    assert inner.judges == []


def test_too_few_traces_are_told_beforehand_with_how_many_it_would_take():
    inner, judge, heard = does_nothing(), right_on(lambda _: True), list[int]()
    with pytest.raises(RecipeError, match=r"4 held-out traces can decide nothing.*at least 10 labelled.*146"):
        checked(inner).align(judge, labelled(8))
    assert (inner.judges, judge.seen) == ([], [])
    with pytest.warns(JrhWarning) as told:
        checked(Returns(lambda *_: heard.append(len(told)) or judge)).align(judge, labelled(40))
    first = "20 held-out traces cannot show that an aligned judge is not worse by 0.05: 73 could"
    assert str(told[0].message).startswith(first)
    assert heard == [1], "said before it was aligned"


def test_too_few_traces_to_learn_from_are_told_before_anything_is_asked():
    class Dear(Returns):
        def get_min_traces_required(self) -> int:
            return 10

    inner, judge = Dear(lambda given, _: given), right_on(lambda _: True)
    with pytest.raises(RecipeError, match="Dear needs 10 traces to learn from, and 6 are left"):
        checked(inner, holdout=0.9).align(judge, labelled(60))
    assert judge.seen == []


@pytest.mark.parametrize("made", [None, "better", 3])
def test_what_is_no_judge_is_refused(made):
    with pytest.raises(RecipeError, match="returned no judge"):
        aligned_by(checked(Returns(lambda *_: made)), right_on(lambda _: True), labelled(40))


@pytest.mark.parametrize(
    "settings", [{"holdout": 0}, {"holdout": 1}, {"margin": 0}, {"margin": 1}, {"suite": "long"}, {"concurrency": 0}]
)
def test_settings_that_make_no_sense_are_refused_at_once(settings):
    with pytest.raises(ValueError, match="must"):
        jrh.CheckedOptimizer(does_nothing(), **settings)
    with pytest.raises(RecipeError, match="An inner optimiser has the method align"):
        jrh.CheckedOptimizer("simba")


def test_labels_of_people_and_answers_of_judges_meet_whatever_their_type():
    """People click yes and no, the judge says True and False; MLflow's own metric compares their words."""
    judge = CodeJudge(lambda outputs, _: truth(outputs) == "yes")
    _, result = aligned_by(checked(does_nothing()), judge, labelled(40))
    assert isinstance(result.before, Estimate)
    assert result.before.value == 1
    typed = {"yes": "caf\u00e9 ", "no": "3.0"}
    spelled = CodeJudge(lambda outputs, _: {"yes": "CAFE\u0301", "no": 3}[truth(outputs)])
    people = labelled(40, label=lambda number: typed["yes" if number % 2 else "no"])
    _, result = aligned_by(checked(does_nothing()), spelled, people)
    assert isinstance(result.before, Estimate)
    assert (result.before.value, result.before.n) == (1, 20)
    one_sided = labelled(160, label=lambda _: "yes")
    _, result = aligned_by(checked(does_nothing()), right_on(lambda _: True), one_sided)
    assert isinstance(result.before, Estimate)
    assert result.before.value == pytest.approx(0.5, abs=0.1), "a no that no person ever said is a verdict"


def test_numbers_agree_exactly_and_kappas_stand_beside():
    traces = labelled(60, label=lambda number: number % 5 + 1)
    judge = CodeJudge(lambda outputs, _: float(number_of(outputs) % 5 + 1))
    off = CodeJudge(lambda outputs, _: number_of(outputs) % 5 + 1.5)
    returned, result = aligned_by(checked(Returns(lambda *_: off), scale="numeric"), judge, traces)
    assert (returned, result.decision) == (judge, "sent back")
    kappa = result.report.kappa
    assert isinstance(kappa["before"], Estimate)
    assert isinstance(kappa["after"], Estimate)
    assert kappa["before"].value == 1
    assert 0.9 < kappa["after"].value < 1
    with pytest.raises(
        RecipeError, match=r"The label '5' on trace .* is outside the scale: it must be one of 1, 2, 3, 4"
    ):
        checked(does_nothing(), scale=[1, 2, 3, 4]).align(judge, traces)


def test_on_an_ordered_scale_several_people_count_by_their_median():
    votes = [("poor", "fair", "good"), ("poor", "good")]
    traces = [trace_of(n, *(said(v, by) for v, by in zip(votes[n % 2], "abc", strict=False))) for n in range(60)]
    judge = CodeJudge(lambda *_: "fair")
    _, result = aligned_by(checked(does_nothing(), scale=["poor", "fair", "good"], holdout=0.9), judge, traces)
    assert {one.label for one in result.report.traces} == {"fair"}
    assert result.report.counts["without a majority of people"] == 30


def test_the_short_suite_lays_outputs_out_otherwise_and_changes_no_word():
    judge = right_on(lambda _: True)
    traces = labelled(160)
    _, result = aligned_by(checked(does_nothing(), suite="short"), judge, traces)
    by_id = {trace.info.trace_id: trace for trace in traces}
    shown = [(trace, by_id[trace.info.trace_id].data.spans[0].outputs) for trace in judge.seen]
    changed = [(trace.data.spans[0].outputs, plain) for trace, plain in shown if trace.data.spans[0].outputs != plain]
    assert len(changed) == 2 * 60
    assert all(now.split() == plain.split() for now, plain in changed)
    assert result.suite is not None
    assert isinstance(result.suite.before, Estimate)
    assert (result.suite.before.value, result.suite.before.n) == (1, 60)
    assert {one.probe.rule for one in result.report.traces if one.probe} == {
        f"format_invariance_{k}" for k in (1, 2, 3)
    }


def test_outputs_that_are_data_are_reformatted_inside_and_what_has_no_words_is_left_alone():
    def answer(outputs: Any, _: Trace) -> str:
        return truth(outputs["choices"][0]["text"]) if isinstance(outputs, dict) else "no"

    chats = [
        trace_of(
            n, said(truth(f"Reply {n}")), outputs={"id": "x", "choices": [{"text": f"Reply {n}: thank you. Done."}]}
        )
        for n in range(120)
    ]
    numbers = [trace_of(n, said("no"), outputs=n) for n in range(200, 240)]
    judge = CodeJudge(answer)
    _, result = aligned_by(checked(does_nothing(), suite="short"), judge, [*chats, *numbers])
    rules = [one.probe.rule for one in result.report.traces if one.probe]
    assert len(rules) == 60
    assert "key_order" in rules
    assert isinstance(result.before, Estimate)
    assert result.before.value == 1
    assert result.suite is not None
    assert isinstance(result.suite.after, Estimate)
    assert result.suite.after.value == 1


def test_a_judge_that_minds_the_layout_reads_as_inconsistent_and_the_reason_says_so():
    judge = right_on(lambda _: True)
    fussy = CodeJudge(lambda outputs, _: truth(outputs) if outputs == " ".join(outputs.split()) else "no")
    returned, result = aligned_by(checked(Returns(lambda *_: fussy), suite="short"), judge, labelled(200))
    assert (returned, result.decision) == (fussy, "not worse")
    assert "It is less consistent with itself" in result.reason


def test_many_at_once_read_what_one_after_the_other_does():
    judge, after = right_on(lambda number: number % 3 != 0), right_on(lambda _: True)
    reports = [
        aligned_by(checked(Returns(lambda *_: after), concurrency=n, suite="short"), copy.copy(judge), labelled(60))[
            1
        ].report
        for n in (1, 8)
    ]
    assert reports[0] == reports[1]


@pytest.mark.drawn
def test_a_result_says_in_one_line_what_came_of_it():
    _, result = aligned_by(checked(does_nothing(), suite="short"), right_on(lambda _: True), labelled(160))
    assert repr(result).startswith("Alignment('polite': not worse, +0.00 [-0.05, +0.05]")
    assert "| before | after |" in result.to_markdown()
    assert result.to_dict()["decision"] == "not worse"
    assert len(result.to_frame()) == 80
    assert {text.get_text() for text in result.plot().axes[0].texts} == {"1.00 → 1.00, n 80", "1.00 → 1.00, n 60"}
    assert "Alignment of &#39;polite&#39;: not worse" in result._repr_html_()


def test_labels_are_other_peoples_text_and_run_nowhere():
    """A label may be a formula, HTML or Markdown: tables guard it, and the page does not repeat it."""
    hostile, fine = '=HYPERLINK("http://evil")', "<img src=x onerror=alert(1)>|[x](http://evil)"
    traces = labelled(40, label=lambda number: hostile if number % 2 else fine)
    judge = CodeJudge(lambda outputs, _: hostile if number_of(outputs) % 2 else fine)
    _, result = aligned_by(checked(does_nothing()), judge, traces)
    assert isinstance(result.before, Estimate)
    assert result.before.value == 1
    artifacts = alignment_content(result, {"before": "Is it polite?"}).artifacts
    table = artifacts["tables/held_out.csv"]
    assert isinstance(table, pd.DataFrame)
    written = pd.read_csv(io.StringIO(csv_text(table)), dtype=str)
    assert {text[0] for column in ("people", "before", "after") for text in written[column]} == {"'", "<"}
    assert "evil" not in result.to_markdown() + result._repr_html_()
