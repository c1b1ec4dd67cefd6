"""How the feedback of real MLflow judges and scorers becomes an outcome."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from jrh_mlflow.schema.presentation import FORCED_ANSWERS
from jrh_mlflow.tracking.judges.scorers import from_mlflow
from tests.tracking.judges.mlflow_chat import (
    KEY,
    MODEL,
    ChatServer,
    ask,
    chatting,
    compare,
    graded_call,
    pair_call,
    read,
    says,
    verdict,
)


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    with chatting(monkeypatch) as server:
        yield server


def test_make_judge_gives_slot_answers_ties_tokens_cost_and_rationale(chat: ChatServer) -> None:
    judge = from_mlflow(compare())
    for said, outcome, answer in (("A", "verdict", "1"), ("B", "verdict", "2"), ("tie", "tie", "")):
        chat.reply = lambda _, said=said: verdict(said)  # type: ignore[misc]
        record = ask(judge, pair_call())
        assert (record.outcome, record.answer) == (outcome, answer)
        assert (record.input_tokens, record.output_tokens) == (11, 7)
        assert record.rationale == "It is better."
        assert record.cost_usd == pytest.approx(11 * 0.15e-6 + 7 * 0.6e-6)


def test_a_model_without_a_price_costs_an_unknown_amount_and_not_nothing(chat: ChatServer) -> None:
    record = ask(from_mlflow(compare(model="openai:/nobody-knows-this-model")), pair_call())
    assert (record.outcome, record.input_tokens, record.cost_usd) == ("verdict", 11, None)


@pytest.mark.parametrize("outside", ["C", "A is better", 7, True, None, ["A"], {"winner": "A"}])
def test_a_value_outside_the_declared_type_is_unparsed(chat: ChatServer, outside: object) -> None:
    chat.reply = lambda _: verdict(outside)
    record = ask(from_mlflow(compare()), pair_call())
    assert (record.outcome, record.answer) == ("unparsed", "")
    assert repr(outside) in (record.error or "")


def test_what_cannot_be_read_is_told_in_the_answers_that_were_asked_for(chat: ChatServer) -> None:
    chat.reply = lambda _: verdict("loopback")
    assert ask(from_mlflow(compare()), pair_call()).error == "'loopback' is not one of 'A', 'B', 'tie'"
    chat.reply = lambda _: verdict("tie")
    assert ask(from_mlflow(compare()), pair_call(answers=FORCED_ANSWERS)).error == "'tie' is not one of 'A', 'B'"
    assert ask(from_mlflow(says("C")), pair_call()).error == "'C' is not one of 'A', 'B', 'tie'"
    own = from_mlflow(says("C"), answers={"left": "1", "right": "2"})
    assert ask(own, pair_call()).error == "'C' is not one of 'left', 'right'"
    assert ask(from_mlflow(says("C")), graded_call("pass", "fail")).error == "'C' is not one of 'pass', 'fail'"
    votes = ask(from_mlflow([says("C", name="odd"), says("A"), says("A")]), pair_call()).rationale or ""
    assert "odd: no vote. 'C' is not one of 'A', 'B', 'tie'" in votes


@pytest.mark.parametrize("prose", ["I prefer A.", "tie", "", "{'result': 'A'}"])
def test_a_reply_that_is_no_json_is_unparsed_with_its_text_kept(chat: ChatServer, prose: str) -> None:
    chat.reply = lambda _: prose
    record = ask(from_mlflow(compare()), pair_call())
    assert record.outcome == "unparsed"
    assert prose in (record.error or "").replace("\\'", "'")


def test_a_refused_request_is_an_error_and_the_key_is_not_in_it(chat: ChatServer) -> None:
    chat.reply = lambda _: 401
    record = ask(from_mlflow(compare()), pair_call())
    assert record.outcome == "error"
    assert "no service for the key [key]" in (record.error or "")
    assert KEY not in repr(record)


def test_a_key_that_the_service_echoes_is_stored_nowhere(chat: ChatServer) -> None:
    chat.reply = lambda _: verdict(f"echo {KEY}", rationale=f"your key is {KEY}, your header planted-header")
    judge = compare(
        base_url=f"{os.environ['OPENAI_API_BASE']}/chat/completions?token=planted-query",
        extra_headers={"X-Team": "planted-header"},
    )
    wrapped = from_mlflow(judge)
    record = ask(wrapped, pair_call())
    assert record.outcome == "unparsed"
    written = repr((record, wrapped.settings(), wrapped.prompt(), wrapped.fingerprint()))
    assert KEY not in written
    assert "planted" not in written


def test_a_built_in_judge_is_shown_the_response_and_says_yes_or_no(chat: ChatServer) -> None:
    from mlflow.genai.scorers import Guidelines

    judge = from_mlflow(Guidelines(guidelines=["Be polite."], model=MODEL))
    chat.reply = lambda _: verdict("no")
    record = ask(judge, graded_call("pass", "fail", response="Go away."))
    assert (record.outcome, record.answer, record.input_tokens) == ("verdict", "fail", 11)
    assert "Be polite." in chat.users_text()
    assert "Go away." in chat.users_text()
    chat.reply = lambda _: verdict("perhaps")
    assert ask(judge, graded_call("pass", "fail")).outcome == "unparsed"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((word, ("verdict", "1")) for word in ("A", " a ", "1", 1, 1.0, "FIRST", "Response A", "response 1")),
        *((word, ("verdict", "2")) for word in ("B", "b\n", "2", 2, "second", "response b", "Response 2")),
        ("Tie", ("tie", "")),
        ("abstain", ("abstain", "")),
        *((word, ("unparsed", "")) for word in ("AB", "A.", "both", "response  A", "A or B", 0, 1.5, True, False, "")),
        *((word, ("unparsed", "")) for word in (float("nan"), float("inf"), None)),
    ],
)
def test_exactly_the_stated_words_answer_a_pair(value: object, expected: tuple[str, str]) -> None:
    assert read(value, pair_call()) == expected


@pytest.mark.parametrize("label", ["yes", "pass", "true"])
@pytest.mark.parametrize(("value", "index"), [(True, 0), ("Yes", 0), ("PASS", 0), ("true", 0), (False, 1), ("No", 1)])
def test_yes_pass_true_and_bools_stand_for_one_another(label: str, value: object, index: int) -> None:
    labels = (label.upper(), {"yes": "no", "pass": "fail", "true": "false"}[label])
    assert read(value, graded_call(*labels)) == ("verdict", labels[index])


def test_a_label_is_itself_and_a_bool_is_no_number() -> None:
    assert read("Harmful", graded_call("harmful", "harmless")) == ("verdict", "harmful")
    assert read("yes", graded_call("harmful", "harmless")) == ("unparsed", "")
    assert read(True, graded_call("1", "0")) == ("unparsed", "")
    assert read("pass", graded_call("yes", "pass", "no")) == ("verdict", "pass")
    assert read(True, graded_call("yes", "pass", "no")) == ("unparsed", "")


def test_numbers_answer_a_scale_and_numbers_beside_it_do_not(chat: ChatServer) -> None:
    scale = graded_call("1", "2", "3", "4", "5")
    judge = from_mlflow(compare(instructions="Grade {{ outputs }}.", feedback_value_type=int))
    for said, expected in ((4, ("verdict", "4")), (4.0, ("verdict", "4")), ("4", ("verdict", "4"))):
        chat.reply = lambda _, said=said: verdict(said)  # type: ignore[misc]
        record = ask(judge, scale)
        assert (record.outcome, record.answer) == expected
    for beside in (4.5, 0, 6, "4/5", "four", float("nan")):
        assert read(beside, scale) == ("unparsed", "")


def test_a_tie_in_the_forced_arm_is_unparsed() -> None:
    assert read("tie", pair_call(answers=FORCED_ANSWERS)) == ("unparsed", "")


def test_own_answers_are_read_first_and_true_is_never_one() -> None:
    swapped = {"a": "2", "B": "1", 7: "tie"}
    assert read("A", pair_call(), answers=swapped) == ("verdict", "2")
    assert read(7.0, pair_call(), answers=swapped) == ("tie", "")
    assert read("second", pair_call(), answers=swapped) == ("verdict", "2")
    assert read(True, graded_call("1", "0"), answers={True: "1", False: "0"}) == ("verdict", "1")
    assert read(True, graded_call("good", "bad"), answers={1: "good"}) == ("unparsed", "")


def test_a_feedback_with_an_error_and_an_exception_are_the_outcome_error() -> None:
    from mlflow.entities import AssessmentError, Feedback

    broken = Feedback(value="A", error=AssessmentError(error_code="RATE_LIMIT", error_message="too many"))
    record = ask(from_mlflow(says(broken)), pair_call())
    assert (record.outcome, record.answer) == ("error", "")
    assert record.error == "JudgeError: said: RATE_LIMIT: too many"
    record = ask(from_mlflow(says(ValueError("no way"))), pair_call())
    assert (record.outcome, record.error) == ("error", "ValueError: no way")


def test_one_feedback_in_a_list_is_read_and_two_are_an_error() -> None:
    from mlflow.entities import Feedback

    assert read([Feedback(value="B")], pair_call()) == ("verdict", "2")
    record = ask(from_mlflow(says([Feedback(value="A"), Feedback(value="B")])), pair_call())
    assert record.outcome == "error"
    assert "2 feedbacks" in (record.error or "")


@pytest.mark.parametrize("provider", ["openai.decisions", "typesafe"])
@pytest.mark.parametrize(
    ("value", "told", "expected"),
    [
        (True, {"probability": "0.9"}, 0.9),
        (False, {"probability": "0.25"}, 0.75),
        ("yes", {"probability": 0.6}, 0.6),
        ("NO", {"probability": 0.0}, 1.0),
        ("fail", {"confidence": "0.7"}, 0.7),
        (False, {"confidence": "0.7", "probability": "0.1"}, 0.7),
        (False, {"confidence": "no number", "probability": "0.1"}, 0.9),
        ("perhaps", {"probability": "0.9"}, None),
        *(
            (True, {name: odd}, None)
            for odd in ("NaN", "1.2", "-0.1", "", "high", None, True, [0.5])
            for name in ("probability", "confidence")
        ),
        (True, {"model": "0.5"}, None),
    ],
)
def test_probabilities_in_the_metadata_are_the_confidence_of_the_answer_given(
    provider: str, value: object, told: dict[str, object], expected: float | None
) -> None:
    from mlflow.entities import Feedback

    feedback = Feedback(value=value, metadata={f"{provider}.{name}": amount for name, amount in told.items()})
    record = ask(from_mlflow(says(feedback)), graded_call("pass", "fail"))
    assert record.confidence == (None if expected is None else pytest.approx(expected))


def test_a_confidence_stays_that_of_the_answer_where_words_of_ones_own_stand_for_slots() -> None:
    from mlflow.entities import Feedback

    feedback = Feedback(value=False, metadata={"openai.decisions.probability": "0.2"})
    record = ask(from_mlflow(says(feedback), answers={True: "1", False: "2"}), pair_call())
    assert (record.answer, record.confidence) == ("2", pytest.approx(0.8))
