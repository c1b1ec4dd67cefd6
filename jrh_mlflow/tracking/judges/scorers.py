"""MLflow's own judges and scorers as judges of this package.

A presentation becomes what a scorer takes (`inputs`, `outputs` and, where it asks for one, a `trace`); its feedback
becomes an answer with rationale, tokens and dollars.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args
from urllib.parse import urlsplit

from jrh_mlflow.errors import JudgeError, RecipeError
from jrh_mlflow.judges import Judge, registration_facts
from jrh_mlflow.judges.callables import CallableJudge
from jrh_mlflow.judges.parsing import ABSTAIN, TIE, Unread, read_answer
from jrh_mlflow.judges.prompted import address_of, holds_secret
from jrh_mlflow.models.catalog import endpoint_of
from jrh_mlflow.models.redirects import no_redirects
from jrh_mlflow.models.transports.litellm import check_key
from jrh_mlflow.models.trust import WRITTEN_DOWN, name_address
from jrh_mlflow.schema.presentation import LABEL_WORDS, Answer, Criterion, Message, Presentation, part_text
from jrh_mlflow.text import blank_secrets, environment_secrets
from jrh_mlflow.tracking import mlflow_internals
from jrh_mlflow.tracking.judges import scorer_facts
from jrh_mlflow.tracking.judges.judge_registry import RegisteredScorer, loaded_scorer
from jrh_mlflow.tracking.runs import keys
from jrh_mlflow.tracking.traces.call_traces import finished_span

if TYPE_CHECKING:
    from mlflow.entities import Trace

    from jrh_mlflow.suites.suite import Suite

Part = Callable[[Presentation], Any]
"""Makes one field from a presentation."""
_SLOT_WORDS = {
    **dict.fromkeys(("1", "a", "first", "response a", "response 1"), "1"),
    **dict.fromkeys(("2", "b", "second", "response b", "response 2"), "2"),
    "tie": "tie",
}
"""Feedback values read as the answer to a pair."""
_USAGE = (keys.JUDGE_INPUT_TOKENS, keys.JUDGE_OUTPUT_TOKENS, keys.JUDGE_COST)
_MEMBERS = "mlflow.ensemble.sub_feedbacks"
_SHARE = "/precision"
"""What MLflow puts behind the name of a judge for the share of retrieved texts that it found relevant."""
_DATA_KINDS = ("instructions", "builtin", "guidelines", "third_party")
"""Kinds of scorers that are data throughout, so that a hash tells two of them apart."""
_SAMPLING = ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "reasoning_effort")
_STEP_NS = 1_000_000
_ASKING = ("user", "system", "developer")
"""Roles of messages that begin a turn."""
_VOTING = (
    "Majority vote: the answer most members gave. A shared first place is a tie where a tie may be answered, otherwise "
    "abstain. A member that failed or answered outside the scale has no vote; half of the votes missing is an error.\n"
)


def is_mlflow_judge(judge: object) -> bool:
    """Whether `from_mlflow` takes this object: an MLflow scorer, or a list or tuple of scorers.

    Never imports MLflow: there is no scorer before MLflow's own module has been imported.
    """
    scorer_class = getattr(sys.modules.get("mlflow.genai.scorers"), "Scorer", None)
    # To import MLflow takes seconds, and most judges are none of its own.
    if scorer_class is None:
        return False
    if isinstance(judge, list | tuple):
        return bool(judge) and all(map(is_mlflow_judge, judge))
    return isinstance(judge, scorer_class)


def from_mlflow(
    judge: object,
    *,
    name: str | None = None,
    inputs: Part | Mapping[str, str] | None = None,
    outputs: Part | None = None,
    expectations: Part | None = None,
    trace: Part | None = None,
    answers: Mapping[Any, str] | None = None,
) -> MlflowJudge:
    """Wrap an MLflow judge: `make_judge(...)`, a built-in one, a `@scorer` function, an ensemble, or a list of them.

    What it is shown, unless `inputs`, `outputs`, `expectations` or `trace` says otherwise:

    - inputs: those of the rows that the suite was made from, under their own names (`{"question": ...}`); of other
      suites `{"instruction": ..., "rubric": ...}`, without the rubric where there is none. Pairs always have the
      rubric, of which the tie criterion is a part: instructions without `{{ inputs }}` never see it.
    - outputs: a pair is `{"A": <first>, "B": <second>}`; a response is its text; a transcript is
      `{"transcript": [{"role": ..., "content": ...}, ...]}` with tool calls and the ids they are answered by.
    - expectations: nothing, for a judge is shown no expected answer.
    - trace: only for a judge that cannot do without: kept in memory, a root span with these inputs and outputs, a
      RETRIEVER span with the item's context and, for a transcript, a TOOL span per tool call.
    - session, for a judge of conversations: a trace in memory for each turn of the transcript, and nothing else; a
      single response is a conversation of one turn.

    The context of an item (see `jrh.generate`) is `inputs["context"]` where there is no trace. Built-in judges that go
    by retrieved texts are refused on a suite whose items have no context, judges of tool calls on one without tool
    calls, and judges that need expected answers unless `expectations` makes them; `ExpectationsGuidelines` is told the
    rubric as its guidelines.

    How its feedback is read (case and outer spaces are forgiven, nothing else; `answers` is looked up first):

    - pair: `A`, `1`, `first`, `response A`, `response 1` is slot 1; `B`, `2`, `second`, `response B`, `response 2` is
      slot 2; `tie` is a tie. No bool is a slot.
    - labels and scales: the label or the number itself; `yes`, `pass`, `true` and True stand for the one label among
      these words, `no`, `fail`, `false` and False likewise. On the pointwise datasheet either form is read, yes or no
      and any number, whichever of the two is asked for.
    - `abstain` anywhere. Everything else is `unparsed`, and so is a reply that MLflow could not read. A feedback that
      carries an error, or an exception, is `error`.
    - confidence: what the decision APIs of OpenAI and TypeSafe tell in its metadata, as the probability of the answer
      given.

    A list votes by majority: the answer most members gave; a shared first place is a tie where a tie may be answered,
    otherwise `abstain`. A member that failed or answered outside the scale has no vote, and with half of the votes
    missing the outcome is `error`. MLflow's own `majority_vote` breaks ties alphabetically: towards slot A.

    MLflow's client sends a request up to 11 times on 429, 500, 502, 503 and lost connections, waiting 181 s in all, and
    has no setting for it: `inference_params` go into the request body. What bounds a call is `judge.timeout` (3.17) in
    seconds, 300 when unset: then the outcome is `error`, and the abandoned thread goes on until its attempts are used
    up. `MLFLOW_GATEWAY_ROUTE_TIMEOUT_SECONDS` bounds one attempt. `MLFLOW_MODEL_CATALOG_URI=""` keeps MLflow from
    looking for newer prices on the network.

    Args:
        judge: The judge, or a list or tuple of judges that vote.
        name: Name of the judge; MLflow's name when None, for a list the names joined by `+`.
        inputs: Name in the inputs to what stands there, `instruction`, `rubric` or `context`, as in
            `{"question": "instruction"}`; or a function that makes the inputs from the presentation.
        outputs: Makes the outputs from the presentation.
        expectations: Makes the expectations from the presentation.
        trace: Makes the trace from the presentation.
        answers: Feedback value to answer, as in `{"left": "1", "right": "2", "same": "tie"}`.

    Raises:
        RecipeError: when it is no MLflow judge, or needs something that a judge is not shown.
    """
    if not is_mlflow_judge(judge):
        raise RecipeError(
            f"from_mlflow takes make_judge(...), a built-in judge, a @scorer function or a list of these, "
            f"but got {type(judge).__name__}."
        )
    scorers: tuple[Any, ...] = tuple(judge) if isinstance(judge, list | tuple) else (judge,)
    names = dict(inputs) if isinstance(inputs, Mapping) else None
    for unknown in set((names or {}).values()).difference(scorer_facts.SHOWN):
        raise RecipeError(f"What inputs= names is one of {', '.join(scorer_facts.SHOWN)}, but got {unknown!r}.")
    given = {"inputs": None if names else inputs, "outputs": outputs, "expectations": expectations, "trace": trace}
    parts = {field: cast("Part", part) for field, part in given.items() if part is not None}
    for scorer in _members(scorers):
        scorer_facts.check_scorer(scorer, parts)
    asked = tuple(map(scorer_facts.asked_by_suites, scorers))
    panel = _Panel(asked, parts, _words(answers or {}), names or {}, is_told=bool(names))
    made = MlflowJudge(panel, name=name or "+".join(member.name for member in scorers))
    made.registered = registration_of(*scorers)
    return made


def from_registered(registered: RegisteredScorer, *, tracking_uri: str | None = None) -> MlflowJudge:
    """Wrap a registered judge. Which version it is stands in the registry: a scorer of MLflow 3.14 does not tell."""
    judge = from_mlflow(loaded_scorer(registered, tracking_uri=tracking_uri))
    judge.registered = [registered.registration]
    return judge


def _words(answers: Mapping[Any, str]) -> dict[str, str]:
    words: dict[str, str] = {}
    for value, answer in answers.items():
        word = _as_word(value)
        if word is None:
            raise RecipeError(f"The keys of answers= are words, numbers or bools, but got {value!r}.")
        words[word] = answer
    return words


@dataclass(frozen=True)
class _Panel:
    """The function behind the judge: shows a presentation to each scorer and reads what it says."""

    scorers: tuple[Any, ...]
    parts: Mapping[str, Part]
    words: Mapping[str, str]
    inputs: dict[str, str] = field(default_factory=dict)
    """Name in the inputs to what stands there: as the user says, else as the suite has it; empty for our own names."""
    is_told: bool = False

    @property
    def members(self) -> list[Any]:
        """The scorers that do the work, those inside MLflow's ensembles too."""
        return list(_members(self.scorers))

    def __call__(self, shown: Presentation) -> Answer:
        if len(self.scorers) == 1:
            return self._ask(self.scorers[0], shown)
        return _vote([self._ballot(scorer, shown) for scorer in self.scorers], shown.answers)

    def _ask(self, scorer: Any, shown: Presentation) -> Answer:
        return ask_scorer(scorer, scorer_fields(scorer, shown, self.parts, self.inputs), shown, self.words)

    def _ballot(self, scorer: Any, shown: Presentation) -> _Ballot:
        try:
            given = self._ask(scorer, shown)
        except Exception as error:
            return _Ballot(scorer.name, vote=None, given=Answer(None), why=f"{type(error).__name__}: {error}")
        outcome, answer, reason = read_answer(given, shown.answers)
        vote = {"verdict": answer, "tie": TIE, "abstain": ABSTAIN}.get(outcome)
        return _Ballot(scorer.name, vote=vote, given=given, why=reason or given.rationale or "")


