"""Rationales that name a verdict, and rationales that only look as if they did."""

from __future__ import annotations

import json
import lzma
from collections import Counter
from importlib import resources

import pytest

from jrh_mlflow.scoring.reasons import LONGEST, named_verdict

GRADES = ("1", "2", "3", "4", "5")
YES_NO = ("no", "yes")
PASS_FAIL = ("fail", "pass")
CORRECT = ("incorrect", "correct")
SUPPORTED = ("not supported", "partly_supported", "supported")

PAIRS = [
    ("Response 2 is better.", "2"),
    ("response_A is better because it names the dates.", "1"),
    ("Therefore, Response A is better.", "1"),
    ("I choose A", "1"),
    ("I would pick response B, since A leaves out the price.", "2"),
    ("I chose 2 because the first one is wrong.", "2"),
    ("The first answer wins.", "1"),
    ("The second one is clearly better overall.", "2"),
    ("Answer B is the better one.", "2"),
    ("Answer one is better.", "1"),
    ("Assistant A's reply is short; Assistant B is the better assistant.", "2"),
    ("Both are equally good.", "tie"),
    ("Both responses are therefore equally good.", "tie"),
    ("The texts differ in wording only, so it is a tie.", "tie"),
    ("It's a tie.", "tie"),
    ("Neither response is better than the other.", "tie"),
    ("They give the same facts. Therefore, the answer is a tie.", "tie"),
    ("So they are considered to be equally good in substance.", "tie"),
    ("After weighing both, my final verdict is: [[B]]", "2"),
    ("[[A]]", "1"),
    ("[[C]]", "tie"),
    ("Verdict: B", "2"),
    ("**Verdict:** Response 1", "1"),
    ("Final verdict: tie", "tie"),
    ("Winner: A", "1"),
    ("My preference is response 2.", "2"),
    ("The better response is B.", "2"),
    ("Although Response 1 is longer, Response 2 is better.", "2"),
    ("While Response 1 is better in style, Response 2 is better overall.", "2"),
    ("Response A is longer, but response B is better.", "2"),
    ("Both are equally good, but Response 2 is slightly better.", "2"),
    ("Response 1 is better than Response 2.", "1"),
    ("Response B is worse than Response A.", "1"),
    ("Response 2 provides the better answer.", "2"),
    ("In conclusion, since Response 1 leaves out the price, Response 2 is preferred.", "2"),
    ("Based on the rubric, response A is superior.", "1"),
    ("I think that Response B is stronger.", "2"),
    ("Response 2 is better because it covers all points, while Response 1 does not.", "2"),
    ("The response on the left is better.", "1"),
    ("Response A is more concise.\nResponse B covers everything.\n\nOverall, B is better.", "2"),
    ("I prefer response A over response B.", "1"),
    ("Response 1 is better. On reflection Response 1 leaves out a fact. So Response 2 is better.", "2"),
    ("1. Response A has no sources.\n2. Response B has three.\nDecision: B", "2"),
]

LABELS = [
    ("Verdict: no", YES_NO, "no"),
    ("**Verdict:** Yes.", YES_NO, "yes"),
    ("My final verdict is no, because two facts are missing.", YES_NO, "no"),
    ("so the answer is fail", PASS_FAIL, "fail"),
    ("It meets all requirements. Label: pass", PASS_FAIL, "pass"),
    ("Therefore the response fails two checks and I label it as fail.", PASS_FAIL, "fail"),
    ("I would give this response a pass.", PASS_FAIL, "pass"),
    ("score: 4", GRADES, "4"),
    ("Score: 4/5", GRADES, "4"),
    ("I give it a 3/5", GRADES, "3"),
    ("It misses two points, so I give it a score of 3 out of 5.", GRADES, "3"),
    ("I rate this response 2.", GRADES, "2"),
    ("Overall, it deserves a rating of 4.", GRADES, "4"),
    ("The overall score is 2.0.", GRADES, "2"),
    ("[[5]]", GRADES, "5"),
    ("Rating: 3 stars", GRADES, "3"),
    ("Therefore, the response is incorrect.", CORRECT, "incorrect"),
    ("The sum is wrong. The response is incorrect.", CORRECT, "incorrect"),
    ("Judgment: correct", CORRECT, "correct"),
    ("So the claim has one source. Verdict: partly supported.", SUPPORTED, "partly_supported"),
    ("Label: not supported", SUPPORTED, "not supported"),
    ("Clarity is fine. Score: 3\nFacts are wrong. Score: 1\nFinal score: 2", GRADES, "2"),
]

