"""A datasheet or a reliability report as a page, as the Markdown of a run's description, and on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures import axes
from jrh_mlflow.measures.behind import has_calls
from jrh_mlflow.measures.datasheet import detectable
from jrh_mlflow.measures.reliability import ALL, ReliabilityReadings, WorstItem, scored_by
from jrh_mlflow.measures.variation import asking_again_helps
from jrh_mlflow.measures.verdict import DROP, NOISE_EXCESS, WithVerdict
from jrh_mlflow.perturb.languages import language_names
from jrh_mlflow.perturb.registry import expectation_of, score_name
from jrh_mlflow.schema import metric_keys
from jrh_mlflow.schema.estimates import Estimate, NotEstimable, Reading
from jrh_mlflow.schema.items import BASELINE, LABEL_SOURCES, PAPER
from jrh_mlflow.scoring.expectations import USUAL
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.scoring.readings import AGREEMENT
from jrh_mlflow.show import readings as in_words
from jrh_mlflow.show.html import Addresses, render_part
from jrh_mlflow.show.names import axis_name, reason_text, statistic_name
from jrh_mlflow.show.numbers import (
    bounds_note,
    interval_text,
    is_shown,
    missing_text,
    number_text,
    threshold_text,
    value_text,
    with_interval,
)
from jrh_mlflow.show.page import (
    Drawing,
    Facts,
    Navigation,
    Only,
    Page,
    Section,
    Sentence,
    Tile,
    is_shown_in,
    section_markdown,
)
from jrh_mlflow.show.plain_text import MAX_DESCRIPTION, code, line_text, literal, wrapped_line
from jrh_mlflow.show.tables import Column, FilledTable, Medium, Table
from jrh_mlflow.stats.variance import ASKING_AGAIN, MORE_TASKS, PARTS

if TYPE_CHECKING:
    from markupsafe import Markup

NO_ACCURACY = "Agreement with labels that a model wrote (model) or nobody confirmed (unverified): no accuracy"
NO_ACCURACY_NOTE = (
    "Agreement with labels that a model wrote (`model`) or that no verifier confirmed (`unverified`): no accuracy, and "
    "in no score."
)
CUT = 300
"""Characters of a text that Markdown shows."""
_FURTHER = "Further axes"
_MOST_TILES = 9
_MOST_REASONS, _MOST_NAMED = 11, 5
"""Reasons in the Markdown of a report, and axes of each that are named: a description is short."""
_PAGE: tuple[Medium, ...] = ("html",)
_FILE: tuple[Medium, ...] = ("markdown",)
_BY_TASK, _BY_SOURCE = in_words.readings_table("task"), in_words.readings_table("source", first="test")
_DETAILS = {
    "Two labels": ("error_rate", "fpr", "fnr", "matthews"),
    "Scale": ("mae", "within_one", "ccc", "pearson", "spearman", "qwk"),
    "Asked again": ("unanimity", "flip_rate", "krippendorff_alpha", "gwet_ac1"),
}
"""Tables of a report in Markdown: a column for each axis, a row for each test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLinks:
    """Where a served page leads: to the calls of its run, to MLflow and to other runs of the same suite."""

    addresses: Addresses
    run_id: str
    experiment_id: str
    traces: str | None = None
    """Id of the experiment that its traces are in; None where it has none."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Other runs of the same suite: id to name."""

    def calls(self, key: str) -> str:
        """Return the address of the calls behind a reading; empty where there are none to show."""
        return self.addresses.calls(self.run_id, axis=key) if has_calls(key) else ""

    def outcome(self, outcome: str) -> str:
        """Return the address of the calls that ended so."""
        return self.addresses.calls(self.run_id, outcome=outcome)

    def item(self, item: str) -> str:
        """Return the address of the calls on an item, opened."""
        return self.addresses.calls(self.run_id, item=item, open=item)

    @property
    def comparisons(self) -> dict[str, str]:
        """Other judges of the same suite, each with the address of its comparison with this one."""
        return {name: self.addresses.compare([self.run_id, other]) for other, name in self.others.items()}