def ask_scorer(
    scorer: Any, fields: Mapping[str, Any], shown: Presentation, words: Mapping[str, str] | None = None
) -> Answer:
    """Run a scorer on `inputs`, `outputs`, `expectations` and `trace`, and return what it says in `shown.answers`.

    Raises:
        Exception: of whatever kind the scorer failed with; keys are blanked in its text.
    """
    words = words or {}
    members = list(_members((scorer,)))
    for member in members:
        _check_address(member)
    # A function of somebody's asks whom it likes.
    is_ours = any(_kind(member) in _DATA_KINDS for member in members)
    try:
        with no_redirects() if is_ours else nullcontext():
            feedback = scorer.run(**fields)
        given = _read_feedback(scorer, feedback, shown, words)
    except Exception as error:
        text = str(error)
        safe = blank_secrets(text, _secrets(scorer))
        if text.startswith(mlflow_internals.NO_JSON):
            # The model did answer, only not in the form MLflow asked for: not a failed call.
            given = Answer(safe)
        elif safe != text:
            raise JudgeError(f"{type(error).__name__}: {safe}") from None
        else:
            raise
    return _in_asked_words(scorer, given, shown, words)


@dataclass(frozen=True)
class _Ballot:
    """What one member of a list said."""

    member: str
    vote: str | None
    """None is a missing vote."""
    given: Answer
    why: str


