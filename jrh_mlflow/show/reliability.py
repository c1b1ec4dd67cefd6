"""A reliability report as Markdown, short enough for the description of an MLflow run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jrh_mlflow.measures.findings import detectable
from jrh_mlflow.measures.reliability import ALL, ReliabilityReadings, WorstItem
from jrh_mlflow.perturb import expectation_of, score_name
from jrh_mlflow.schema.estimates import Estimate, Reading
from jrh_mlflow.schema.items import BASELINE, LABEL_SOURCES
from jrh_mlflow.scoring.expectations import USUAL
from jrh_mlflow.scoring.metric import DEFAULT
from jrh_mlflow.scoring.readings import AGREEMENT
from jrh_mlflow.show.findings import DETECTABLE_NOTE
from jrh_mlflow.show.markdown import MAX_DESCRIPTION, axes_by_reason, bias_lines, confidence_lines, table
from jrh_mlflow.show.names import axis_name, statistic_name
from jrh_mlflow.show.numbers import bounds_note, is_shown, missing_text, number_text, short_interval, with_interval
from jrh_mlflow.show.plain_text import code, line_text, literal

NO_ACCURACY = (
    "Agreement with labels that a model wrote (`model`) or that no verifier confirmed (`unverified`): no accuracy, and "
    "in no score."
)
CUT = 300
_MAX_REASONS = 12

_ORDINAL = ("mae", "within_one", "ccc", "pearson", "spearman", "qwk")
_BINARY = ("error_rate", "fpr", "fnr", "matthews")
_STABILITY = ("unanimity", "flip_rate", "krippendorff_alpha", "gwet_ac1")


def report_markdown(
    report: ReliabilityReadings, *, title: str, note: str | None, worst: Sequence[WorstItem] = ()
) -> str:
    """Render what was measured, then what was not and why; the worst items take what room is left."""
    head = [f"# {line_text(title)}", ""]
    if note:
        head += [f"> {line_text(note)}", ""]
    head += [f"**Profile:** {literal(report.profile)}.", ""]
    head += [*map(literal, bias_lines(report.estimates)), *_headline(report), *_across(report)]
    tail = [*_missing(report.estimates), *_ending(report)]
    room = MAX_DESCRIPTION - _length([*head, *tail])
    body = _fitting(_details(report), room=room)
    return "\n".join([*head, *body, *_worst(worst, room=room - _length(body)), *tail])


def _fitting(details: Iterable[tuple[str, list[str]]], *, room: int) -> list[str]:
    """Take the sections that fit into the room, and name the others."""
    body: list[str] = []
    left: list[str] = []
    for heading, lines in details:
        section = [f"### {heading}", "", *lines, ""]
        if _length([*body, *section]) > room - 100:
            left.append(heading)
        else:
            body += section
    return [*body, f"Left out here for length: {', '.join(left)}.", ""] if left else body


def invalid_note(invalid: Mapping[str, str] | None) -> list[str]:
    """Say which tests a suite leaves out because its rubric grades what they change; nothing where there is none."""
    told = "; ".join(f"{test} ({reason})" for test, reason in (invalid or {}).items())
    return [f"Left out as invalid under this rubric: {told}."] if told else []


def excerpt(text: str | None) -> str:
    """Cut a text to some 300 characters, and say that it was cut."""
    if text is None:
        return "n/a"
    return code(text) if len(text) <= CUT else f"{code(text[:CUT] + ' …')} (cut, {len(text):,} characters)"


def _headline(report: ReliabilityReadings) -> list[str]:
    rows, metric = [], report.metric
    for test in (BASELINE, *report.tests):
        accuracy = report.estimates.get(f"{test}/accuracy")
        if accuracy is None:
            continue
        others = [_value(report.estimates.get(f"{test}/{axis}")) for axis in ("consistency", "moved", "pass")]
        chosen = [_metric_cell(report.estimates.get(f"{test}/{metric}"))] if metric != DEFAULT else []
        found = number_text(detectable(f"{test}/accuracy", accuracy))
        counts = [found, str(accuracy.n), str(accuracy.excluded)]
        rows.append([test_text(test), *chosen, with_interval(accuracy), *others, *counts])
    chosen = [f"{report.metric_text} [95 % by source], n"] if metric != DEFAULT else []
    header = [
        "test",
        *chosen,
        "accuracy [95 % by source]",
        "consistent",
        "moved",
        "pass",
        "detectable",
        "n calls",
        "left out",
    ]
    return [*table(header, rows), ""] if rows else []


def test_text(test: str) -> str:
    """Name a test in a line of Markdown; a user's own name cannot come to life."""
    return line_text(axis_name(test))