def sheet_page(
    sheet: WithVerdict,
    *,
    title: str,
    facts: Mapping[str, str],
    judge: Mapping[str, object],
    marks: Sequence[str] = (),
    drawings: Sequence[Drawing] = (),
    worst: Sequence[WorstItem] = (),
    notes: Sequence[str] = (),
    links: PageLinks | None = None,
) -> Page:
    """Show everything that was measured, and what was not with its reason.

    Args:
        sheet: A datasheet or a report.
        title: Of the page.
        facts: Suite, calls, cost and time, shown as they are.
        judge: Settings of the judge.
        marks: Beside the title: simulated, recorded, truncated.
        drawings: Of the readings.
        worst: Items that were judged furthest off.
        notes: What to know first.
        links: Of a served page; a file has none.
    """
    leading, others = sheet_sections(sheet, links)
    navigation = None
    if links is not None:
        ids = {"run_id": links.run_id, "experiment_id": links.experiment_id}
        navigation = Navigation(addresses=links.addresses, here="datasheet", traces=links.traces, **ids)
    return Page.saying(
        sheet.verdict,
        title=title,
        notes=notes,
        marks=marks,
        facts=facts,
        tiles=[_tile(row) for row in headline_rows(sheet, links)],
        sections=[
            Section(heading="Findings", blocks=[in_words.FINDINGS(sheet.verdict.findings)], media=_PAGE),
            *leading,
            Section(heading="Figures", blocks=[drawings], media=_PAGE),
            *others,
            Section(
                heading="Without a number",
                blocks=[in_words.MISSING(in_words.missing_rows(sheet.estimates))],
                media=_PAGE,
            ),
            _calls_section(sheet, links),
            Section(heading="Worst items", blocks=[_worst_items(worst, links)], media=_PAGE),
            Section(heading="Other judges on this suite", blocks=[_other_judges(links)], media=_PAGE),
            Section(heading="Profile", blocks=profile_sentences(sheet), always=True, media=_PAGE),
            Section(heading="Judge", blocks=[Facts(judge)], media=_PAGE),
        ],
        navigation=navigation,
    )


def profile_sentences(sheet: WithVerdict) -> list[str]:
    """Return the judge in the words of the Judge Datasheet: by intervals over tasks, and by the paper's own rule."""
    own = [f"By intervals over tasks: {sheet.profile}."]
    paper = getattr(sheet, "paper_profile", "")
    return [*own, f"By the rule of the paper (Wilson intervals over calls): {paper}."] if paper else own


def states_of(sheet: WithVerdict) -> dict[str, str]:
    """Return the state of each reading that has a limit."""
    return {finding.axis: finding.state for finding in sheet.verdict.findings}


def sheet_sections(sheet: WithVerdict, links: PageLinks | None = None) -> tuple[list[Section], list[Section]]:
    """Return the readings of a page: the sections that stand before the figures, and the others."""
    if isinstance(sheet, ReliabilityReadings):
        return _report_sections(sheet, links)
    states = states_of(sheet)
    sections = [_axis_section(heading, keys, links, states) for heading, keys in _by_heading(sheet.estimates).items()]
    # A ladder, step by step, says most in the least room.
    leading = [section for section in sections if isinstance(section.blocks[0], FilledTable)]
    groups = [_folded(heading, rows) for heading, rows in _group_rows(sheet, links).items()]
    return leading, [*(section for section in sections if section not in leading), *groups]


def headline_rows(sheet: WithVerdict, links: PageLinks | None = None) -> list[in_words.PageRow]:
    """Return the readings that sum a sheet up, those without a number or bounds left out.

    Of a report they are the mean over tests, the baseline, and the score of each test.
    """
    if not isinstance(sheet, ReliabilityReadings):
        # Ability is no headline metric, but what a judge is there for.
        keys = (*axes.headline_axes(), "ability")
        known = {key: sheet.estimates[key] for key in keys if key in sheet.estimates}
        return _rows(known, links, states=states_of(sheet))
    mean = in_words.across_row(metric_keys.RELIABILITY_MEAN, sheet.summary, sheet.scores, sheet.metric)
    rows = _rows({key: reading for key, (_, reading) in _keyed_scores(sheet).items()}, links)
    address = links.calls(metric_keys.RELIABILITY_MEAN) if links else ""
    return [*([replace(mean, address=address)] if mean else []), *rows][:_MOST_TILES]


def _rows(
    readings: Mapping[str, Reading],
    links: PageLinks | None,
    labels: Mapping[str, str] | None = None,
    states: Mapping[str, str] | None = None,
) -> list[in_words.PageRow]:
    return [
        in_words.axis_row(
            key,
            reading,
            label=(labels or {}).get(key, ""),
            address=links.calls(key) if links else "",
            state=(states or {}).get(key, ""),
        )
        for key, reading in readings.items()
        if is_shown(reading)
    ]


