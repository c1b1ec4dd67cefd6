"""The one reader of what people and judges said: tables, files, traces, review queues, evaluations and their runs.

Each source is one file of `labels/` with an object `SOURCE` (see `LabelSource`); a file that is added is found. All
of them give one long table, `LabelTable`, which is all that agree, correct, passed and align know of a source.

MLflow keeps what people and judges said under names of assessments. Of a source that asks several questions the one is
chosen that is meant: agreement starts from what people were asked, a correction from what the judge said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.people import labels as label_sources
from jrh_mlflow.people.labels import CODE, JUDGE, PERSON, LabelOptions, LabelSource, LabelTable, safe_frame
from jrh_mlflow.tracking.traces.traces_in import HUMAN, LLM_JUDGE, UNNAMED, same_name

_TABLES = "tables"
"""Anything may be a table, so that it is asked last."""
Answer = SimpleNamespace
"""A row of the table by its columns, and `place`, its number."""
_DEFINITIONS = {"scorer_digest": "digests", "scorer_version": "versions"}


def labels_of(source: object, options: LabelOptions | None = None) -> LabelTable:
    """Read what people and judges said, whatever holds it.

    Raises:
        RecipeError: when it cannot be read, in one line.
        TrackingError: when MLflow cannot be reached.
    """
    # An agreement has its labels in hand; to ask for its class would import it in a circle.
    known = getattr(source, "label_table", source)
    if isinstance(known, LabelTable):
        return known
    reader = next(reader for reader in sources() if reader.takes(source))
    labels = reader.read(source, options or LabelOptions())
    return replace(labels, frame=safe_frame(labels.frame))


def sources() -> Iterator[LabelSource]:
    """Yield every source: the files of `labels/`, tables last."""
    files = iter_modules(label_sources.__path__)
    for name in sorted((file.name for file in files), key=lambda name: (name == _TABLES, name)):
        yield import_module(f"{label_sources.__name__}.{name}").SOURCE


def chosen_by_people(labels: LabelTable, *, name: str | None, judge: str | None) -> LabelTable:
    """Keep what people said under one name, and what one judge said about it.

    Args:
        labels: All that was said.
        name: None takes the only question that people answered, or the only one of theirs that a judge answered too.
        judge: Source of the judge, or the name of its assessment where that is another; None takes the only one, or
            the only model beside code.

    Raises:
        RecipeError: when nobody labelled anything, several judges spoke and none is named, or a judge has the name of
            a person.
    """
    if "name" not in labels.frame:
        return labels
    people, judges = _answers(labels)
    name = _chosen_name(people, judges, name, labels.nobody)
    verdicts = _verdicts(judges, people, name, judge)
    own = [*(answer for answer in people if same_name(answer.name, name)), *verdicts]
    names = {name, *(answer.name for answer in verdicts)}
    counts = _left_out(labels, names)
    facts = judge_facts(verdicts)
    counted = ", ".join(f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.items())
    return replace(
        labels,
        frame=labels.frame.iloc[sorted(answer.place for answer in own)].reset_index(drop=True),
        judge=verdicts[0].rater if verdicts else None,
        facts=facts,
        name=name,
        left_out=counts,
        notes=[
            *labels.notes,
            *_several(facts, verdicts),
            *(_code_beside(judges, verdicts) if judge is None else ()),
            *([f"Assessments that are no label: {counted}."] if counted else []),
        ],
    )


def chosen_by_scorer(labels: LabelTable, *, scorer: str | None, human: str | None) -> LabelTable:
    """Keep what one scorer said, on which items it failed, and what people said under its name.

    Args:
        labels: All that was said.
        scorer: Name of its feedback, or its source; None takes the only one, or the only one that people answered too.
        human: Name of what people answered, where it is another.

    Raises:
        RecipeError: when there is no such scorer, several and none is named, or several definitions of it.
    """
    if "name" not in labels.frame:
        return labels
    people, judges = _answers(labels)
    own = _of_scorer(labels, people, judges, scorer)
    _check_one_judge(own)
    name = own[0].name
    labelled = [answer for answer in people if same_name(answer.name, human or name)]
    frame = labels.frame
    failed = [place for place, (of, why) in _outcomes(labels).items() if why == "failed" and same_name(of, name)]
    rows = {answer.place for answer in (*own, *labelled)} | set(failed)
    spoken = set(frame["item"].iloc[sorted(rows)])
    # An item that the scorer left out is a missing verdict: one row of it stays, without a word.
    silent = frame[~frame["item"].isin(spoken)].drop_duplicates("item").index
    kept = frame.iloc[sorted(rows | set(silent))].copy()
    kept.loc[silent, ["rater", "kind", "label", "outcome"]] = None
    return replace(labels, frame=_as_before(kept, frame), judge=own[0].rater, facts=judge_facts(own), name=name)


def _as_before(kept: Any, frame: Any) -> Any:
    """Let items stand in the order in which they came."""
    place = {item: number for number, item in enumerate(dict.fromkeys(frame["item"]))}
    # Stable, so that the rows of one item keep their order.
    return kept.sort_values("item", key=lambda items: items.map(place), kind="stable").reset_index(drop=True)


def _answers(labels: LabelTable) -> tuple[list[Answer], list[Answer]]:
    """Return what people said, and what judges and code did."""
    cells: list[dict[str, Any]] = labels.frame.rename(columns=str).to_dict("records")
    rows = [Answer(place=place, **row) for place, row in enumerate(cells)]
    judges = [row for row in rows if row.kind in (JUDGE, CODE)]
    return [row for row in rows if row.kind == PERSON], judges


def _outcomes(labels: LabelTable) -> dict[int, tuple[str, str]]:
    """Return by their place the rows that are no label: name and reason."""
    rows = zip(labels.column("name"), labels.column("outcome"), strict=True)
    return {place: (name, reason) for place, (name, reason) in enumerate(rows) if reason is not None}


def _left_out(labels: LabelTable, names: Iterable[str]) -> dict[str, int]:
    counts = Counter(reason for of, reason in _outcomes(labels).values() if any(same_name(of, name) for name in names))
    return dict(counts)


def _chosen_name(people: Sequence[Answer], judges: Sequence[Answer], name: str | None, nobody: str) -> str:
    names = _names(answer.name for answer in people)
    if name is not None:
        if same := next((other for other in names if same_name(other, name)), None):
            return same
    else:
        shared = [own for own in names if any(same_name(own, answer.name) for answer in judges)]
        possible = shared or names
        if len(possible) == 1:
            return possible[0]
        if possible:
            raise RecipeError(f"People gave {_listed(possible)} on these traces. Say which one: name=, --name.")
    known = f"{suggest(name or '', names)} Names with labels of people: {_listed(names)}." if names else ""
    named = (
        nobody
        if name is None
        else nobody.replace("a label of a person", f"a label of a person under the name {name!r}")
    )
    raise RecipeError(f"{named}{known}")


def _verdicts(judges: Sequence[Answer], people: Sequence[Answer], name: str, judge: str | None) -> list[Answer]:
    """Return the verdicts of the one judge that is meant; a model goes before code."""
    under = [answer for answer in judges if same_name(answer.name, name)]
    if judge is not None:
        under = _named_judge(judges, under, judge, people)
    elif len({answer.rater for answer in under if answer.kind == JUDGE}) == 1:
        under = [answer for answer in under if answer.kind == JUDGE]
    raters = _names(answer.rater for answer in under)
    if len(raters) > 1:
        raise RecipeError(
            f"Several judges gave {under[0].name!r}: {', '.join(raters)}. Say which one: judge=, --judge."
        )
    # What code expects under another name is about something else.
    both = [
        answer
        for answer in people
        if answer.rater in raters and (answer.source_type == HUMAN or same_name(answer.name, name))
    ]
    if both:
        raise RecipeError(
            f"{raters[0]!r} is a person and a judge on these traces: whose labels are they? Give the judge a source id "
            "of its own."
        )
    return under


def _named_judge(
    judges: Sequence[Answer], under: Sequence[Answer], judge: str, people: Sequence[Answer]
) -> list[Answer]:
    """Find a judge by its source among those of the name, by the name of its assessment, by its source anywhere."""
    by_source = [answer for answer in judges if judge in (answer.source_id, answer.rater)]
    own = [answer for answer in under if answer in by_source]
    meant = own or [answer for answer in judges if same_name(answer.name, judge)] or by_source
    if len(names := _names(answer.name for answer in meant)) > 1:
        raise RecipeError(f"The judge {judge!r} gave {_listed(names)}. Say which one: judge=, --judge.")
    if meant:
        return meant
    if any(answer.rater == judge for answer in people):
        raise RecipeError(f"{judge!r} is a person on these traces; a judge is a model or code (LLM_JUDGE or CODE).")
    known = _names(f"{answer.rater} ({answer.name})" for answer in judges)
    there = f"Judges there are: {', '.join(known)}." if known else "No model and no code gave feedback on them."
    raise RecipeError(f"There is no judge {judge!r} on these traces.{suggest(judge, known)} {there}")


def judge_facts(verdicts: Sequence[Answer]) -> dict[str, str]:
    """Return what is known of a judge; where its verdicts differ in it, all that was found."""
    if not verdicts:
        return {}
    first = verdicts[0]
    model = first.source_id if first.source_type == LLM_JUDGE and first.source_id not in UNNAMED else None
    known = {"source_id": first.source_id, "source_type": first.source_type, "name": first.name, "model": model}
    for fact in ("scorer", "scorer_version", "scorer_digest", "run_id"):
        known[fact] = ", ".join(_names(answer.facts.get(fact, "") for answer in verdicts))
    return {fact: str(value) for fact, value in known.items() if value}


def _several(facts: Mapping[str, str], verdicts: Sequence[Answer]) -> tuple[str, ...]:
    """Say that verdicts come from several definitions of a judge: they are not one judge's."""
    for fact in ("scorer_digest", "scorer_version", "scorer"):
        if len({answer.facts.get(fact) for answer in verdicts}) > 1:
            what = f"The verdicts of {verdicts[0].rater} come from several definitions ({fact}: {facts[fact]})"
            return (f"{what}; on each trace the newest counts.",)
    return ()