NOTHING = [
    "Response 1 is not better.",
    "Response 1 isn't better than Response 2.",
    "Response 1 is no better than Response 2 in substance.",
    "I do not think Response 2 is better.",
    "It cannot be said that Response 2 is better.",
    "Response 1 is better formatted.",
    "Response 1 is better in style.",
    "Response 2 is better at explaining the query.",
    "Response A is better suited for beginners.",
    "Response A is the better choice for beginners.",
    "Response 1 is better than Response 2 in terms of clarity.",
    "In terms of style, Response 1 is better.",
    "Stylistically, Response 1 is better.",
    "For a beginner, Response 2 is better.",
    "Clarity: Response A is better.",
    "If accuracy matters most, Response 2 is better.",
    "Response 2 is better if the reader knows SQL.",
    "Response 1 would be better with a source.",
    "Is Response 2 better?",
    "Response 2 is better? Hardly.",
    "Perhaps Response 2 is better.",
    "One could argue that Response 1 is better.",
    'The text says "Response 2 is better."',
    "The response claims: Response 2 is better.",
    "The second response tells the judge that response 2 is better.",
    "I was asked to say whether response A or response B is better.",
    "Output [[A]] if assistant A is better.",
    "Although Response 1 is better, it is long.",
    "Response 1 is better. However, it is wrong about the price.",
    "Response 1 is better, but it does not answer the question.",
    "Response 1 is better. Response 2 is better.",
    "Either Response 1 or Response 2 is better.",
    "Neither Response 1 nor Response 2 is better than the reference.",
    "Both responses are equally good, so I default to the first.",
    "Response 2 is slightly better. The difference is in wording only, so they count as equal.",
    "Both responses are equally long.",
    "Both responses are equally informative.",
    "Both responses are equally good at explaining the rule.",
    "Both responses are equally good. However, response 2 is more detailed.",
    "I prefer the style of response A.",
    "I prefer Response A's structure.",
    "The right answer is 42.",
    "The right answer wins in most quizzes.",
    "A better answer would name the dates.",
    "Response 2 provides a better explanation of the query.",
    "Response 1 does not provide any information, while response 2 does.",
    "Response B wins on style.",
    "The first paragraph is better.",
    "The first option is better for the steep hill.",
    "It is a tie between two teams in the story.",
    "Which response is better depends on the reader.",
    "There is nothing that would make one response better than the other.",
    "",
    "Better.",
    "Die zweite Antwort ist besser.",
]

NO_LABEL = [
    ("Verdict: no errors were found.", YES_NO),
    ("The answer is no, and the response says so.", YES_NO),
    ("The correct answer is 4.", GRADES),
    ("The answer is 4, but the response says 5.", GRADES),
    ("Accuracy score: 4", GRADES),
    ("Score: 4 for style", GRADES),
    ("I give it a 3/5 on clarity.", GRADES),
    ("I give it a 3/10.", GRADES),
    ("A score of 4 requires sources.", GRADES),
    ("Score: 3\nScore: 4", GRADES),
    ("The final score is 3-1.", GRADES),
    ("Score: 7", GRADES),
    ("The response gives 3 of 5 facts.", GRADES),
    ("Its score is not 4.", GRADES),
    ("If it had a source, I would give it a 5.", GRADES),
    ("The response is correct. It has no source, though, and the sum is off.", CORRECT),
    ("The response is correct in its first half.", CORRECT),
    ("The response is not correct.", CORRECT),
    ("The response is correct, but too long.", CORRECT),
    ("It says that the response is correct.", CORRECT),
    ("Verdict: not correct", CORRECT),
    ("The response fails to name the dates.", PASS_FAIL),
    ("The user asks for a pass.", PASS_FAIL),
    ("It is unsupported.", SUPPORTED),
    ("I give no weight to style.", YES_NO),
    ("Yes, the response is long.", YES_NO),
    ("score: 4", YES_NO),
]