def _tile(row: in_words.PageRow) -> Tile:
    interval = row.interval if row.interval != "–" else ""
    lost = f"left out {row.left_out}" if row.left_out not in ("", "0") else ""
    details = " · ".join(part for part in (interval, row.n or "withheld", lost) if part)
    return Tile(
        label=row.label,
        value=row.value,
        address=row.address,
        details=details,
        state=row.state,
        meaning=row.meaning,
    )


def _by_heading(estimates: Mapping[str, Reading]) -> dict[str, dict[str, Reading]]:
    """Order readings as declared; one without a declaration comes last and is never left out."""
    known = {key for key in estimates if axes.find(key)}
    groups = {**axes.by_section(known), _FURTHER: [key for key in estimates if key not in known]}
    return {heading: {key: estimates[key] for key in keys} for heading, keys in groups.items()}


def _axis_section(
    heading: str, readings: Mapping[str, Reading], links: PageLinks | None, states: Mapping[str, str] | None = None
) -> Section:
    """Show families over steps as a table of steps, and a row for each other axis.

    Markdown has a sentence for the threshold of a curve. Its table of confidence is another (`_confidence_section`).
    """
    steps = in_words.step_tables({key: reading for key, reading in readings.items() if is_shown(reading)}, links)
    others = {key: reading for key, reading in readings.items() if not steps or not axes.declared(key).by_step}
    curves = [key for key in others if steps and axes.declared(key).unit == "curve"]
    lost = "and with the calls behind the number" if links else ""
    return Section(
        heading=f"{heading} (95 % by task)" if steps else heading,
        blocks=[
            # No two regions of a page may have one name.
            *(replace(table, label=f"{heading}, step by step: {table.columns[0].head}") for table in steps),
            *([Only(_PAGE, f"(−2): two were left out; why is said on hover {lost}".rstrip() + ".")] if steps else []),
            *(Only(_FILE, _threshold_sentence(key, others[key])) for key in curves),
            Only(_PAGE, _BY_TASK(_rows(others, links, states=states), style="axes")),
            Only(_FILE, _BY_TASK(_rows({key: others[key] for key in others if key not in curves}, None))),
            *variation_sentences(readings),
        ],
        media=("html",) if heading == axes.CONFIDENCE.section else ("html", "markdown"),
    )


def _threshold_sentence(key: str, reading: Reading) -> Sentence:
    name = axis_name(key)
    # Told how names are written, so that Markdown leaves the stars of a number alone.
    return lambda _: f"{name[0].upper()}{name[1:]}: {_threshold_text(reading)}"


def _threshold_text(reading: Reading) -> str:
    if isinstance(reading, NotEstimable):
        return f"n/a ({reason_text(reading.reason)})." if reading.bounds is None else f"{missing_text(reading)}."
    left, right = reading.censoring.get("left", 0.0), reading.censoring.get("right", 0.0)
    low = "below the smallest step" if reading.cluster_low is None else number_text(reading.cluster_low)
    high = "beyond the largest step" if reading.cluster_high is None else number_text(reading.cluster_high)
    # With both ends beyond the steps the interval may lie on one side of them: then the shares alone say where.
    known = reading.cluster_low is not None or reading.cluster_high is not None
    interval = f"95 % by task from {low} to {high}; " if known else ""
    shares = f"{left:.0%} of resamples reach it at the smallest step, {right:.0%} never" if reading.censoring else ""
    return f"**{threshold_text(reading)}** ({interval}{shares or 'one task, no interval'}){_decided(reading)}."


def _decided(reading: Estimate) -> str:
    """Say at which steps the curve's own intervals lie on one side of 75 %."""
    below, above = reading.not_reached_at, reading.reached_by
    parts = [f"below 75 % up to delta {below:g}"] if below is not None else []
    parts += [f"at or above 75 % from delta {above:g} on"] if above is not None else []
    return f"; by the intervals of the steps {', '.join(parts)}" if parts else ""