def _code_beside(judges: Sequence[Answer], verdicts: Sequence[Answer]) -> tuple[str, ...]:
    """Say that code gave the name of the judge's assessment, too."""
    names = {(answer.name, answer.rater) for answer in verdicts}
    others = _names(
        answer.rater
        for answer in judges
        for name, rater in names
        if same_name(answer.name, name) and answer.rater != rater
    )
    if not others:
        return ()
    judge = verdicts[0]
    return (f"Code gave {judge.name!r}, too ({', '.join(others)}): {judge.rater} is taken as the judge.",)


def _of_scorer(
    labels: LabelTable, people: Sequence[Answer], judges: Sequence[Answer], scorer: str | None
) -> list[Answer]:
    """Find what one scorer said, by the name of its feedback or by its source; beside code a model is the judge."""
    names = _names(answer.name for answer in judges)
    if scorer is None and len(names) > 1:
        shared = [name for name in names if any(same_name(name, answer.name) for answer in people)]
        if len(shared) != 1:
            raise RecipeError(f"Several scorers gave feedback: {', '.join(names)}. Say which one: scorer= (--name).")
        scorer = shared[0]
    named = [answer for answer in judges if scorer is None or same_name(answer.name, scorer)]
    models = [answer for answer in named if answer.kind == JUDGE]
    own = models or named or [answer for answer in judges if scorer in (answer.rater, answer.source_id)]
    if own:
        return own
    failed = sum(reason == "failed" for _, reason in _outcomes(labels).values())
    lost = f" ({failed} failed)" if failed else ""
    if not names:
        raise RecipeError(f"No scorer gave a verdict on these traces{lost}: feedback of models and code is looked for.")
    known = f"{suggest(str(scorer), names)} There are: {', '.join(names)}."
    raise RecipeError(f"No scorer {scorer!r} gave a verdict on these traces{lost}.{known}")


def _check_one_judge(verdicts: Sequence[Answer]) -> None:
    """Refuse verdicts of several sources, or of several definitions of a scorer: no one calibration holds for them."""
    name, raters = verdicts[0].name, _names(answer.rater for answer in verdicts)
    if len(raters) > 1 or len({answer.name for answer in verdicts}) > 1:
        raise RecipeError(f"Several judges gave {name!r}: {', '.join(raters)}. Say which one: scorer= (--name).")
    for fact, what in _DEFINITIONS.items():
        definitions = _names(answer.facts.get(fact, "") for answer in verdicts)
        if len(definitions) > 1:
            raise RecipeError(
                f"The verdicts of {name!r} come from {len(definitions)} definitions of it ({what} "
                f"{', '.join(definitions)}). A correction is of one judge: take the run of one evaluation."
            )


def _names(several: Iterable[str]) -> list[str]:
    """Return names once each, sorted, without empty ones."""
    return sorted({name for name in several if name})


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
