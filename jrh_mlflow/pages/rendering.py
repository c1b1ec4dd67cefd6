"""What all pages share: templates that escape every text, and one style sheet inside each page."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jrh_mlflow.measures.comparison.tables import axis_text, ends, money_text, n_text, p_text
from jrh_mlflow.schema.estimates import Estimate, Reading

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = "templates"


def render(template: str, **values: Any) -> str:
    """Fill a template in; `style` is our own file and the one text that is not escaped."""
    from markupsafe import Markup

    style = files("jrh_mlflow.pages").joinpath(_FOLDER).joinpath("style.css").read_text(encoding="utf-8")
    page: str = _environment().get_template(template).render(style=Markup(style), **values)  # noqa: S704 - our own file
    return page


def data_uri(png: bytes) -> str:
    """Spell a PNG as an address that needs no request."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


@cache
def _environment() -> Environment:
    """Made once: reading a template takes longer than filling it in."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("jrh_mlflow.pages", _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Any] = {
        "axis": axis_text,
        "interval": interval,
        "money": money_text,
        "n_of": n_text,
        "number": number,
        "p": p_text,
        "signed": lambda value: f"{value:+.3f}",
        "span": span,
    }
    environment.filters.update(filters)
    environment.tests["estimate"] = lambda reading: isinstance(reading, Estimate)
    return environment


def interval(reading: Reading) -> str:
    """Spell the interval of a reading by source."""
    return span(ends(reading)) if isinstance(reading, Estimate) else ""


def span(both: tuple[float | None, float | None]) -> str:
    """Spell an interval; a missing one is a dash."""
    low, high = both
    return "–" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def number(value: float | None) -> str:
    """Spell a number to three places; a missing one is a dash."""
    return "–" if value is None else f"{value:.3f}"