def _confidence_section(estimates: Mapping[str, Reading], *, by: str) -> Section:
    """Show calibration and expected values in Markdown; empty where no call had a confidence."""
    keys = [axis.name for axis in axes.AXES if axis.stimuli is axes.CONFIDENCE and axis.name in estimates]
    keys += [key for key in estimates if key.startswith(axes.EXPECTED)]
    error = estimates.get("confidence/ece")
    return Section(
        heading="Confidence",
        blocks=[
            in_words.confidence_readings(by)(_rows({key: estimates[key] for key in keys}, None)),
            *([f"Calibration error: {error.method}."] if isinstance(error, Estimate) else []),
            "Confidence is compared with right or wrong on calls with a known right answer. Expected values take "
            "probabilities in place of verdicts; what was not read of them lies between the bounds.",
        ],
        media=_FILE,
    )


def _further_section(estimates: Mapping[str, Reading], stimuli: axes.Stimuli) -> Section:
    """Show what the reasons or the variation of a report read, in Markdown; empty where there is nothing."""
    own = {axis.name: estimates[axis.name] for axis in axes.AXES if axis.stimuli is stimuli and axis.name in estimates}
    blocks = [_BY_SOURCE(_rows(own, None)), *variation_sentences(own)]
    return Section(heading=stimuli.section, blocks=blocks, media=_FILE)


_AGAIN = {
    "little": "Asking again would help little; more tasks would",
    "much": "Asking again would help about as much as more tasks",
    "open": "Whether asking again would help is open",
}


def variation_sentences(estimates: Mapping[str, Reading]) -> list[str]:
    """Say whether asking again would help, or more tasks would; nothing where the scores were not taken apart."""
    again = estimates.get(f"{axes.VARIANCE}{ASKING_AGAIN}")
    if again is None:
        return []
    if isinstance(again, NotEstimable):
        return [f"Whether asking again would help: {again.reason}."]
    low, high = again.cluster_interval or (0.0, MORE_TASKS)
    first = _AGAIN[asking_again_helps(again)]
    shares = {
        name: reading for name in PARTS if isinstance(reading := estimates.get(f"{axes.VARIANCE}{name}"), Estimate)
    }
    largest = max(shares, key=lambda name: shares[name].value)
    cancels = " What varies most is the order, which a mean over both orders is free of." if largest == "order" else ""
    return [
        f"{first}: twice as many asks of the same would narrow the interval of the mean score by "
        f"{100 * again.value:.0f} % [{100 * low:.0f}, {100 * high:.0f}], twice as many tasks by "
        f"{100 * MORE_TASKS:.0f} %.{cancels}"
    ]


def _keyed_scores(report: ReliabilityReadings) -> dict[str, tuple[str, Reading]]:
    """Return the key of each score to its test and reading, the baseline first."""
    base = f"{BASELINE}/{report.metric}"
    keyed = {base: (BASELINE, report.estimates[base])} if base in report.estimates else {}
    return keyed | {f"{test}/{_score_axis(test, report)}": (test, reading) for test, reading in report.scores.items()}


def _score_axis(test: str, report: ReliabilityReadings) -> str:
    """Return the last part of the key that stands for a test."""
    statistic = scored_by(test, report.definitions).statistic
    return report.metric if statistic == DEFAULT else statistic


def _report_sections(report: ReliabilityReadings, links: PageLinks | None) -> tuple[list[Section], list[Section]]:
    """Order the readings of a report: scores first, then each test with all its axes, then groups.

    Agreement with labels that are no ground truth stands apart from every test.
    """
    scored = "Scores" if report.metric == DEFAULT else f"Scores (labelled tests: {statistic_name(report.metric)})"
    scores = _keyed_scores(report)
    rows = _rows(
        {key: reading for key, (_, reading) in scores.items()},
        links,
        {key: axis_name(test) for key, (test, _) in scores.items()},
    )
    # Made first, so that it stands before the tests wherever its readings come from.
    groups: dict[str, list[in_words.PageRow]] = {NO_ACCURACY: []}
    for key, reading in report.estimates.items():
        test, _, name = key.rpartition("/")
        heading, label = axis_name(test or key), statistic_name(name) if test and not axes.find(key) else ""
        if key.startswith((NOISE_EXCESS, DROP)):
            # Named by the effect first: its test follows, and has a section of its own.
            heading, label = axis_name(name), axis_name(key)
        if name.startswith(AGREEMENT):
            heading, label = NO_ACCURACY, ""
        axis = axes.find(key)
        if axis is not None:
            heading = axis.stimuli.section
        heading = heading[:1].upper() + heading[1:]
        groups.setdefault(heading, []).extend(_rows({key: reading}, links, {key: label}, states_of(report)))
    groups |= _group_rows(report, links)
    said = {axes.VARIATION.section: variation_sentences(report.estimates)}
    return [_folded(scored, rows)], [_folded(heading, rows, said.get(heading, ())) for heading, rows in groups.items()]