def _vote(ballots: Sequence[_Ballot], offered: tuple[str, ...]) -> Answer:
    minutes = "\n".join(f"{ballot.member}: {ballot.vote or 'no vote'}. {ballot.why}".strip() for ballot in ballots)
    counts = Counter(ballot.vote for ballot in ballots if ballot.vote is not None)
    # Half of the votes are no majority of the list: whoever is missing could have turned the result.
    if 2 * counts.total() <= len(ballots):
        raise JudgeError(f"Only {counts.total()} of {len(ballots)} members voted. {minutes}")
    most = max(counts.values())
    first = [vote for vote, count in counts.items() if count == most]
    undecided = TIE if TIE in offered else ABSTAIN
    return Answer(
        first[0] if len(first) == 1 else undecided,
        rationale=minutes,
        input_tokens=_known_sum(ballot.given.input_tokens for ballot in ballots),
        output_tokens=_known_sum(ballot.given.output_tokens for ballot in ballots),
        cost_usd=_known_sum(ballot.given.cost_usd for ballot in ballots),
    )


class MlflowJudge(CallableJudge):
    """A scorer, or a list that votes. Runs in the engine's threads, because MLflow's judges are sync."""

    kind = "mlflow"

    def __init__(self, panel: _Panel, *, name: str) -> None:
        super().__init__(panel)
        self.panel = panel
        self.name = name
        self.registered = registration_of(*panel.scorers)
        self.simulated = any(map(scorer_facts.is_simulated, _members(panel.scorers)))

    def begin(self, suite: Suite) -> None:
        """Take the names of a suite's inputs; refuse one that none of its answers fits, or that lacks what it needs."""
        if not self.panel.is_told:
            self.panel.inputs.clear()
            self.panel.inputs.update(_names_in(suite))
        read = partial(answer_for, words=self.panel.words)
        for scorer in self.panel.members:
            scorer_facts.check_fit(scorer, suite, self.tie_criterion, read, words=tuple(self.panel.words))
            scorer_facts.check_suite_has(scorer, suite, self.panel.parts)

    @property
    def input_names(self) -> list[list[str]] | None:
        """Names and contents of the inputs that it is shown; None for our own names, and where it reads none."""
        if not self.panel.inputs or not any(
            "inputs" in scorer_facts.needed_fields(scorer) for scorer in self.panel.members
        ):
            return None
        return [list(pair) for pair in self.panel.inputs.items()]

    @property
    def grades_one_response(self) -> bool:
        """Whether it is refused on pairs: it says no slot, or judges conversations."""
        read = partial(answer_for, words=self.panel.words)
        words = tuple(self.panel.words)
        return any(
            scorer_facts.judges_sessions(scorer)
            or not scorer_facts.can_compare(scorer, self.tie_criterion, read, words=words)
            for scorer in self.panel.members
        )

    def lacks(self) -> str | None:
        """Name the key that MLflow itself would ask for on every call: it does so for `openai:/…` models.

        Raises:
            RecipeError: when a key may not go to the address.
        """
        for scorer in self.panel.members:
            _check_address(scorer)
        # A judge with headers of its own may hold its key there.
        models = [_model(scorer) for scorer in self.panel.members if not mlflow_internals.extra_headers(scorer)]
        openai = next((model for model in models if model and model.startswith("openai:/")), None)
        return f"{openai} needs a key: set OPENAI_API_KEY." if openai and not os.environ.get("OPENAI_API_KEY") else None

    def settings(self) -> dict[str, object]:
        """Name, models, kinds, feedback types, sampling and the hash of the instructions."""
        scorers, members = self.panel.scorers, self.panel.members
        types = [_type_name(getattr(scorer, "feedback_value_type", None)) for scorer in members]
        sampling = [getattr(scorer, "inference_params", None) or {} for scorer in members]
        return {
            **super().settings(),
            "name": self.name,
            "model": _joined(_model(scorer) for scorer in members) or self.name,
            "scorer": _joined(scorer.kind.value for scorer in scorers),
            # An ensemble that is not registered itself may be made of scorers that are.
            **registration_facts(self.registered or registration_of(*members)),
            "feedback_type": _joined(types) or None,
            "instructions_sha256": hashlib.sha256(_instructions(scorers).encode()).hexdigest(),
            **{key: _joined(params.get(key) for params in sampling) or None for key in _SAMPLING},
            "inputs": _joined(name for name, _ in self.input_names or ()) or None,
        }

    def prompt(self) -> str:
        """The instructions as MLflow was given them; it adds words of its own around them."""
        voting = _VOTING if len(self.panel.scorers) > 1 else ""
        return f"{_instructions(self.panel.scorers)}{voting}It is told as the rubric:\n{Judge.prompt(self)}"

    def fingerprint(self) -> str | None:
        """Hash a judge that is data throughout; None when a function takes part in it."""
        scorers = self.panel.scorers
        members = self.panel.members
        if self.panel.parts or any(_kind(scorer) not in _DATA_KINDS for scorer in members):
            return None
        if (known := _kept(scorers)) is None:
            return None
        routes = [(mlflow_internals.base_url(scorer), mlflow_internals.extra_headers(scorer)) for scorer in members]
        # What MLflow does not keep, and only where it is so: the others are known by the hashes they always had.
        timed = tuple(place for place, scorer in enumerate(members) if mlflow_internals.includes_timing(scorer))
        # Of a judge without a definition nobody could tell that only the inputs are others.
        inputs = (self.input_names,) if self.input_names and all(map(_is_data, members)) else ()
        whole = (self.name, known, routes, sorted(self.panel.words.items()), self.tie_criterion, *timed, *inputs)
        return hashlib.sha256(repr(whole).encode()).hexdigest()

    def definition(self) -> dict[str, Any] | None:
        """What MLflow itself keeps of its scorers; None where a function or a key takes part in one of them."""
        members = self.panel.members
        # An address of a judge inside an ensemble is kept by nobody.
        inside = [scorer for scorer in members if all(scorer is not own for own in self.panel.scorers)]
        if self.panel.parts or not all(map(_is_data, members)) or any(map(mlflow_internals.base_url, inside)):
            return None
        kept = _kept(self.panel.scorers)
        if kept is None or holds_secret(kept):
            return None
        return self.defined_by(
            scorers=kept,
            models=[_model(scorer) for scorer in members],
            endpoints=sorted({place for scorer in members if (place := _endpoint(scorer))}),
            base_urls=[mlflow_internals.base_url(scorer) for scorer in self.panel.scorers],
            words=dict(self.panel.words),
            inputs=self.input_names,
            registered=self.registered,
        )

    @classmethod
    def from_definition(cls, definition: Mapping[str, Any]) -> MlflowJudge:
        """Make the judge again that a definition is of, by the MLflow that is installed."""
        scorers = tuple(map(_made, definition["scorers"], definition["base_urls"]))
        names = dict(definition["inputs"] or ())
        panel = _Panel(scorers, {}, dict(definition["words"]), names, is_told=bool(names))
        judge = cls(panel, name=definition["name"])
        judge.tie_criterion = Criterion(**definition["tie_criterion"])
        judge.registered = list(map(dict, definition["registered"]))
        return judge

    @classmethod
    def unchecked(cls, judge: object) -> MlflowJudge:
        """Wrap a judge, or a list of them, without asking whether it could be put to a suite."""
        scorers: tuple[Any, ...] = tuple(judge) if isinstance(judge, list | tuple) else (judge,)
        return cls(_Panel(scorers, {}, {}), name="+".join(scorer.name for scorer in scorers))

    @classmethod
    def registered_as(cls, registered: RegisteredScorer) -> MlflowJudge:
        """Make the judge that a registered scorer is; not of one that is code."""
        from mlflow.genai.scorers import Scorer

        judge = cls.unchecked(Scorer.model_validate(registered.kept))
        judge.registered = [registered.registration]
        return judge

    def with_versions(self, newest: Mapping[str, RegisteredScorer]) -> MlflowJudge:
        """Return the judge with other versions of those of its scorers that are registered under these names."""
        from mlflow.genai.scorers import Scorer

        judge = copy.copy(self)
        # Code of somebody's is not run to be looked at: what the registry keeps of it stands in its place.
        made = {name: new if new.is_code else Scorer.model_validate(new.kept) for name, new in newest.items()}
        scorers = tuple(made.get(scorer.name, scorer) for scorer in self.panel.scorers)
        judge.panel = replace(self.panel, scorers=scorers)
        versions = {name: new.version for name, new in newest.items()}
        judge.registered = [{**old, "version": versions.get(old["name"], old["version"])} for old in self.registered]
        return judge


