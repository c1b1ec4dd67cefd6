"""Whatever a generator does wrong, nothing of it reaches a suite: every rewrite is confirmed, every new text is new."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from mlflow import MlflowClient

import jrh_mlflow as jrh
from jrh_mlflow.cli.main import group
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.generation.generate import GenerationRun, price_generation
from jrh_mlflow.generation.report import set_aside_reasons
from jrh_mlflow.generation.writers import Generator
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.options import GenerationSettings
from tests import scripted_writer
from tests.cases import few
from tests.generation.tools import CHECKER, LABELS, PRICES, RUBRIC, WRITER, Player, compared, rows, run
from tests.loopback import LoopbackServer, Reply

KEEPING = ["semantic_paraphrase", "verbosity_bias_long", "verbosity_bias_short", "rubric_paraphrase"]
REWRITING = [["label_flip"], KEEPING, ["synthetic_ordinal"]]
"""Tests whose texts a generator writes, by the labels that they need."""
GERMAN = (
    "Der Rat der Stadt hat die Radwege gebaut, weil die Leute es wollten, und danach gab es weniger Unfälle als vorher "
    "in der ganzen Stadt, was niemand für möglich gehalten hatte, auch wenn manche nicht damit einverstanden waren."
)
CLAIM = "Beyond that, the mayor of Bergen resigned over it and the whole budget was lost."
TOPICS = [
    "Bees dance to tell their sisters where the clover stands. The angle gives the way, the length the distance.",
    "A kettle whistles when steam is pressed through a small hole. Cold water must be heated for minutes before that.",
    "Glass is made from sand that is molten in a furnace. Soda lets the sand melt early, lime makes it hard.",
    "Tides follow the moon, which pulls at the ocean. Twice a day the sea rises at the coast and falls back again.",
    "Bread rises because yeast eats sugar and breathes out gas. The dough holds that gas, so the loaf becomes light.",
    "Owls hear a mouse under the snow. Their ears sit at different heights, which tells them where a sound comes from.",
]


def essays(n: int = 6) -> list[dict[str, str]]:
    """Rows on different topics, with levels from 1 to 3."""
    task = "Explain it in a short paragraph."
    return [
        {"id": f"e{place}", "instruction": task, "response": TOPICS[place], "label": str(place % 3 + 1)}
        for place in range(n)
    ]


def original_of(brief: str) -> str:
    return brief.rpartition("=====BEGIN ORIGINAL=====\n")[2].partition("\n=====END ORIGINAL=====")[0]


def copies(original: str) -> str:
    return TOPICS[(TOPICS.index(original) + 1) % 6] if original in TOPICS else original


def cuts(original: str) -> str:
    words = original.split()
    return " ".join(words[: round(0.55 * len(words))]).rstrip(".,;?") + "."


def adds(original: str) -> str:
    return f"{scripted_writer.rewrite(original, '', None)} {CLAIM}"


MISBEHAVIOUR: dict[str, Callable[[str], str]] = {
    "copies": copies,
    "cuts": cuts,
    "adds": adds,
    "another language": lambda original: GERMAN,
    "refuses": lambda original: "I'm sorry, but I can't help with that.",
}


def honest(shown: jrh.Presentation) -> str:
    """Compare as a careful reader would; by the rubric none of the misbehaving texts deserves more than the lowest."""
    if (texts := compared(shown.response or "")) is None:
        return shown.answers[0]
    original, rewrite = texts
    last = original.rstrip(".?").split()[-1]
    return "kept" if last in rewrite and CLAIM not in rewrite and "Radwege" not in rewrite else "changed"


def settings_of(tests: list[str]) -> dict[str, Any]:
    return {"tests": tests, **({"labels": ("1", "2", "3")} if tests == KEEPING else {"scale": (1, 3)})}


@pytest.mark.parametrize("tests", REWRITING, ids="+".join)
@pytest.mark.parametrize("how", few(MISBEHAVIOUR, quick=2))
def test_a_misbehaving_generator_makes_no_item_of_any_rewriting_test(how: str, tests: list[str]) -> None:
    def generator(brief: str, temperature: float | None) -> str:
        return MISBEHAVIOUR[how](original_of(brief))

    # Everything aims above the lowest level: what a misbehaving generator writes does not deserve it.
    data = [{**row, "label": "1" if "label_flip" in tests else row["label"]} for row in essays()]
    done = run(data, None, None, generator=generator, validator=honest, **settings_of(tests))
    made = [item for item in done.suite.items if item.condition != "baseline"]
    # What the lowest level deserves no reader can tell: a cut text or one with a new claim may be just that.
    lowest = "synthetic_ordinal" in tests and how in ("cuts", "adds", "another language")
    assert not [item for item in made if not (lowest and item.expected == "1")]
    assert sum(done.suite.origin["set_aside"].values()) >= done.metrics["generate/set_aside"]
    assert all(done.made.tests[test].set_aside for test in tests)


def test_copies_of_other_rows_are_set_aside_with_the_twin_named_before_anybody_is_paid() -> None:
    asked: list[str] = []

    def validator(shown: jrh.Presentation) -> str:
        asked.append(shown.response or "")
        return shown.answers[0]

    def generator(brief: str, temperature: float | None) -> str:
        return copies(original_of(brief))

    # Three rows are drawn; the copied ones may be any row of the file.
    done = run(
        essays(),
        None,
        None,
        generator=generator,
        validator=validator,
        tests="synthetic_ordinal",
        scale=(1, 3),
        n=3,
    )
    assert not asked
    assert len(done.made.set_aside) == 9
    drawn = {item.task for item in done.suite.items}
    twins = {f"e{(int(task[1:]) + 1) % 6}" for task in drawn}
    assert {twin for one in done.made.set_aside for twin in twins if f"row {twin!r}" in one.reason} == twins
    assert set_aside_reasons(done.made)["near-copy"] == 9


def test_a_text_that_repeats_one_of_the_suite_is_set_aside_and_names_it() -> None:
    texts = iter([f"A new text on rivers, number {word}." for word in ("one", "one", "one")])
    said: dict[str, str] = {}

    def generator(brief: str, temperature: float | None) -> str:
        return said.setdefault(brief, next(texts, "A new text on rivers, number one."))

    options: dict[str, Any] = {"tests": "synthetic_ordinal", "scale": (1, 3), "validator": "none"}
    done = run(essays(2), None, None, generator=generator, **options)
    made = [item.id for item in done.suite.items if item.condition == "synthetic_ordinal"]
    # The first of the plan is kept, whoever was finished first.
    assert made == ["e0/synthetic_ordinal/1"]
    assert {f"item {made[0]!r}" in one.reason for one in done.made.set_aside} == {True}


def test_examples_come_from_the_whole_file() -> None:
    briefs: list[str] = []

    def generator(brief: str, temperature: float | None) -> str:
        briefs.append(brief)
        return "False"

    run(essays(), None, None, generator=generator, validator="none", tests="synthetic_ordinal", scale=(1, 3), n=1)
    assert {"(none)" in brief for brief in briefs} == {False}


@pytest.mark.parametrize("test", KEEPING)
def test_what_is_confirmed_says_by_whom_and_what_is_changed_is_set_aside(test: str) -> None:
    asked: Counter[tuple[str, ...]] = Counter()

    def every_other(shown: jrh.Presentation) -> str:
        asked[shown.answers] += 1
        return "kept" if asked[shown.answers] % 5 else "changed"

    done = run(rows(6), None, None, validator=every_other, tests=test)
    made = [item for item in done.suite.items if item.condition == test]
    assert made
    assert set(asked) == {("kept", "changed")}
    assert {(item.meta["validator"], item.meta["confirmed_by"]) for item in made} == {("kept", "every_other")}


def test_confirm_false_asks_nobody_and_is_logged(store_uri: str) -> None:
    asked: list[object] = []
    done = run(rows(2), None, store_uri, validator=asked.append, tests=["label_flip", *KEEPING[:1]], confirm=False)
    params = MlflowClient(store_uri).get_run(done.run_id).data.params
    assert (len(done.suite), asked) == (6, [])
    assert params["run.confirm"] == "false"
    assert done.suite.origin["confirm"] is False
    assert params["run.definitions"] == "protocol"


def refuses(shown: jrh.Presentation) -> str:
    raise RuntimeError("I will not look at this.")


@pytest.mark.parametrize("tests", REWRITING, ids="+".join)
def test_a_validator_that_refuses_is_asked_once_about_a_text_and_another_takes_its_place(tests: list[str]) -> None:
    about: dict[str, Any] = settings_of(tests)
    data = rows(4, levels=("1", "2", "3"))
    done = run(data, None, None, validator=[refuses, jrh.scripted.Oracle()], **about)
    made = [item for item in done.suite.items if item.condition != "baseline"]
    assert {item.condition for item in made} == {*tests}
    assert {item.meta["confirmed_by"] for item in made} == {jrh.scripted.Oracle().name}
    alone = run(data, None, None, validator=refuses, **about)
    assert {item.condition for item in alone.suite.items} == {"baseline"}
    for one in alone.made.set_aside:
        silent = [problem for attempt in one.attempts for problem in attempt.problems if "no answer" in problem]
        assert silent == [one.reason]


def refusing(body: dict[str, Any]) -> Reply:
    return Reply(refusal="I cannot look at this.")


def of_two(store_uri: str, first: Callable[[dict[str, Any]], str | Reply], **options: Any) -> tuple[GenerationRun, Any]:
    """Generate flips with two validators, of which the first answers as given."""
    player = Player(rows(3), tests="label_flip")
    with (
        LoopbackServer(reply=player) as server,
        LoopbackServer(reply=first) as other,
    ):
        asked = PromptedJudge("openai/first", api_base=other.url, max_tokens=64)
        then = PromptedJudge(CHECKER, api_base=server.url, max_tokens=64)
        validator = options.pop("validators", lambda *both: list(both))(asked, then)
        done = run(rows(3), server, store_uri, tests="label_flip", validator=validator, **options)
    return done, (player, other.counts["requests"])


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789")


@pytest.mark.parametrize("first", [refusing, lambda body: Reply(text="Hard to say.")], ids=["refuses", "says nothing"])
def test_the_next_validator_is_asked_and_named_and_no_text_is_written_twice(
    first: Callable[[dict[str, Any]], str | Reply], store_uri: str
) -> None:
    prices = {**PRICES, "openai/first": (10.0, 20.0)}
    done, (player, n_first) = of_two(store_uri, first, prices=prices, max_usd=5)
    flips = [item for item in done.suite.items if item.condition == "label_flip"]
    assert (len(flips), len(player.bodies["writer"])) == (3, 3)
    # Whether it is the text alone, and the judge's own question.
    assert (len(player.bodies["compared"]), len(player.bodies["checker"]), n_first) == (3, 3, 6)
    assert all(item.meta["confirmed_by"].startswith("checker") for item in flips)
    assert done.metrics["calls/total"] == 15
    params = MlflowClient(store_uri).get_run(done.run_id).data.params
    assert (params["validator.model"], params["validator_2.model"]) == ("openai/first", CHECKER)


def test_where_every_validator_refuses_each_text_is_written_once(store_uri: str) -> None:
    done, (player, n_first) = of_two(store_uri, refusing, validators=lambda first, then: first)
    assert (len(player.bodies["writer"]), n_first, len(done.made.set_aside)) == (3, 3, 3)
    assert set_aside_reasons(done.made) == {"validator gave no answer": 3}
    kept, _ = of_two(store_uri, refusing, validators=lambda first, then: first, pass_required=False)
    assert {item.meta.get("label_source") for item in kept.suite.items if item.condition == "label_flip"} == {
        "unverified"
    }


def test_the_quote_counts_every_validator_at_worst_and_the_first_one_else() -> None:
    generator = Generator(WRITER, api_base="http://127.0.0.1:1", attempts=2)
    judges = [PromptedJudge(f"openai/{name}", api_base="http://127.0.0.1:1", max_tokens=64) for name in "ab"]
    about: dict[str, Any] = {"dataset": rows(3), "rubric": RUBRIC, "labels": LABELS, "generator": generator}
    tests = {"tests": ["semantic_paraphrase", "format_invariance_1"], "prices": {WRITER: (1, 1)}}
    quoted = price_generation(GenerationSettings.checked({**about, **tests, "validator": judges}))
    assert (quoted.validator_calls, quoted.max_validator_calls) == (3, 12)
    off = price_generation(GenerationSettings.checked({**about, **tests, "validator": judges, "confirm": False}))
    assert (off.validator_calls, off.max_validator_calls) == (0, 0)


def test_a_list_with_nobody_in_it_is_refused() -> None:
    with pytest.raises(RecipeError, match="none"):
        run(rows(2), None, None, tests="label_flip", validator=["none", "openai/x"])


def test_command_line_and_recipe_take_several_validators(tmp_path: Path, store_uri: str) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(rows(2)))
    (tmp_path / "judges.py").write_text("def silent(shown):\n    return None\n\ndef kind(shown):\n    return 'kept'\n")
    writer = {"callable": f"{scripted_writer.__file__}:write"}
    recipe = {
        "dataset": "rows.json",
        "generator": writer,
        "rubric": RUBRIC,
        "labels": list(LABELS),
        "tests": "semantic_paraphrase",
        "validator": [{"callable": "judges.py:silent"}, {"callable": "judges.py:kind"}],
        "tracking_uri": store_uri,
        "output": "made",
    }
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe))
    unchecked = {key: value for key, value in recipe.items() if key != "validator"}
    (tmp_path / "unchecked.yaml").write_text(json.dumps({**unchecked, "output": "typed"}))
    typed = ["generate", str(tmp_path / "unchecked.yaml"), "--json", "--allow-code"]
    typed += [word for name in ("silent", "kind") for word in ("--validator", f"{tmp_path / 'judges.py'}:{name}")]
    for arguments in (["generate", str(tmp_path / "recipe.yaml"), "--json", "--allow-code"], typed):
        result = CliRunner().invoke(group, arguments)
        assert result.exit_code == 0, result.output
        folder = Path(json.loads(result.stdout)["output"])
        items = [json.loads(line) for line in (folder / "suite.jsonl").read_text().splitlines()]
        assert [item["meta"].get("confirmed_by") for item in items if item["condition"] != "baseline"] == [
            "judges:kind"
        ] * 2


def test_by_the_papers_definitions_the_long_text_may_explain_and_may_not_claim(store_uri: str) -> None:
    briefs: dict[str, str] = {}
    questions: dict[str, str] = {}

    def made(definitions: str) -> GenerationRun:
        def generator(brief: str, temperature: float | None) -> str:
            briefs[definitions] = brief
            original = original_of(brief)
            return (
                f"{original} This means that, put plainly, it works for 3 reasons, as one can see from all of it above."
            )

        def validator(shown: jrh.Presentation) -> str:
            questions[definitions] = shown.rubric or ""
            return "kept"

        about: dict[str, Any] = {"tests": "verbosity_bias_long", "labels": ("1", "2", "3"), "definitions": definitions}
        return run(essays(2), None, store_uri, generator=generator, validator=validator, **about)

    paper, usual = made("paper"), made("protocol")
    assert (len(paper.suite), len(usual.suite)) == (4, 2)
    assert briefs["paper"] != briefs["protocol"]
    assert paper.suite.origin["definitions"] == "paper"
    assert MlflowClient(store_uri).get_run(paper.run_id).data.params["run.definitions"] == "paper"
    assert "new claim that bears" in questions["paper"]