def _group_rows(sheet: WithVerdict, links: PageLinks | None) -> dict[str, list[in_words.PageRow]]:
    """Return the readings of each group of items under the name of the group."""
    rows = {}
    for kind, named in sheet.by_group.items():
        for name, readings in named.items():
            labels = {f"{kind}/{name}/{axis}": statistic_name(axis) for axis in readings}
            keyed = dict(zip(labels, readings.values(), strict=True))
            rows[f"{kind.capitalize()} {name}"] = _rows(keyed, links, labels)
    return rows


def _folded(heading: str, rows: Sequence[in_words.PageRow], sentences: Sequence[str] = ()) -> Section:
    """Show rows of a report; what stands behind the scores starts closed."""
    folded = heading not in (NO_ACCURACY, axes.VARIATION.section) and not heading.startswith("Scores")
    return Section(heading=heading, blocks=[_BY_SOURCE(rows, style="axes"), *sentences], folded=folded, media=_PAGE)


def _calls_section(sheet: WithVerdict, links: PageLinks | None) -> Section:
    n_calls = sum(sheet.outcomes.values())
    outcomes: Table[tuple[str, int]] = Table.of(
        Column("outcome", lambda row: row[0]),
        Column("calls", lambda row: f"{row[1]:,}", link=lambda row: links.outcome(row[0]) if links else None),
        Column("share", lambda row: f"{100 * row[1] / n_calls:.1f}\u00a0%"),
    )
    return Section(
        heading="Calls",
        blocks=[
            outcomes((outcome, count) for outcome, count in sheet.outcomes.items() if count),
            "Intervals are 95 % with tasks as clusters where there are enough of them. Calls that gave no usable "
            f"answer are in no denominator; an axis that lost more than {100 * sheet.max_excluded:.0f} % of its "
            f"calls is withheld. {' '.join([in_words.DETECTABLE_NOTE, *bounds_note(sheet.estimates.values())[:1]])}",
        ],
        media=_PAGE,
    )


def _worst_items(worst: Iterable[WorstItem], links: PageLinks | None) -> Markup:
    from markupsafe import Markup

    addresses = [(item, links.item(item.item) if links else "") for item in worst]
    parts = (render_part("_item.html", item=item, item_address=address) for item, address in addresses)
    return Markup("").join(parts)


def _other_judges(links: PageLinks | None) -> Markup:
    from markupsafe import Markup

    comparisons = links.comparisons if links else {}
    parts = [Markup('<a href="{}">compare with {}</a>').format(address, name) for name, address in comparisons.items()]
    return Markup('<p class="others">{}</p>').format(Markup("\n").join(parts)) if parts else Markup("")


def summary_table(sheet: WithVerdict, *, steps: bool = True) -> FilledTable[in_words.PageRow]:
    """Return the table that sums a sheet up: of a datasheet its main axes, of a report the score of each test.

    Args:
        sheet: A datasheet or a report.
        steps: Whether main axes over the steps of a ladder are in it.
    """
    if isinstance(sheet, ReliabilityReadings):
        return _BY_SOURCE(
            in_words.page_row(axis_name(test), score, key=key) for key, (test, score) in _keyed_scores(sheet).items()
        )
    main = in_words.main_readings(sheet.estimates).items()
    return _BY_TASK(in_words.axis_row(key, reading) for key, reading in main if steps or not axes.declared(key).by_step)


def sheet_lines(sheet: WithVerdict) -> list[str]:
    """Return what a terminal shows: the table that sums a sheet up, then its ladders or the mean over its tests."""
    tables: list[FilledTable[Any]] = [summary_table(sheet, steps=False)]
    if not isinstance(sheet, ReliabilityReadings):
        tables += in_words.step_tables(sheet.estimates)
    texts = [text for table in tables if (text := table.to_text())]
    lines = "\n\n".join(texts).splitlines()
    return [*lines, "", *_mean_lines(sheet)] if isinstance(sheet, ReliabilityReadings) else lines


