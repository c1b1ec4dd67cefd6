"""What all pages share: templates that escape every text, and one style sheet inside each page."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jrh_mlflow.schema.estimates import Estimate
from jrh_mlflow.show.addresses import Addresses
from jrh_mlflow.show.glossary import term_id, with_terms
from jrh_mlflow.show.names import axis_name
from jrh_mlflow.show.numbers import (
    amount_text,
    missing_text,
    money_text,
    number_text,
    p_text,
    short_interval,
    source_ends,
)
from jrh_mlflow.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment, Template
    from markupsafe import Markup

_FOLDER = "templates"


def render(template: str, **values: Any) -> str:
    """Fill a template in; `style` is our own file and the one text that is not escaped."""
    from markupsafe import Markup

    style = files("jrh_mlflow.show").joinpath(_FOLDER).joinpath("style.css").read_text(encoding="utf-8")
    page: str = read_template(template).render(style=Markup(style), **values)  # noqa: S704 - our own file
    return page


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
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "amount": amount_text,
        "axis_name": axis_name,
        "kept": kept,
        "interval": lambda reading: short_interval(*source_ends(reading)) if isinstance(reading, Estimate) else "",
        "missing": missing_text,
        "money": money_text,
        "number": number_text,
        "p": p_text,
        "signed": lambda value: f"{value:+.3f}",
        "with_terms": with_terms,
        "term_id": term_id,
        "span": lambda ends: short_interval(*ends),
    }
    environment.globals["visible"] = visible
    environment.tests["estimate"] = lambda reading: isinstance(reading, Estimate)
    return environment


def kept(name: str) -> Markup:
    """Escape a name; what it has in parentheses, such as (δ = 1), stays on one line."""
    from markupsafe import Markup, escape

    parts = re.split(r"(\([^()]{1,12}\))", name)
    return Markup("").join(
        Markup('<span class="kept">{}</span>').format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def problem_page(message: str, *, title: str, addresses: Addresses) -> str:
    """Render why something cannot be shown, with the way back to the list."""
    return render("problem.html", message=message, title=title, addresses=addresses)