def _kept(scorers: Sequence[Any]) -> list[dict[str, Any]] | None:
    """Return what MLflow keeps of scorers; None where it keeps none, as of an ensemble by somebody's own function."""
    from mlflow.exceptions import MlflowException

    try:
        kept: list[dict[str, Any]] = scorer_facts.canonical_scorer(list(map(mlflow_internals.kept_of, scorers)))
        json.dumps(kept)
    except (MlflowException, NotImplementedError, TypeError):
        # An argument of another library's metric may be any object.
        return None
    return kept


def _is_data(scorer: Any) -> bool:
    """Whether a scorer is data throughout: no code, no key, and nothing that is not kept of it."""
    left_out = mlflow_internals.extra_headers(scorer) or mlflow_internals.includes_timing(scorer)
    return _kind(scorer) in _DATA_KINDS and not left_out and _is_public(mlflow_internals.base_url(scorer))


def _is_public(address: str | None) -> bool:
    """Whether an address may be written down: it holds no key."""
    try:
        return address is None or address_of("", address) == address
    except RecipeError:
        return False


def _made(kept: Mapping[str, Any], base_url: str | None) -> Any:
    """Make a scorer of what MLflow keeps of it; of an address of its own MLflow keeps nothing."""
    from mlflow.exceptions import MlflowException
    from mlflow.genai import make_judge
    from mlflow.genai.scorers import Scorer

    if kept.get("call_source") is not None:
        raise RecipeError(f"The judge {kept.get('name')!r} is written down as code, which is not run from there.")
    try:
        scorer: Any = Scorer.model_validate(kept)
    except MlflowException as error:  # The library behind a metric may be missing here.
        raise RecipeError(f"MLflow cannot make {kept.get('name')!r} again: {error}") from error
    if base_url is None:
        return scorer
    name_address(base_url, WRITTEN_DOWN)
    # Only judges made of instructions take an address, and only when they are made.
    data = kept["instructions_judge_pydantic_data"]
    more = ("inference_params", "generate_rationale_first", "model_api")
    return make_judge(
        name=scorer.name,
        instructions=data["instructions"],
        model=data["model"],
        description=scorer.description,
        feedback_value_type=scorer.feedback_value_type,
        base_url=base_url,
        **{name: data[name] for name in more if data.get(name) is not None},
    )