def _mean_lines(report: ReliabilityReadings) -> list[str]:
    mean, least, most = (report.summary[name] for name in ("mean", "min", "max"))
    if mean is None:
        return wrapped_line("Mean over tests", f"{_no_mean(report)}.")
    interval = interval_text(report.summary["mean_ci_low"], report.summary["mean_ci_high"])
    n_tests = f"{report.summary['n_tests']:g} of {len(report.scores)} tests"
    span = f"min {number_text(least)}, max {number_text(most)}"
    chosen = [] if report.metric == DEFAULT else [f"Labelled tests are scored by {report.chosen_text}."]
    return [f"Mean over {n_tests}: {number_text(mean)} {interval}, {span}.", *chosen]


def _no_mean(report: ReliabilityReadings) -> str:
    """Say why there is no mean over tests."""
    return f"withheld, {report.mean_withheld}" if report.mean_withheld else "n/a, no test has a number"


def sheet_markdown(sheet: WithVerdict, *, title: str, note: str | None, worst: Sequence[WorstItem] = ()) -> str:
    """Render the sections that were measured, then what was not and why.

    Of a report the worst items take what room is left in the description of a run.
    """
    parts = [f"# {line_text(title)}"]
    # First, because a description that is too long is cut at its end.
    first, *others = map(literal, sheet.verdict.sentences)
    parts += [f"**{first}**", *others, *([f"> {line_text(note)}"] if note else [])]
    parts += [
        f"{head.capitalize()}: {literal(line)}."
        for head, line in in_words.finding_lines(sheet.verdict.findings).items()
    ]
    ended = ", ".join(f"{name} {count}" for name, count in sheet.outcomes.items())
    calls, bounds = f"Calls: {sum(sheet.outcomes.values())} ({ended}).", bounds_note(sheet.estimates.values())[:1]
    if isinstance(sheet, ReliabilityReadings):
        parts += [part for part in (_tests_table(sheet).to_markdown(), _across(sheet)) if part]
        profile = f"**Profile:** {literal(sheet.profile)}."
        tail = [
            profile,
            *_missing_markdown(sheet.estimates),
            f"{calls} Labels: {literal(', '.join(sheet.labels.named)) or 'none seen'}.",
            _REPORT_NOTE,
            *bounds,
        ]
        sections = [
            *_details(sheet),
            _confidence_section(sheet.estimates, by="source"),
            _further_section(sheet.estimates, axes.REASONS),
            _further_section(sheet.estimates, axes.VARIATION),
        ]
        parts += _fitting(sections, worst, room=MAX_DESCRIPTION - _length([*parts, *tail]))
        return "\n\n".join([*parts, *tail, ""])
    # An axis without a declaration is a mistake of ours: a file must not hide it.
    headings = axes.by_section(sheet.estimates).items()
    groups = {heading: {key: sheet.estimates[key] for key in keys} for heading, keys in headings}
    sections = [_axis_section(heading, readings, None) for heading, readings in groups.items()]
    sections += [
        *_by_group(sheet),
        _confidence_section(sheet.estimates, by="task"),
        Section(heading="Without a number", blocks=[in_words.MISSING(in_words.missing_rows(sheet.estimates))]),
    ]
    parts += [*bounds, *(section_markdown(section) for section in sections if is_shown_in(section, "markdown"))]
    profiles = [f"**Profile.** {literal(sentence)}" for sentence in profile_sentences(sheet)]
    return "\n\n".join([*parts, *profiles, calls, _SHEET_NOTE, ""])


_SHEET_NOTE = (
    "Intervals are 95 %: the first takes units as independent (Wilson), the second takes tasks as clusters "
    "and replicates of one presentation as one; decisions use the second. Unparsed and failed calls are in no "
    "denominator."
)
_REPORT_NOTE = (
    "Consistent and moved compare with the judge's own answer to the unperturbed item. Intervals are 95 % with "
    f"sources as clusters. Unparsed and failed calls are in no denominator. {in_words.DETECTABLE_NOTE}"
)


def _length(parts: Sequence[str]) -> int:
    # Parts are joined by an empty line, which is two characters.
    return sum(len(part) + 2 for part in parts)


def _fitting(sections: Iterable[Section], worst: Sequence[WorstItem], *, room: int) -> list[str]:
    """Take the sections that fit into the room, name the others, and fill what is left with the worst items."""
    body: list[str] = []
    left: list[str] = []
    for section in sections:
        if not is_shown_in(section, "markdown"):
            continue
        text = section_markdown(section)
        # Some room stays for the line that names what is left out.
        if _length([*body, text]) > room - 100:
            left.append(line_text(section.heading))
        else:
            body.append(text)
    body += [f"Left out here for length: {', '.join(left)}."] if left else []
    for n_shown in range(len(worst), 0, -1):
        fits = f" ({n_shown} of {len(worst)} fit here)" if n_shown < len(worst) else ""
        text = section_markdown(Section(heading=f"Worst items{fits}", blocks=[_WORST(worst[:n_shown])]))
        if _length([*body, text]) <= room:
            return [*body, text]
    return body


