"""Labels on MLflow traces: all that people and judges said about them, by assessment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from jrh_mlflow.errors import RecipeError, suggest
from jrh_mlflow.people.labels import CODE, JUDGE, PERSON, LabelOptions, LabelSource, LabelTable, long_frame
from jrh_mlflow.tracking.runs.keys import own_key
from jrh_mlflow.tracking.runs.store import active_uri
from jrh_mlflow.tracking.runs.view import trace_link
from jrh_mlflow.tracking.traces.traces_in import (
    LLM_JUDGE,
    PREFIX,
    SCORER_FACTS,
    Rating,
    TraceRatings,
    find_traces,
    read_assessments,
)

SESSION = "mlflow.trace.session"
INCLUSION, DRAWN = (own_key(name) for name in ("inclusion", "drawn"))
"""Tags of a trace that was drawn to be labelled: with what chance, and how."""
_OF_RATINGS = ("rater", "label", "name", "source_type", "source_id", "is_expectation")
_TRACE_ID = re.compile(r"tr-.+|trace:/.+|[0-9a-f]{32}")


class TraceLabels(LabelSource):
    """`traces:/EXPERIMENT`, trace ids, or traces themselves."""

    def takes(self, source: object) -> bool:
        """Whether it names traces, or is a list of them."""
        if isinstance(source, str):
            return source.startswith(PREFIX)
        several = source if isinstance(source, list | tuple) else ()
        # A list of other words is a list of verdicts.
        return bool(several) and all(hasattr(item, "info") or _TRACE_ID.fullmatch(str(item)) for item in several)

    def read(self, source: Any, options: LabelOptions) -> LabelTable:
        """Read all assessments; of one rater on one trace under one name the newest value counts."""
        uri = options.tracking_uri or active_uri()
        infos = [trace.info for trace in find_traces(source, uri, options.max_traces)]
        groups = (
            None
            if options.group is None
            else [_tags(info.trace_metadata, info.tags).get(options.group) for info in infos]
        )
        if groups is not None and not any(group is not None for group in groups):
            _refuse_group(str(options.group), infos)
        facts = {
            str(info.trace_id): {
                "experiment": str(info.experiment_id),
                "link": trace_link(uri, str(info.experiment_id), info.trace_id),
                "text": f"{info.request_preview or ''}\n{info.response_preview or ''}",
                **drawn_facts(info.trace_metadata, info.tags, options.cluster),
                **({} if groups is None else {"group": groups[place]}),
            }
            for place, info in enumerate(infos)
        }
        ratings = {str(info.trace_id): read_assessments(info) for info in infos}
        shown = source if isinstance(source, str) else f"{len(source)} traces"
        return trace_labels(ratings, facts, shown=shown, tracking_uri=uri)


SOURCE = TraceLabels()


def trace_labels(
    ratings: Mapping[str, TraceRatings],
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    shown: str,
    **known: Any,
) -> LabelTable:
    """Return what was said about traces as a long table.

    Args:
        ratings: Of each trace.
        facts: Of each trace: more columns, the same of all.
        shown: How the source is named.
        known: Further fields of the table.
    """
    rows = [row for trace, rated in ratings.items() for row in _rows(trace, rated)]
    names = rows[0].keys() if rows else ("item", "kind")
    columns = {name: [row[name] for row in rows] for name in names}
    for name in next(iter((facts or {}).values()), {}):
        columns[name] = [(facts or {})[item][name] for item in columns["item"]]
    experiments = set(columns.get("experiment", ()))
    return LabelTable(
        frame=long_frame(columns),
        shown=shown,
        of_traces=True,
        nobody=(
            f"No trace of {shown} has a label of a person: HUMAN feedback or expectations are labels, feedback of "
            "models and code is not."
        ),
        **{"experiment_id": experiments.pop() if len(experiments) == 1 else None, **known},
    )


def _rows(trace: str, rated: TraceRatings) -> Iterator[dict[str, Any]]:
    """Yield what each rater said, what is no label with the reason, or one row for a trace that nobody spoke about."""
    empty = dict.fromkeys((*_OF_RATINGS, "kind", "when", "facts", "outcome"))
    row = {"item": trace, **empty, "is_expectation": False}
    by_rater = attrgetter("rater")
    for rating in (*sorted(rated.people, key=by_rater), *sorted(rated.judges, key=by_rater)):
        facts = {fact: rating.metadata[key] for fact, key in SCORER_FACTS.items() if key in rating.metadata}
        known = {name: getattr(rating, name) for name in _OF_RATINGS}
        yield {**row, **known, "kind": _kind(rating), "when": rating.time_ms, "facts": facts}
    for (name, reason), count in rated.left_out.items():
        yield from ({**row, "name": name, "outcome": reason} for _ in range(count))
    if not (rated.people or rated.judges or rated.left_out):
        yield row


def drawn_facts(metadata: Mapping[str, str] | None, tags: Mapping[str, str], cluster: str | None) -> dict[str, Any]:
    """Return how a trace was sampled: its session (or the tag that is named), and how it was drawn to be labelled."""
    known = _tags(metadata, tags)
    chance = known.get(INCLUSION)
    return {
        "cluster": known.get(cluster or SESSION),
        "inclusion": None if chance is None else float(chance),
        "drawn": known.get(DRAWN),
    }


def _tags(metadata: Mapping[str, str] | None, tags: Mapping[str, str]) -> dict[str, str]:
    # Metadata is fixed when a trace is made and tags may be set later, so a tag goes before it.
    return {**(metadata or {}), **tags}


def _kind(rating: Rating) -> str:
    if not rating.is_judge:
        return PERSON
    return JUDGE if rating.source_type == LLM_JUDGE else CODE


def _refuse_group(group: str, infos: Sequence[Any]) -> None:
    tags = sorted({tag for info in infos for tag in info.tags if not tag.startswith("mlflow.")})
    there = f"Tags there are: {', '.join(tags)}." if tags else "They have none."
    raise RecipeError(f"No trace has the tag {group!r}.{suggest(group, tags)} {there}")