def _check_address(scorer: Any) -> None:
    """Refuse an address that may not get the key which MLflow would send there: it reads the variables litellm does.

    Raises:
        RecipeError: saying who named it, and how to allow it.
    """
    if model := _model(scorer):
        check_key(model.replace(":/", "/", 1), mlflow_internals.base_url(scorer))


def _endpoint(scorer: Any) -> str | None:
    """Return where the environment says that a scorer's model is asked."""
    return None if mlflow_internals.base_url(scorer) else endpoint_of((_model(scorer) or "").replace(":/", "/", 1))


def _kind(scorer: Any) -> str | None:
    """Return what sort of scorer it is; None for one of the registry that is code, and was not made."""
    return None if isinstance(scorer, RegisteredScorer) else scorer.kind.value


def _members(scorers: Iterable[Any]) -> Iterator[Any]:
    """Yield the scorers that do the work, looking inside MLflow's ensembles."""
    for scorer in scorers:
        inside = mlflow_internals.ensemble_members(scorer)
        yield from _members(inside) if inside else (scorer,)


def registration_of(*scorers: Any) -> list[dict[str, Any]]:
    """Return name, version and experiment of those scorers that came from MLflow's registry."""
    registered = [
        (scorer, version) for scorer in scorers if (version := getattr(scorer, "scorer_version", None)) is not None
    ]
    return [
        {"name": scorer.name, "version": version, "experiment_id": mlflow_internals.experiment_of(scorer)}
        for scorer, version in registered
    ]


def _model(scorer: Any) -> str | None:
    """Return the model a scorer asks, MLflow's default where it names none; None for code."""
    if not hasattr(scorer, "model"):
        return mlflow_internals.wrapped_model(scorer)
    return str(scorer.model or mlflow_internals.default_model())


def _instructions(scorers: Iterable[Any]) -> str:
    return "".join(f"# {scorer.name}\n{_instruction(scorer)}\n\n" for scorer in _members(scorers))