def excerpt(text: str | None) -> str:
    """Cut a text to some 300 characters, and say that it was cut."""
    if text is None:
        return "n/a"
    return code(text) if len(text) <= CUT else f"{code(text[:CUT] + ' …')} (cut, {len(text):,} characters)"


_WORST: Table[WorstItem] = Table.of(
    Column("item", lambda row: row.item, as_code=True),
    Column("test", lambda row: axis_name(row.test)),
    Column("expected / given", lambda row: f"{code(row.expected)} / {code(row.given)}", marked=True),
    Column("off by", lambda row: f"{row.error_size:g}"),
    Column("original", lambda row: excerpt(row.original), marked=True),
    Column("perturbed", lambda row: excerpt(row.perturbed), marked=True),
)


def origin_notes(origin: Mapping[str, Any] | None) -> list[str]:
    """Say what to know of a suite, where there is any: who checked its language, which tests its rubric rules out."""
    about = origin or {}
    notes = [f"The tasks are in {language_names(about['language'])}, {about['checked']}."] if "checked" in about else []
    tests = "; ".join(f"{test} ({reason})" for test, reason in (about.get("invalid") or {}).items())
    return [*notes, *([f"Left out as invalid under this rubric: {tests}."] if tests else [])]


def _tests_table(report: ReliabilityReadings) -> FilledTable[str]:
    """Return accuracy and consistency of each test."""
    estimates, metric = report.estimates, report.metric
    others = {"consistent": "consistency", "moved": "moved", "pass": "pass"}
    chosen: list[Column[str]] = [
        Column(f"{report.metric_text} [95 % by source], n", lambda test: _counted(estimates.get(f"{test}/{metric}")))
    ]

    def accuracy(test: str) -> Reading:
        return estimates[f"{test}/accuracy"]

    table: Table[str] = Table.of(
        Column("test", axis_name),
        *(chosen if metric != DEFAULT else []),
        Column("accuracy [95 % by source]", lambda test: with_interval(accuracy(test))),
        *(_axis_column(head, axis, estimates) for head, axis in others.items()),
        Column("detectable", lambda test: number_text(detectable(accuracy(test)))),
        Column("n calls", lambda test: str(accuracy(test).n)),
        Column("left out", lambda test: str(accuracy(test).excluded)),
    )
    return table(test for test in (BASELINE, *report.tests) if f"{test}/accuracy" in estimates)


def _axis_column(head: str, axis: str, estimates: Mapping[str, Reading]) -> Column[str]:
    """Return a column with the number of an axis on every test."""
    return Column(head, lambda test: _number(estimates.get(f"{test}/{axis}")))


def _number(reading: Reading | None) -> str:
    if reading is None:
        return "–"
    return value_text(reading)


def _counted(reading: Reading | None) -> str:
    return "–" if reading is None else f"{with_interval(reading)}, {reading.n}"


def _across(report: ReliabilityReadings) -> str:
    summary = report.summary
    n_tests, mean, least, most = (summary[name] for name in ("n_tests", "mean", "min", "max"))
    if mean is None or least is None or most is None:
        return f"Across tests: {literal(_no_mean(report))}."
    sd = "" if summary["sd"] is None else f" ± {number_text(summary['sd'])} (sd)"
    interval = interval_text(summary["mean_ci_low"], summary["mean_ci_high"])
    kinds = [kind for kind in USUAL if not (kind.repeats and report.definitions == PAPER)]
    named = [scored_by(name, report.definitions) for name in report.scores]
    legends = [*(kind.legend for kind in kinds), *(kind.legend for kind in named)]
    over = f"{n_tests:g} of {len(report.scores)} tests"
    return (
        f"Across {over}: mean **{number_text(mean)}**{sd}, 95 % by source {interval}; "
        f"min {number_text(least)}, max {number_text(most)}. A test's score is its {report.chosen_text}; "
        f"{'; '.join(legend for legend in dict.fromkeys(legends) if legend)}."
    )