def _metric_cell(reading: Reading | None) -> str:
    return "–" if reading is None else f"{with_interval(reading)}, {reading.n}"


def _across(report: ReliabilityReadings) -> list[str]:
    summary = report.summary
    n_tests, mean, least, most = (summary[name] for name in ("n_tests", "mean", "min", "max"))
    if mean is None or least is None or most is None:
        return ["Across tests: n/a, no test has a number.", ""]
    sd = "" if summary["sd"] is None else f" ± {summary['sd']:.3f} (sd)"
    interval = short_interval(summary["mean_ci_low"], summary["mean_ci_high"])
    return [
        f"Across {n_tests:g} of {len(report.scores)} tests: mean **{mean:.3f}**{sd}, 95 % by source {interval}; "
        f"min {least:.3f}, max {most:.3f}. {_what_is_scored(report)}",
        "",
    ]


def _what_is_scored(report: ReliabilityReadings) -> str:
    return f"A test's score is its {report.chosen_text}; {'; '.join(_legends(report))}."


def _legends(report: ReliabilityReadings) -> list[str]:
    found = [*(kind.legend for kind in USUAL), *(expectation_of(name).legend for name in report.scores)]
    return [legend for legend in dict.fromkeys(found) if legend]


def _details(report: ReliabilityReadings) -> Iterator[tuple[str, list[str]]]:
    estimates = report.estimates
    tests = (BASELINE, *report.tests, ALL)
    if agreements := _agreements(report):
        yield "Labels that are no ground truth", [NO_ACCURACY, "", *agreements]
    for heading, axes in (("Two labels", _BINARY), ("Scale", _ORDINAL), ("Asked again", _STABILITY)):
        rows = [
            [test_text(test), *(_value(estimates.get(f"{test}/{axis}")) for axis in axes)]
            for test in tests
            if any(is_shown(estimates[f"{test}/{axis}"]) for axis in axes if f"{test}/{axis}" in estimates)
            # A lone error rate says what accuracy says.
            and any(f"{test}/{axis}" in estimates for axis in axes[1:])
        ]
        if rows:
            yield heading, table(["test", *map(statistic_name, axes)], rows)
    if report.rubrics:
        yield "By rubric", _groups(report.rubrics, "rubric")
    if report.categories:
        yield "By category", _groups(report.categories, "category")
    yield from _unlabelled(report)
    if confidence := confidence_lines(estimates, clusters="source"):
        yield "Confidence", confidence


def _agreements(report: ReliabilityReadings) -> list[str]:
    """Show agreement with labels that a model wrote or nobody confirmed."""
    rows = [
        [test_text(test), source, with_interval(one), str(one.n), str(one.excluded)]
        for source in LABEL_SOURCES
        for test in (BASELINE, *report.tests, ALL)
        if (one := report.estimates.get(f"{test}/{AGREEMENT}{source}"))
    ]
    return table(["test", "labels", "agreement [95 % by source]", "n calls", "left out"], rows) if rows else []


