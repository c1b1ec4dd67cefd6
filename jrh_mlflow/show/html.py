"""What all pages share: templates that escape every text, one style sheet inside each page, addresses of the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.schema.metric_keys import TRACE_RUN
from jrh_mlflow.show import numbers
from jrh_mlflow.show.glossary import TERMS, term_id, with_terms
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

_FOLDER = "templates"
FOLDER = "jrh/"
"""Our pages, as seen from MLflow's."""


def render_page(template: str, **values: Any) -> str:
    """Fill a template in; `style` is our own file and the one text that is not escaped."""
    from markupsafe import Markup

    style = files("jrh_mlflow.show").joinpath(_FOLDER).joinpath("style.css").read_text(encoding="utf-8")
    page: str = read_template(template).render(style=Markup(style), **values)  # noqa: S704 - our own file
    return explained(page)


def render_part(template: str, **values: Any) -> Markup:
    """Fill in a template that is a part of a page; every text in it is escaped."""
    from markupsafe import Markup

    return Markup(read_template(template).render(**values))  # noqa: S704 - escaped by the template


def read_template(name: str) -> Template:
    """Read a template, or return the one that was read: to read it takes longer than to fill it in."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    """Made once: it keeps the templates that were read."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("jrh_mlflow.show", _FOLDER),
        autoescape=True,
        # A misspelled name in a template is an error, not an empty place on a page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": numbers.amount_text,
        "axis_name": axis_name,
        "kept": kept,
        "interval": lambda reading: (
            numbers.interval_text(*numbers.source_ends(reading)) if isinstance(reading, Estimate) else ""
        ),
        "missing": numbers.missing_text,
        "money": numbers.money_text,
        "number": numbers.number_text,
        "p": numbers.p_text,
        "signed": partial(numbers.number_text, signed=True),
        "with_terms": with_terms,
        "term_id": term_id,
        "span": lambda ends: numbers.interval_text(*ends),
    }
    environment.globals["visible"] = visible
    environment.tests["estimate"] = lambda reading: isinstance(reading, Estimate)
    return environment


_TERM_LINK, _GLOSSARY = re.compile(r'href="#term-(\d+)"'), '<section class="glossary">'


def explained(page: str) -> str:
    """Return a page with every term that it links to in its glossary, also those of sections that were put into it."""
    linked = sorted({int(place) for place in _TERM_LINK.findall(page)})
    names = list(TERMS)
    missing = {names[place]: TERMS[names[place]] for place in linked if f'id="{term_id(names[place])}"' not in page}
    if not missing or "</main>" not in page:
        return page
    part = render_part("_glossary.html", terms=missing)
    head, mark, tail = page.partition(_GLOSSARY)
    if not mark:
        head, mark, tail = page.rpartition("</main>")
        return f"{head}{part}{mark}{tail}"
    entries = part.partition("<dl>\n")[2].partition("</dl>")[0]
    before, end, after = tail.partition("</dl>")
    return f"{head}{mark}{before}{entries}{end}{after}"


def kept(name: str) -> Markup:
    """Escape a name; what it has in parentheses, such as (δ = 1), stays on one line."""
    from markupsafe import Markup, escape

    # The pattern is a group, so every second part is what it matched.
    parts = re.split(r"(\([^()]{1,12}\))", name)
    return Markup("").join(
        Markup('<span class="kept">{}</span>').format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


@dataclass(frozen=True, slots=True)
class Addresses:
    """Links of one page to the others: relative, so that they hold behind a prefix and behind a proxy.

    Example:
        >>> Addresses("../").datasheet("0a1b")
        '../datasheet/0a1b'
        >>> Addresses("../").calls("0a1b", axis="target_sensitivity/delta_1", delta=1)
        '../calls/0a1b?axis=target_sensitivity%2Fdelta_1&delta=1'
        >>> Addresses("jrh/").mlflow("7", "0a1b")
        '#/experiments/7/runs/0a1b?workflowType=machine_learning'
    """

    root: str
    """The folder of our pages: "" from the index, "../" from a page of a run, "jrh/" from MLflow's own page."""

    def index(self) -> str:
        """Return the list of evaluations."""
        # An empty link would be the page itself, with its query.
        return self.root or "./"

    def review(self, token: str | None = None) -> str:
        """Return the review of generated suites; who has no cookie of it needs the token."""
        query = urlencode({"token": token}) if token else ""
        return f"{self.root}review/{f'?{query}' if query else ''}"

    def run(self, run_id: str) -> str:
        """Return the page of a run of any kind."""
        return f"{self.root}run/{_part(run_id)}"

    def logged(self, run_id: str) -> str:
        """Return the page among a run's artifacts, as it was logged."""
        return f"{self.root}logged/{_part(run_id)}"

    def datasheet(self, run_id: str) -> str:
        """Return the datasheet of an evaluation."""
        return f"{self.root}datasheet/{_part(run_id)}"

    def compare(self, runs: Sequence[str]) -> str:
        """Return the comparison of evaluations on one suite."""
        return f"{self.root}compare?{urlencode({'run': list(runs)}, doseq=True)}"

    def calls(self, run_id: str, **filters: str | float | Sequence[str]) -> str:
        """Return the calls of an evaluation that all filters let through; of several values one must."""
        query = urlencode({name: _values(value) for name, value in filters.items()}, doseq=True)
        return f"{self.root}calls/{_part(run_id)}{f'?{query}' if query else ''}"

    def mlflow(self, experiment_id: str, run_id: str) -> str:
        """Return MLflow's own page of a run."""
        return self.experiment(experiment_id, f"runs/{_part(run_id)}", mode="machine_learning")

    def traces(self, experiment_id: str, run_id: str | None = None, *, trace_id: str | None = None) -> str:
        """Return MLflow's page of traces: those of a run, or one that is opened."""
        # The page lists those of the last week only, unless it is told otherwise. Of MLflow's two pages of traces one
        # takes a tag and the other a filter, by `run_name` meaning the id.
        of_run = {} if run_id is None else {"tag": f"{TRACE_RUN}={run_id}", "filter": f"run_name::=::{run_id}"}
        opened = {} if trace_id is None else {"selectedEvaluationId": trace_id}
        return self.experiment(experiment_id, "traces", mode="genai", startTimeLabel="ALL", **of_run, **opened)

    def experiment(self, experiment_id: str, tab: str, *, mode: str, **query: str) -> str:
        """Return a page of an experiment; without its mode MLflow opens what the browser remembers."""
        up = self.root.removesuffix(FOLDER) if self.root.endswith(FOLDER) else f"{self.root}../"
        # MLflow's pages are one file, which finds its way by what follows the #.
        return f"{up}#/experiments/{_part(experiment_id)}/{tab}?{urlencode({'workflowType': mode, **query})}"


FROM_RUN = Addresses("../")
"""Links on the page of a run, which a run keeps (`Page.to_dict`)."""


def _part(text: str) -> str:
    # By default `quote` keeps `/`, which would become a part of the path.
    return quote(text, safe="")


def _values(value: str | float | Sequence[str]) -> list[str]:
    if isinstance(value, str):
        return [value]
    # Twelve digits, so that a step of 0.1 + 0.2 is asked for as 0.3.
    return [f"{value:.12g}"] if isinstance(value, int | float) else list(value)


def problem_page(message: str, *, title: str, addresses: Addresses | None = None) -> str:
    """Render why something cannot be shown, with the way back to the list where there is one."""
    return render_page("problem.html", message=message, title=title, addresses=addresses)