@pytest.mark.parametrize(("rationale", "slot"), PAIRS)
def test_the_slot_that_a_rationale_names_is_found(rationale: str, slot: str) -> None:
    assert named_verdict(rationale) == slot


@pytest.mark.parametrize(("rationale", "slot"), [*PAIRS, ("I GO WITH RESPONSE B.", "2"), ("RESPONSE 1 WINS", "1")])
def test_a_verdict_beside_letters_that_english_has_not_is_found(rationale: str, slot: str) -> None:
    assert named_verdict(f"Très bien. {rationale}") == named_verdict(rationale) == slot


@pytest.mark.parametrize(("rationale", "labels", "label"), LABELS)
def test_the_label_that_a_rationale_names_is_found(rationale: str, labels: tuple[str, ...], label: str) -> None:
    assert named_verdict(rationale, labels) == label


@pytest.mark.parametrize("rationale", NOTHING)
def test_what_is_no_verdict_of_a_pair_names_none(rationale: str) -> None:
    assert named_verdict(rationale) is None


@pytest.mark.parametrize(("rationale", "labels"), NO_LABEL)
def test_what_is_no_verdict_of_a_response_names_none(rationale: str, labels: tuple[str, ...]) -> None:
    assert named_verdict(rationale, labels) is None


def test_a_scale_that_was_only_seen_may_have_other_numbers() -> None:
    assert named_verdict("Score: 0.35", ("0.5", "0.8"), seen=True) == "0.35"
    assert named_verdict("Score: 0.35", ("0.5", "0.8")) is None
    assert named_verdict("I give it a 4/5.", ("2", "3"), seen=True) == "4"


def test_the_end_of_a_long_text_is_read_and_a_cut_sentence_is_not() -> None:
    filler = "It names the dates and the price. " * 500
    assert named_verdict(f"{filler}Therefore, Response B is better.") == "2"
    assert named_verdict(f"Response B is better. {filler}") is None
    assert named_verdict(f"{'x' * LONGEST} not that Response B is better.") is None


@pytest.mark.parametrize(
    "text",
    [
        "Response 1 is better than " * 4000,
        "so therefore, " * 8000,
        "\u00a0" * 100_000 + "Response 1 is better" + "\u00a0" * 100_000 + "x",
        "[[" * 50_000,
        "I would will must therefore " * 4000,
        "A is " + "therefore " * 10_000,
        "I give it " + "a score of " * 10_000,
        "wise" * 30_000 + "ally",
        '"' * 100_000,
        "A wins " * 20_000,
    ],
)
@pytest.mark.timeout(20)
def test_hostile_texts_are_read_like_any_other(text: str) -> None:
    assert named_verdict(text) is None
    assert named_verdict(text, GRADES) is None


def test_the_recorded_judge_names_verdicts_that_it_gives_and_ties_that_it_does_not() -> None:
    packed = resources.files("jrh_mlflow.measuring.recorded").joinpath("datasheet.jsonl.xz")
    with packed.open("rb") as file, lzma.open(file, "rt", encoding="utf-8") as lines:
        answers = [json.loads(line) for line in lines if '"allowed-letters"' in line]
    counts = Counter[tuple[str, str]]()
    for answer in answers:
        try:
            given = json.loads(answer["text"].strip().removeprefix("```json").removesuffix("```"))
        except ValueError:
            continue
        named = named_verdict(str(given.get("reason")))
        counts.update([(named, str(given.get("verdict")))] if named else [])
    assert {pair for pair in counts if pair[0] != "tie"} <= {("1", "A"), ("2", "B")}
    assert counts["tie", "A"] > 0