def _groups(categories: Mapping[str, Mapping[str, Reading]], what: str) -> list[str]:
    """Show each group with accuracy and the errors its labels allow, all tests pooled."""
    names = ("accuracy", "error_rate", "fpr", "fnr", "mae")
    shown = [axis for axis in names if any(axis in axes for axes in categories.values())]
    rows = []
    for group, axes in categories.items():
        cells = [with_interval(axes[axis]) if axis in axes else "–" for axis in shown]
        rows.append([code(group), *cells, str(axes["accuracy"].n), str(axes["accuracy"].excluded)])
    return table([what, *map(statistic_name, shown), "n calls", "left out"], rows)


def _unlabelled(report: ReliabilityReadings) -> Iterator[tuple[str, list[str]]]:
    """Show the tests whose items carry no expected answer, each as its expectation says."""
    for name, score in report.scores.items():
        expectation = expectation_of(name)
        if expectation.labelled:
            continue
        lines = _by_condition(report, name) if expectation.by_condition else []
        sentence = f"{expectation.sentence}: {with_interval(score)} of {score.n} {expectation.counts}."
        yield expectation.heading or test_text(name), [*lines, sentence]


def _by_condition(report: ReliabilityReadings, name: str) -> list[str]:
    """Show a further axis of every dose or design of a test."""
    expectation = expectation_of(name)
    assert expectation.by_condition is not None
    design, axis, label = expectation.by_condition
    found = {
        condition.removeprefix(f"{name}_"): report.estimates[f"{condition}/{axis}"]
        for condition in report.tests
        if score_name(condition) == name
    }
    rows = [
        [condition, with_interval(reading), str(reading.n), str(reading.excluded)]
        for condition, reading in sorted(found.items(), key=lambda entry: (len(entry[0]), entry[0]))
    ]
    return [*table([design, f"{label} [95 % by source]", "n calls", "left out"], rows), ""]


def _worst(worst: Sequence[WorstItem], *, room: int) -> list[str]:
    """Show as many as there is room for, from the worst on."""
    rows = []
    for item in worst:
        answers, texts = f"{code(item.expected)} / {code(item.given)}", map(excerpt, (item.original, item.perturbed))
        rows.append([code(item.item), test_text(item.test), answers, f"{item.error_size:g}", *texts])
    header = ["item", "test", "expected / given", "off by", "original", "perturbed"]
    for shown in range(len(rows), 0, -1):
        heading = "### Worst items" + (f" ({shown} of {len(rows)} fit here)" if shown < len(rows) else "")
        section = [heading, "", *table(header, rows[:shown]), ""]
        if _length(section) <= room:
            return section
    return []


def _missing(estimates: Mapping[str, Reading]) -> list[str]:
    # Withheld ones first: money was spent on them.
    ordered = sorted(axes_by_reason(estimates).items(), key=lambda group: group[0][0] != "withheld")
    if not ordered:
        return []
    rows = [[state, _axes(axes), literal(reason)] for (state, reason), axes in ordered[:_MAX_REASONS]]
    rest = len(ordered) - _MAX_REASONS
    more = [f"{rest} more reason(s) are in the report's data.", ""] if rest > 0 else []
    return ["### Without a number", "", *table(["", "axes", "reason"], rows), "", *more]


def _axes(axes: Sequence[str]) -> str:
    shown = ", ".join(line_text(axis_name(axis)) for axis in axes[:5])
    return shown if len(axes) <= 5 else f"{shown} and {len(axes) - 5} more"


def _ending(report: ReliabilityReadings) -> list[str]:
    ended = ", ".join(f"{name} {count}" for name, count in report.outcomes.items())
    labels = literal(", ".join(report.labels.named)) or "none seen"
    return [
        f"Calls: {sum(report.outcomes.values())} ({ended}). Labels: {labels}.",
        "",
        "Consistent and moved compare with the judge's own answer to the unperturbed item. Intervals are 95 % with "
        f"sources as clusters. Unparsed and failed calls are in no denominator. {DETECTABLE_NOTE}",
        "",
        *bounds_note(report.estimates.values()),
    ]


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _value(reading: Reading | None) -> str:
    if reading is None:
        return "–"
    return f"{reading.value:.3f}" if isinstance(reading, Estimate) else missing_text(reading)
