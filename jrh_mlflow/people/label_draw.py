"""`jrh.label_draw`: items for people to label, each with its chance of being drawn, for a file or a review queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from jrh_mlflow.errors import RecipeError, check_known
from jrh_mlflow.people.label_reader import chosen_by_scorer, labels_of
from jrh_mlflow.people.labels import CODE, JUDGE, LabelOptions, LabelTable
from jrh_mlflow.people.labels.traces import DRAWN, INCLUSION
from jrh_mlflow.schema.label_words import label_number, label_text
from jrh_mlflow.stats import Array, Codes
from jrh_mlflow.stats.label_draws import allocated, score_strata
from jrh_mlflow.tracking.traces.review_queues import queue_disagreements, tag_traces

if TYPE_CHECKING:
    import pandas as pd

DrawnBy = Literal["random", "verdict", "score"]


def label_draw(
    source: object,
    n: int,
    *,
    by: DrawnBy = "random",
    queue: str | None = None,
    seed: int = 0,
    scorer: str | None = None,
    name: str | None = None,
    offered: Sequence[object] = (),
    judge: str = "judge",
    item: str = "item",
    cluster: str | None = None,
    max_traces: int | None = None,
    tracking_uri: str | None = None,
) -> pd.DataFrame:
    """Draw items for people to label, and write with what chance each was drawn.

    `jrh.correct` reads the chances, from the file or from the traces, so that `sampling` need not be said. Where people
    answer only some of what was drawn, and which is chance, the chances are still right: only their ratios count.

    Args:
        source: What a judge said: a table or file, the result or run of `mlflow.genai.evaluate`, `traces:/EXPERIMENT`,
            as for `jrh.correct`. Items drawn at random need no verdicts.
        n: How many.
        by: `random`: all items alike; `verdict`: as many of each verdict of the judge; `score`: more of those whose
            score is in the middle, where the judge is least sure (Neyman).
        queue: Put the traces into this MLflow review queue, and write chances into their tags.
        seed: Of the draw.
        scorer: Which scorer of the source; the only one when None.
        name: Of a queue: the question, under which answers are kept; the name of the scorer when None.
        offered: Of a queue: what may be answered; what the judge answered when none are given.
        judge: Column of verdicts or scores.
        item: Column of ids.
        cluster: Column or tag with what was sampled together; kept beside the items.
        max_traces: Of an experiment, the newest so many.
        tracking_uri: MLflow store; the active one when None.

    Returns:
        A row for each item in random order: item, human (empty, to be filled in), inclusion, drawn, and where known
        cluster, text and link. The judge's verdict is left out, so that nobody is led by it.

    Raises:
        RecipeError: when there are too few items, some were drawn before, or verdicts or scores are missing.
        TrackingError: when the store has no review queues.
    """
    check_known("by", by, get_args(DrawnBy))
    options = LabelOptions(part="verdicts", judge=judge, item=item, cluster=cluster)
    labels = labels_of(source, replace(options, max_traces=max_traces, tracking_uri=tracking_uri, fresh=True))
    # Traces that no scorer has seen can be drawn at random, too.
    if by != "random" or scorer is not None or any(kind in (JUDGE, CODE) for kind in labels.column("kind")):
        labels = chosen_by_scorer(labels, scorer=scorer, human=None)
    if not labels.has_ids:
        raise RecipeError(f"The items of {labels.shown} have no ids: give a column {item!r}.")
    if labels.per_item("inclusion"):
        raise RecipeError(f"Items of {labels.shown} were drawn before. Draw from others: two draws cannot be added.")
    items, strata, spreads = _strata(labels, by)
    if isinstance(n, bool) or not 0 < n <= len(items):
        raise RecipeError(f"`n` must lie between 1 and the {len(items):,} items of {labels.shown}, but is {n}.")
    sizes = np.bincount(strata).astype(float)
    drawn = allocated(sizes, spreads if by == "score" else 1 / sizes if by == "verdict" else np.ones(1), n)
    frame = _drawn(labels, items, strata, drawn / sizes, drawn, f"{by}, seed {seed}", seed)
    if queue is not None:
        _put_in_queue(labels, frame, queue, name=name, offered=offered)
    return frame


def _strata(labels: LabelTable, by: DrawnBy) -> tuple[list[str], Codes, Array]:
    """Return the items, the stratum of each, and the spread of each stratum."""
    items = list(dict.fromkeys(map(str, labels.column("item"))))
    if by == "random":
        return items, np.zeros(len(items), dtype=np.intp), np.ones(1)
    said = judge_texts(labels)
    # What has no verdict is in no stratum, and `correct` leaves it out as well.
    items = [item for item in items if said.get(item) is not None]
    texts = [str(said[item]) for item in items]
    if by == "verdict":
        levels, strata = np.unique(texts, return_inverse=True)
        return items, strata.ravel().astype(np.intp), np.ones(len(levels))
    scores = [label_number(text) for text in texts]
    if not scores or any(score is None for score in scores) or len(set(scores)) < 3:
        raise RecipeError("Drawing by score needs scores of three values or more: draw by verdict, or at random.")
    return items, *score_strata(scores_from_0_to_1(np.array(scores, dtype=float)))


def judge_texts(labels: LabelTable) -> dict[str, str | None]:
    """Return what the judge said of each item, as text."""
    rows = zip(labels.column("item"), labels.column("kind"), labels.column("label"), strict=True)
    return {str(item): label_text(label) for item, kind, label in rows if kind in (JUDGE, CODE)}


def scores_from_0_to_1(scores: Array) -> Array:
    """Return scores between 0 and 1; those on another scale by their place between the least and the greatest."""
    low, high = float(scores.min()), float(scores.max())
    return scores if low >= 0 and high <= 1 else np.asarray((scores - low) / (high - low))


def _drawn(
    labels: LabelTable, items: Sequence[str], strata: Codes, chances: Array, drawn: Codes, how: str, seed: int
) -> pd.DataFrame:
    import pandas as pd

    rng = np.random.default_rng(seed)
    chosen = np.concatenate(
        [rng.choice(np.flatnonzero(strata == stratum), size=k, replace=False) for stratum, k in enumerate(drawn)]
    )
    # In random order, so that what is answered first is a random part.
    chosen = rng.permutation(chosen)
    names = [items[place] for place in chosen]
    columns = {"item": names, "human": [None] * len(names), "inclusion": chances[strata[chosen]], "drawn": how}
    facts = {name: labels.per_item(name) for name in ("cluster", "text", "link")}
    known = {name: [cells.get(item) for item in names] for name, cells in facts.items() if cells}
    frame: pd.DataFrame = pd.DataFrame({**columns, **known})
    return frame


def _put_in_queue(
    labels: LabelTable, frame: pd.DataFrame, queue: str, *, name: str | None, offered: Sequence[object]
) -> None:
    if not labels.of_traces:
        raise RecipeError("A review queue holds traces: give traces, or the result of mlflow.genai.evaluate.")
    question = name or labels.name
    if question is None:
        raise RecipeError("Which question people are to answer is not known: name it (name=, --name).")
    of_item = labels.experiments if "experiment" in labels.frame else {}
    experiments = {item: str(of_item.get(item) or labels.experiment_id) for item in frame["item"]}
    given = {label for label in labels.column("label") if label is not None and label_text(label) is not None}
    answers = list(offered) or sorted(given, key=str)
    # The queue first: a store that has none is left as it was.
    queue_disagreements(experiments, queue=queue, name=question, labels=answers, tracking_uri=labels.tracking_uri)
    rows = zip(frame["item"], frame["inclusion"], frame["drawn"], strict=True)
    tag_traces({item: {INCLUSION: repr(float(chance)), DRAWN: how} for item, chance, how in rows}, labels.tracking_uri)