def _instruction(scorer: Any) -> str:
    # A scorer that asks turn by turn has its instructions in the scorer of a turn.
    inner = getattr(scorer, "last_turn_scorer", scorer)
    text = str(getattr(inner, "instructions", None) or "Code: what it goes by is its own.")
    guidelines = getattr(scorer, "guidelines", None) or ()
    lines = [guidelines] if isinstance(guidelines, str) else guidelines
    return "\n".join([text, *(["Guidelines:"] if lines else []), *map(str, lines)])


def _type_name(kind: Any) -> str | None:
    if kind is None:
        return None
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _joined(values: Iterable[object]) -> str:
    """Spell what differs, each once, in order; an empty string when nothing is known."""
    return ", ".join(dict.fromkeys(str(value) for value in values if value is not None))


def _names_in(suite: Suite) -> dict[str, str]:
    """Return the names of the inputs of the rows that a suite was made from; none where they are not known."""
    sources = [item.meta.get("columns") or {} for item in suite.items]
    if not sources or not sources[0] or any(source != sources[0] for source in sources):
        return {}
    names = {str(column): str(role) for role, column in sources[0].items()}
    # Rows have no rubric of ours beside them; but the tie criterion of a pair stands there.
    return names | ({"rubric": "rubric"} if suite.has_pairs else {})


