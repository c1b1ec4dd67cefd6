"""Every sentence under *What is protected* in SECURITY.md is held by the tests that are named here."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from jrh_mlflow.engine.client import ClientSettings
from jrh_mlflow.errors import RecipeError
from jrh_mlflow.judges.prompted import PromptedJudge
from jrh_mlflow.review import app
from jrh_mlflow.tracking.mlflow_server import folder_uri, server_command
from jrh_mlflow.yaml_files import read_yaml

ROOT = Path(__file__).parent.parent
KEY = "sk-planted-0123456789"
OWN = "tests/test_security.py"
TRUST, COMMANDS, ATTACKS = "tests/models/test_trust.py", "tests/cli/test_cli_trust.py", "tests/test_attacks.py"
FAILURES, GUARD = "tests/models/test_transport_failures.py", "tests/review/test_guard.py"
MLFLOW_JUDGES = "tests/tracking/judges/test_judge_addresses.py"

HELD = {
    "Responses, rationales, labels, names and prompts are escaped": [
        "tests/review/test_page.py::test_hostile_texts_stay_texts",
        "tests/comparing/test_comparison_page.py::test_hostile_text_makes_no_element_and_no_attribute",
        "tests/decisions/test_gate_result.py::test_hostile_text_stays_text_in_markdown_and_html",
        "tests/show/test_svg.py::test_hostile_names_stay_text_and_nothing_runs_loads_or_leaks",
        f"{ATTACKS}::test_a_suite_moves_no_cursor_of_who_looks_at_it",
        "tests/measuring/test_shown_results.py::"
        "test_a_card_has_no_element_attribute_or_address_that_a_hostile_text_brought",
    ],
    "Cells of tables cannot become formulas, and a CSV file has as many rows as records": [
        "tests/test_csv.py::test_every_reader_finds_as_many_rows_as_records_and_no_live_formula",
        "tests/comparing/test_comparison_page.py::test_tables_of_a_comparison_run_no_formula_and_move_no_cursor",
        "tests/review/test_result.py::test_the_table_of_decisions_runs_no_formula_and_can_be_taken_again",
        "tests/generation/test_labelling.py::"
        "test_a_response_that_looks_like_a_formula_goes_out_harmless_and_comes_back_unchanged",
    ],
    "A judge's prompt shows candidates between marks": [
        "tests/judges/test_rendering.py::test_no_injection_changes_anything_outside_its_own_fence",
        "tests/judges/test_rendering.py::test_a_content_that_knows_the_code_of_another_request_cannot_close_its_fence",
    ],
    "Only a strict JSON object": [
        "tests/engine/test_promises.py::test_an_object_quoted_from_a_candidate_is_no_verdict",
        "tests/judges/test_retractions.py::test_what_a_judge_was_shown_is_no_verdict_of_its_own",
    ],
    "hold no script of others": [
        "tests/review/test_page.py::test_hostile_texts_stay_texts",
        "tests/sweeps/test_sweep_markdown.py::test_hostile_names_stay_text_and_the_page_asks_nobody",
    ],
    "Pages of runs have no script": [
        "tests/comparing/test_comparison_page.py::test_there_is_no_script_and_nothing_to_fetch"
    ],
    "listen on 127.0.0.1": [
        f"{OWN}::test_servers_listen_on_this_machine_only",
        f"{GUARD}::test_a_wrong_host_is_refused",
        f"{GUARD}::test_a_foreign_origin_is_refused_even_with_the_token",
        "tests/pages/test_server.py::test_hosts_that_mlflow_would_accept_are_refused",
    ],
    "Whoever reviews needs the token": [f"{GUARD}::test_without_the_token_nothing_is_answered"],
    "Pages of runs need none": ["tests/pages/test_server.py::test_pages_of_runs_need_no_token_and_know_none"],
    "are read from the environment": [
        "tests/cli/test_cli_environment.py::test_a_named_file_stands_in_for_env_and_both_can_be_left_unread"
    ],
    "They are sent to the provider's own address": [
        f"{TRUST}::test_what_the_user_names_first_is_the_users_word",
        f"{COMMANDS}::test_the_same_address_as_an_option_is_the_users_word",
    ],
    "gets no key before you allow its host": [
        f"{TRUST}::test_an_address_of_a_file_gets_no_key_and_no_request",
        f"{TRUST}::test_the_address_of_a_judge_that_somebody_wrote_down_is_not_the_users_word",
        f"{COMMANDS}::test_a_key_does_not_go_where_only_a_recipe_says",
        f"{COMMANDS}::test_a_key_does_not_go_where_only_env_says",
        f"{COMMANDS}::test_no_file_of_any_kind_takes_a_key_to_its_address",
    ],
    "Plain http to another machine": [f"{TRUST}::test_an_allowed_host_is_that_host_and_plain_http_has_to_be_said"],
    "The same holds for MLflow's own judges": [
        f"{MLFLOW_JUDGES}::test_an_address_that_env_names_gets_no_key_of_a_judge_of_mlflow",
        f"{MLFLOW_JUDGES}::test_an_address_that_a_run_names_gets_no_key_of_a_judge_of_mlflow",
    ],
    "The same holds for the login": [
        f"{TRUST}::test_a_store_of_a_file_gets_no_login",
        f"{TRUST}::test_artifacts_on_another_server_than_their_store_get_no_login",
        f"{TRUST}::test_an_evaluation_kept_in_a_cloned_folder_gets_no_login_sent_to_its_store",
        f"{TRUST}::test_a_journal_of_a_file_gets_no_prompts",
    ],
    "Of `.env` only keys": [
        f"{TRUST}::test_of_env_keys_settings_and_addresses_are_read_and_nothing_else",
        f"{TRUST}::test_env_names_no_file_of_credentials_and_no_token_of_our_own",
        f"{COMMANDS}::test_env_repeats_nothing_of_the_environment",
    ],
    "What is allowed is kept": [f"{TRUST}::test_a_folder_that_was_cloned_cannot_say_what_is_allowed"],
    "No transport and no judge of MLflow's": [
        f"{FAILURES}::test_no_transport_follows_a_redirect",
        f"{MLFLOW_JUDGES}::test_no_judge_of_mlflow_follows_a_redirect",
        f"{FAILURES}::test_litellm_sends_nothing_where_redirects_cannot_be_stopped",
    ],
    "Keys are in no run": [
        "tests/cli/test_cli_environment.py::test_a_key_of_the_file_is_used_and_reaches_no_artifact",
        f"{FAILURES}::test_a_planted_key_is_in_no_text_no_context_and_no_log",
    ],
    "Passwords in addresses": [
        "tests/engine/test_journal_postgres.py::test_the_password_is_in_no_log_file_error_or_representation",
        f"{FAILURES}::test_a_key_that_a_server_repeats_is_taken_out_of_the_text",
    ],
    "No password is on a command line": [f"{ATTACKS}::test_the_password_of_a_store_is_on_no_command_line"],
    'backend="ray"': [f"{OWN}::test_what_is_sent_to_workers_holds_no_key"],
    "the worst case of a call is reserved": [
        "tests/models/test_prices.py::test_the_worst_case_covers_what_a_server_bills",
        "tests/engine/test_journal_money.py::test_two_processes_with_64_reservers_each_share_one_cap_exactly",
    ],
    "are read as data": [
        f"{OWN}::test_yaml_makes_no_objects",
        f"{OWN}::test_nothing_of_a_file_is_unpickled",
        "tests/test_yaml_files.py::test_a_few_lines_that_stand_for_a_billion_values_are_one_error",
        f"{ATTACKS}::test_json_of_a_hundred_thousand_brackets_is_one_error",
    ],
    "Code that a YAML file names": [f"{COMMANDS}::test_code_that_a_file_names_is_not_run"],
    "A text file that a YAML file names": [
        f"{COMMANDS}::test_no_file_sends_another_file_of_the_users_to_its_address",
        f"{COMMANDS}::test_a_text_file_with_a_key_in_it_is_not_sent",
    ],
    "Packed files and answers": [
        f"{ATTACKS}::test_a_packed_table_that_grows_without_end_is_not_unpacked",
        f"{ATTACKS}::test_an_archive_that_grows_without_end_is_not_unpacked",
        f"{ATTACKS}::test_a_parquet_file_that_grows_without_end_is_not_read",
        f"{FAILURES}::test_a_packed_body_that_grows_without_end_is_refused",
    ],
    "A plugin that cannot be imported": [f"{ATTACKS}::test_a_plugin_that_raises_when_it_is_imported_stops_nobody"],
    "can be read by your user alone": [f"{ATTACKS}::test_journal_spool_and_home_are_for_this_user_alone"],
}
"""A part of each sentence, and the tests that fail where it is no longer true."""


def sentences() -> list[str]:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    text = text.partition("## What is protected")[2].partition("\n## ")[0].partition("names.\n")[2]
    # A title such as **Keys** belongs to the sentence; one that ends with a full stop is a heading.
    text = re.sub(r"\*\*[^*]*\.\*\*", "", text).replace("*", "")
    parts = [" ".join(part.split()) for line in text.split("\n- ") for part in re.split(r"(?<=[.])\s+(?=[A-Z`])", line)]
    return [part for part in parts if part.strip("- ")]


def test_every_sentence_is_held_by_a_test() -> None:
    assert [sentence for sentence in sentences() if not any(part in sentence for part in HELD)] == []


def test_no_part_is_of_a_sentence_that_is_gone() -> None:
    assert [part for part in HELD if sum(part in sentence for sentence in sentences()) != 1] == []


@pytest.mark.parametrize("test", sorted({test for tests in HELD.values() for test in tests}))
def test_the_tests_that_hold_them_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_servers_listen_on_this_machine_only(tmp_path: Path) -> None:
    folder_uri(tmp_path)
    (tmp_path / "mlflow.db").touch()
    command = server_command(str(tmp_path), port=5000)
    assert command[command.index("--host") + 1] == app.LOOPBACK == "127.0.0.1"


def test_yaml_makes_no_objects() -> None:
    Path("evil.yaml").write_text("judge: !!python/object/apply:os.mkdir [made]\n", encoding="utf-8")
    with pytest.raises(RecipeError):
        read_yaml(Path("evil.yaml"))
    assert not Path("made").exists()


def test_nothing_of_a_file_is_unpickled() -> None:
    unpickling = re.compile(r"pickle\.loads?\(|read_pickle\(|joblib\.load\(|allow_pickle=True|torch\.load\(")
    found = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "jrh_mlflow").rglob("*.py")
        if unpickling.search(file.read_text(encoding="utf-8"))
    }
    # What the driver of the very run sends to its own workers.
    assert found == {"jrh_mlflow/engine/ray_fleet.py"}


def test_what_is_sent_to_workers_holds_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judge = PromptedJudge("openai/gpt-4o-mini")
    assert judge.lacks() is None
    assert KEY.encode() not in pickle.dumps((judge, judge.definition(), ClientSettings()))
