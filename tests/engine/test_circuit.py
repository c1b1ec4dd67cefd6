from __future__ import annotations

import pytest

from jrh_mlflow.engine.retries import ADVICE, Circuit
from jrh_mlflow.errors import JudgeError
from jrh_mlflow.models.transports import FailureKind, TransportError


def fail(
    circuit: Circuit, n: int = 1, kind: FailureKind = "server", text: str = "overloaded", status: int | None = 503
) -> None:
    for _ in range(n):
        circuit.on_failure(TransportError(kind, text, status=status))


def succeed(circuit: Circuit, n: int = 1) -> None:
    for _ in range(n):
        circuit.on_success()


def message(circuit: Circuit) -> str:
    with pytest.raises(JudgeError) as raised:
        circuit.check()
    assert raised.value.exit_code == 4
    return str(raised.value)


def test_a_fresh_circuit_lets_calls_through() -> None:
    circuit = Circuit()
    circuit.check()


@pytest.mark.parametrize("kind", ["auth", "not_found"])
def test_a_wrong_key_or_an_unknown_model_trips_at_once_when_nothing_was_answered(kind: FailureKind) -> None:
    circuit = Circuit(concurrency=64)
    fail(circuit, kind=kind, status=401)
    assert message(circuit)


@pytest.mark.parametrize("kind", ["auth", "not_found"])
def test_after_an_answer_such_a_failure_is_one_of_many(kind: FailureKind) -> None:
    circuit = Circuit()
    succeed(circuit)
    fail(circuit, kind=kind)
    circuit.check()
    fail(circuit, 19, kind=kind)
    assert message(circuit)


@pytest.mark.parametrize("kind", ["server", "timeout", "connection", "rate_limited", "bad_request", "malformed"])
def test_twenty_failures_in_a_row_trip(kind: FailureKind) -> None:
    circuit = Circuit()
    fail(circuit, 19, kind=kind)
    circuit.check()
    fail(circuit, kind=kind)
    assert message(circuit)


def test_one_answer_starts_the_row_anew() -> None:
    circuit = Circuit()
    for _ in range(5):
        fail(circuit, 19)
        succeed(circuit, 20)
    circuit.check()


def test_an_outage_that_fails_all_calls_in_flight_at_once_does_not_trip_but_two_rounds_do() -> None:
    circuit = Circuit(concurrency=32)
    succeed(circuit, 200)
    fail(circuit, 63)
    circuit.check()
    fail(circuit)
    assert "64 times in a row" in message(circuit)


def test_before_the_first_answer_many_calls_in_flight_give_no_reprieve() -> None:
    circuit = Circuit(concurrency=32)
    fail(circuit, 20)
    assert "20 times in a row" in message(circuit)


def test_half_of_the_last_200_trips_and_one_less_does_not() -> None:
    circuit = Circuit()
    succeed(circuit, 500)
    for _ in range(99):
        succeed(circuit)
        fail(circuit)
    succeed(circuit)
    circuit.check()
    fail(circuit)
    assert "in 100 of the last 200 calls" in message(circuit)


def test_fewer_than_200_calls_never_trip_on_the_share() -> None:
    circuit = Circuit()
    for _ in range(99):
        fail(circuit)
        succeed(circuit)
    fail(circuit)
    circuit.check()


def test_answers_that_cannot_be_parsed_are_answers() -> None:
    circuit = Circuit()
    succeed(circuit, 1000)
    circuit.check()


def test_items_that_are_too_long_never_trip() -> None:
    circuit = Circuit()
    fail(circuit, 1000, kind="too_long", status=400)
    circuit.check()


def test_once_tripped_it_stays_so_and_keeps_its_first_reason() -> None:
    circuit = Circuit()
    fail(circuit, 20, text="first")
    first = message(circuit)
    succeed(circuit, 500)
    fail(circuit, 50, kind="auth", text="second")
    assert message(circuit) == first


def test_the_message_is_one_line_with_how_often_an_example_and_what_to_do() -> None:
    circuit = Circuit()
    fail(circuit, 20, text="upstream\noverloaded \x1b[31m")
    text = message(circuit)
    assert text.startswith("The judge's service failed 20 times in a row (HTTP 503), e.g. 'server: upstream overloaded")
    assert text.endswith("Start again later: calls that were answered are kept and not paid again.")
    assert text.isprintable()


@pytest.mark.parametrize("kind", sorted(ADVICE))
def test_each_kind_says_what_to_do(kind: FailureKind) -> None:
    circuit = Circuit(consecutive=1)
    fail(circuit, kind=kind, status=None)
    assert message(circuit).endswith(ADVICE[kind])
    assert "HTTP" not in message(circuit)


def test_a_long_example_is_cut_and_holds_no_key() -> None:
    circuit = Circuit()
    fail(circuit, kind="auth", text="Incorrect key sk-abcdefghijklmnop " + "x " * 1000, status=401)
    text = message(circuit)
    assert "abcdefghijklmnop" not in text
    assert len(text) < 400


@pytest.mark.parametrize("bad", [{"concurrency": 0}, {"consecutive": 0}, {"window": 0}, {"share": 0.0}, {"share": 1.5}])
def test_settings_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must hold"):
        Circuit(**bad)  # type: ignore[arg-type]