def scorer_fields(
    scorer: Any, shown: Presentation, parts: Mapping[str, Part], names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Lay a presentation out for a scorer; `parts` and `names` replace the defaults that `from_mlflow` states.

    Raises:
        JudgeError: when a judge of tool calls is shown none: MLflow would ask another model which tools there were.
    """
    made = {name: part(shown) for name, part in parts.items()}
    if scorer_facts.judges_sessions(scorer):
        return {"session": in_memory_session(shown), **made}
    has_trace = "trace" in scorer_facts.needed_fields(scorer)
    laid = {"inputs": _inputs(shown, names, context=not has_trace), "outputs": _outputs(shown), **made}
    if "expectations" not in parts and any(map(scorer_facts.takes_guidelines, _members([scorer]))):
        laid["expectations"] = {"guidelines": shown.rubric}
    if has_trace and "trace" not in parts:
        laid["trace"] = _trace(scorer, laid, shown)
    return laid


def _trace(scorer: Any, laid: Mapping[str, Any], shown: Presentation) -> Trace:
    transcript, tools = shown.transcript or (), []
    if any(map(scorer_facts.needs_tools, _members([scorer]))):
        tools = scorer_facts.called_tools(transcript)
        if not tools:
            raise JudgeError(f"{scorer.name} judges tool calls, and this transcript has none.")
    return in_memory_trace(laid["inputs"], laid["outputs"], transcript, context=shown.context or (), tools=tools)


def _inputs(shown: Presentation, names: Mapping[str, str] | None, *, context: bool) -> dict[str, Any]:
    texts = list(shown.context) if context and shown.context else None
    known = {"instruction": shown.instruction, "rubric": shown.rubric, "context": texts}
    wanted = names or dict(zip(known, known, strict=True))
    return {name: known[what] for name, what in wanted.items() if known[what] is not None}


def _outputs(shown: Presentation) -> object:
    if shown.kind == "pair":
        return {"A": shown.first, "B": shown.second}
    if shown.kind == "transcript":
        # Of a bare list, MLflow's built-in judges read the first element only.
        return {"transcript": [_message(message) for message in shown.transcript or ()]}
    return shown.response


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [dict(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    more = {"name": message.name, "reasoning": message.reasoning, "error": message.error}
    plain |= {name: value for name, value in more.items() if value is not None}
    if message.parts:
        plain["parts"] = [part_text(part) for part in message.parts]
    return plain


def in_memory_trace(
    inputs: object,
    outputs: object,
    transcript: Iterable[Message] = (),
    *,
    context: Sequence[str] = (),
    tools: Sequence[str] = (),
    session: tuple[str, int] | None = None,
) -> Trace:
    """Build a trace: a root span, a RETRIEVER span, and a TOOL span for each tool call of the transcript.

    Args:
        inputs: Of the root span.
        outputs: Of the root span.
        transcript: Messages whose tool calls are spans of their own.
        context: Texts that were retrieved; without any there is no RETRIEVER span.
        tools: Names of the tools there were; where there are any, a CHAT_MODEL span declares them.
        session: Id of the session it belongs to, and its place there.
    """
    from mlflow.entities import Trace, TraceData, TraceInfo, TraceLocation, TraceState

    content = [inputs, outputs] if session is None else [inputs, outputs, *session]
    # By its content: the same presentation gives the same trace, and so the same request, each time.
    trace_id = hashlib.sha256(_json(content).encode("utf-8", "surrogatepass")).digest()[:16]
    wanted = [("judged", "AGENT", inputs, outputs)]
    if context:
        wanted.append(("retrieval", "RETRIEVER", inputs, [{"page_content": text} for text in context]))
    if tools:
        declared = [{"type": "function", "function": {"name": name}} for name in tools]
        wanted.append(("model", "CHAT_MODEL", {"tools": declared}, None))
    wanted += _tool_spans(list(transcript))
    # The first span is the root; each begins a step after the one before.
    spans = [
        finished_span(
            trace_id.hex(),
            f"{number:016x}",
            parent=f"{1:016x}" if number > 1 else None,
            name=name,
            kind=kind,
            inputs=given,
            outputs=made,
            start_ns=number * _STEP_NS,
            end_ns=(number + 1) * _STEP_NS,
        )
        for number, (name, kind, given, made) in enumerate(wanted, 1)
    ]
    info = TraceInfo(
        trace_id=f"tr-{trace_id.hex()}",
        trace_location=TraceLocation.from_experiment_id("0"),
        request_time=1 if session is None else session[1] + 1,
        execution_duration=len(spans),
        state=TraceState.OK,
        trace_metadata={} if session is None else {keys.TRACE_SESSION: session[0]},
    )
    return Trace(info=info, data=TraceData(spans=spans))


def in_memory_session(shown: Presentation) -> list[Trace]:
    """Lay a transcript out as MLflow keeps a conversation: one trace for each turn, its tool calls as TOOL spans.

    The inputs of a trace are the messages that began the turn, a system message among them; its outputs are what the
    assistant wrote until the next one. A single response is a conversation of one turn: instruction, response.
    """
    turns = _turns(shown.transcript or _one_turn(shown))
    name = hashlib.sha256(
        _json([list(map(_role_and_text, message)) for turn in turns for message in turn]).encode("utf-8", "replace")
    )
    return [
        in_memory_trace(
            {"messages": list(map(_role_and_text, question))} if question else None,
            "\n\n".join(filter(None, (_message_text(message) for message in answered if message.role == "assistant")))
            or None,
            answered,
            session=(f"jrh-{name.hexdigest()[:16]}", place),
        )
        for place, (question, answered) in enumerate(turns)
    ]


def _one_turn(shown: Presentation) -> tuple[Message, ...]:
    answer = shown.response if shown.response is not None else ""
    return Message(role="user", content=shown.instruction), Message(role="assistant", content=answer)


def _turns(messages: Sequence[Message]) -> list[tuple[list[Message], list[Message]]]:
    """Cut a conversation before each message of the user's, or of the system's, that follows an answer."""
    turns: list[tuple[list[Message], list[Message]]] = []
    for message in messages:
        asks = message.role in _ASKING
        if not turns or (asks and turns[-1][1]):
            turns.append(([], []))
        turns[-1][0 if asks else 1].append(message)
    return turns


def _role_and_text(message: Message) -> dict[str, str]:
    return {"role": message.role, "content": _message_text(message)}


def _message_text(message: Message) -> str:
    return "\n".join(filter(None, [message.content, *map(part_text, message.parts)]))


def _tool_spans(messages: Sequence[Message]) -> list[tuple[str, str, object, object]]:
    results: dict[Any, str] = {
        message.tool_call_id: "\n".join(filter(None, (message.content, message.error)))
        for message in messages
        if message.tool_call_id
    }
    return [
        (str(call.get("name", "tool")), "TOOL", call.get("arguments"), results.get(call.get("id")))
        for message in messages
        for call in message.tool_calls
    ]


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _read_feedback(scorer: Any, returned: object, shown: Presentation, words: Mapping[str, str]) -> Answer:
    """Turn what `scorer.run` returned into an answer.

    Raises:
        JudgeError: when the feedback carries an error, or there are several.
    """
    feedback, paid = _one_feedback(scorer, returned, shown)
    secrets = _secrets(scorer)
    value = answer_for(getattr(feedback, "value", feedback), shown, words)
    rationale = getattr(feedback, "rationale", None)
    used = [_usage(getattr(own, "metadata", None) or {}) for own in paid]
    tokens_in, tokens_out, cost = (_known_sum(usage[place] for usage in used) for place in range(3))
    return Answer(
        blank_secrets(value, secrets) if isinstance(value, str) else value,
        rationale=blank_secrets(str(rationale), secrets) if rationale else None,
        input_tokens=None if tokens_in is None else int(tokens_in),
        output_tokens=None if tokens_out is None else int(tokens_out),
        cost_usd=cost,
        confidence=_confidence(getattr(feedback, "value", feedback), getattr(feedback, "metadata", None) or {}),
    )


def _one_feedback(scorer: Any, returned: object, shown: Presentation) -> tuple[Any, list[Any]]:
    """Return the feedback that is the answer, and those that were paid for.

    A judge that grades each retrieved text gives a feedback of its own name for each, and the share of relevant ones
    as `NAME/precision`: the grade where there is one text, the share where numbers are asked for.
    """
    several = returned if isinstance(returned, list) else [returned]
    failed = next((error for feedback in several if (error := getattr(feedback, "error", None)) is not None), None)
    if failed is not None:
        raise JudgeError(f"{scorer.name}: {failed.error_code}: {failed.error_message}")
    if len(several) == 1:
        return several[0], several
    shares = [feedback for feedback in several if getattr(feedback, "name", None) == f"{scorer.name}{_SHARE}"]
    grades = [feedback for feedback in several if getattr(feedback, "name", None) == scorer.name]
    answers = grades if len(grades) == 1 and not scorer_facts.takes_shares(shown.answers) else shares
    if len(answers) != 1 or len(shares) + len(grades) != len(several):
        raise JudgeError(f"{scorer.name} gave {len(several)} feedbacks for one call; an answer is one.")
    return answers[0], grades


def answer_for(value: object, shown: Presentation, words: Mapping[str, str]) -> object:
    """Return the answer that a feedback value stands for, or the value as it is.

    Example:
        >>> pair = Presentation(kind="pair", instruction="", first="x", second="y")
        >>> answer_for(" Response B", pair, {}), answer_for("the second one", pair, {})
        ('2', 'the second one')
        >>> graded = Presentation(kind="response", instruction="", response="x", answers=("pass", "fail"))
        >>> answer_for(True, graded, {}), answer_for("no", graded, {}), answer_for(1, graded, {})
        ('pass', 'fail', 1)
    """
    value = value.value if isinstance(value, Enum) else value
    word = _as_word(value)
    if word is None:
        return value
    # What the user gave a meaning goes before what the words mean otherwise.
    if word in words:
        return words[word]
    if shown.kind == "pair":
        return _SLOT_WORDS.get(word, value)
    labels = {label.strip().casefold(): label for label in shown.answers}
    # A word stands for a label of the same side only where one label is on that side: of two it could be either.
    for alike in LABEL_WORDS:
        same = [label for key, label in labels.items() if key in alike]
        if word in alike and word not in labels and len(same) == 1:
            return same[0]
    return value


def _in_asked_words(scorer: Any, given: Answer, shown: Presentation, words: Mapping[str, str]) -> Answer:
    """Return an answer as it is; one that stands for none of `shown.answers` with what the scorer was asked for."""
    if read_answer(given, shown.answers)[0] != "unparsed":
        return given
    declared = [value for value in get_args(getattr(scorer, "feedback_value_type", None)) if isinstance(value, str)]
    common = ["A", "B", "tie"] if shown.kind == "pair" else list(shown.answers)
    offered = [
        word
        for word in (declared or list(words) or common)
        if read_answer(answer_for(word, shown, words), shown.answers)[0] != "unparsed"
    ]
    return replace(given, value=Unread(given.value, tuple(offered) or shown.answers))


def _as_word(value: object) -> str | None:
    """Fold a feedback value for comparison: 1 and 1.0 are `1`, True is `true`; None for what is no single value."""
    if isinstance(value, bool | str):
        return str(value).strip().casefold()
    if isinstance(value, int | float) and math.isfinite(value):
        return str(int(value)) if value == int(value) else repr(value)
    return None


def _known_sum(numbers: Iterable[Any]) -> Any:
    """Sum numbers; None when one of them is unknown."""
    known = list(numbers)
    return None if None in known else sum(known)


def _usage(metadata: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Input tokens, output tokens and dollars; None where MLflow does not say. An ensemble's are its members'."""
    if _MEMBERS in metadata:
        members = [_usage(member.get("metadata") or {}) for member in json.loads(metadata[_MEMBERS])]
        tokens_in, tokens_out, cost = (_known_sum(usage[place] for usage in members) for place in range(3))
    else:
        tokens_in, tokens_out, cost = (_amount(metadata.get(key)) for key in _USAGE)
    return tokens_in, tokens_out, cost


def _confidence(value: object, metadata: Mapping[str, Any]) -> float | None:
    """Return the probability of the value that was given, where MLflow's decision APIs tell it.

    `….confidence` is that of the choice made; `….probability` is that the answer is True, whatever it was.

    Example:
        >>> _confidence(False, {"typesafe.probability": "0.25"}), _confidence("B", {"typesafe.confidence": "0.8"})
        (0.75, 0.8)
    """
    chosen, holds = (_first_probability(metadata, names) for names in (keys.CHOICE_CONFIDENCE, keys.TRUE_PROBABILITY))
    if chosen is not None or holds is None:
        return chosen
    yes, no = LABEL_WORDS
    word = _as_word(value.value if isinstance(value, Enum) else value)
    return holds if word in yes else 1 - holds if word in no else None


def _first_probability(metadata: Mapping[str, Any], names: Iterable[str]) -> float | None:
    # More than 1 is no probability: anybody can write metadata.
    amounts = (_amount(metadata.get(name)) for name in names)
    return next((amount for amount in amounts if amount is not None and amount <= 1), None)


def _amount(value: object) -> float | None:
    # A feedback that has been stored and read again holds its numbers as text.
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = float(value)
    except ValueError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def _secrets(scorer: Any) -> list[str]:
    """Environment keys, header values and credentials of the base URL: a service or an error may have echoed them."""
    # By the word: of `Bearer sk-…` the key alone may come back.
    headers = mlflow_internals.extra_headers(scorer) or getattr(scorer, "extra_headers", None) or {}
    url = urlsplit(mlflow_internals.base_url(scorer) or "")
    secrets = environment_secrets()
    secrets += [word for value in headers.values() for word in value.split()]
    return secrets + [part for part in (url.username, url.password, url.query) if part]