def _details(report: ReliabilityReadings) -> Iterator[Section]:
    """Return the sections of a report in Markdown."""
    estimates = report.estimates
    tests = (BASELINE, *report.tests, ALL)
    agreements = [
        (axis_name(test), source, reading)
        for source in LABEL_SOURCES
        for test in tests
        if (reading := estimates.get(f"{test}/{AGREEMENT}{source}"))
    ]
    # A function, so that Markdown keeps the code spans in it.
    note = [lambda _: NO_ACCURACY_NOTE]
    yield Section(heading="Labels that are no ground truth", blocks=[*note, _AGREEMENTS(agreements)])
    for heading, names in _DETAILS.items():
        table: Table[str] = Table.of(
            Column("test", axis_name), *(_axis_column(statistic_name(axis), axis, estimates) for axis in names)
        )
        rows = [
            test
            for test in tests
            if any(is_shown(estimates[f"{test}/{axis}"]) for axis in names if f"{test}/{axis}" in estimates)
            # A lone error rate says what accuracy says.
            and any(f"{test}/{axis}" in estimates for axis in names[1:])
        ]
        yield Section(heading=heading, blocks=[table(rows)])
    yield from _by_group(report)
    for name, score in report.scores.items():
        if not expectation_of(name).labelled:
            yield _unlabelled(report, name, score)


_AGREEMENTS: Table[tuple[str, str, Reading]] = Table.of(
    Column("test", lambda row: row[0]),
    Column("labels", lambda row: row[1]),
    Column("agreement [95 % by source]", lambda row: with_interval(row[2])),
    Column("n calls", lambda row: str(row[2].n)),
    Column("left out", lambda row: str(row[2].excluded)),
)


def _by_group(sheet: WithVerdict) -> Iterator[Section]:
    for kind, groups in sheet.by_group.items():
        yield Section(heading=f"By {kind}", blocks=[_groups(groups, kind)])


def _groups(groups: Mapping[str, Mapping[str, Reading]], what: str) -> FilledTable[str]:
    """Show each group with accuracy and the errors its labels allow, all tests pooled; of pairs how orders combine."""
    names = ("accuracy", "error_rate", "fpr", "fnr", "mae", "stable_correct", "stable_wrong", "positional")

    def of_group(axis: str) -> Column[str]:
        return Column(
            statistic_name(axis), lambda group: with_interval(groups[group][axis]) if axis in groups[group] else "–"
        )

    table: Table[str] = Table.of(
        Column(what, lambda group: group, as_code=True),
        *(of_group(axis) for axis in names if any(axis in readings for readings in groups.values())),
        Column("n calls", lambda group: str(groups[group]["accuracy"].n)),
        Column("left out", lambda group: str(groups[group]["accuracy"].excluded)),
    )
    return table(groups)


def _unlabelled(report: ReliabilityReadings, name: str, score: Reading) -> Section:
    """Show a test whose items carry no expected answer as its expectation says, with every dose or design of it."""
    expectation = expectation_of(name)
    sentence = f"{expectation.sentence}: {with_interval(score)} of {score.n} {expectation.counts}."
    doses: list[Any] = []
    if expectation.by_condition:
        design, axis, label = expectation.by_condition
        readings = {
            condition.removeprefix(f"{name}_"): report.estimates[f"{condition}/{axis}"]
            for condition in report.tests
            if score_name(condition) == name
        }
        table: Table[str] = Table.of(
            Column(design, lambda condition: condition),
            Column(f"{label} [95 % by source]", lambda condition: with_interval(readings[condition])),
            Column("n calls", lambda condition: str(readings[condition].n)),
            Column("left out", lambda condition: str(readings[condition].excluded)),
        )
        # By length first, so that dose 2 comes before dose 10.
        doses = [table(sorted(readings, key=lambda condition: (len(condition), condition)))]
    return Section(heading=expectation.heading or axis_name(name), blocks=[*doses, sentence], always=True)


def _missing_markdown(estimates: Mapping[str, Reading]) -> list[str]:
    # Withheld ones first: money was spent on them.
    rows = sorted(in_words.missing_rows(estimates, named=_MOST_NAMED), key=lambda row: row.state != "withheld")
    rest = len(rows) - _MOST_REASONS
    more = f"{rest} more reason(s) are in the report's data." if rest > 0 else ""
    section = Section(heading="Without a number", blocks=[in_words.MISSING(rows[:_MOST_REASONS], more=more)])
    return [section_markdown(section)] if rows else []
