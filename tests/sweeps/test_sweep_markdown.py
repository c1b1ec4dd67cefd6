"""How a sweep is shown: the page, the figures, the description."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from jrh_mlflow.comparing.criterion_shift import OperatingPoint
from jrh_mlflow.show.figures.svg import draw
from jrh_mlflow.sweeps.sweep_view import Dot, sweep_figures, sweep_page
from tests.comparing.test_operating import graded

pytestmark = pytest.mark.drawn


HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)> & </title>'


def dot(label: str, value: float, usd: float, **given: object) -> Dot:
    facts = {"low": value - 0.05, "high": min(1.0, value + 0.05), "on_front": False, "tied": False, "held_out": True}
    return Dot(**{"label": label, "value": value, "usd": usd, "search": value, **facts, **given})


def member(dot: Dot) -> dict[str, object]:
    """What `Member.to_dict` says of a configuration on the map."""
    reading = {"kind": "estimate", "value": dot.value, "cluster_low": dot.low, "cluster_high": dot.high}
    told = {"tied_with_best": dot.tied, "p_holm": (1.0 if dot.tied else 0.01) if dot.held_out else None}
    unknown = dict.fromkeys(("bias", "front_probability"))
    return {
        **{"configuration": dot.label, "label": dot.label, "on_front": dot.on_front, "reliability": reading},
        **{"parts": {}, "search_value": dot.search, "holdout_value": dot.value if dot.held_out else None},
        **{"usd_per_1k_judgments": dot.usd, "keeps_constraints": True, "ahead_of_best": False},
        **{"runs": {"search": dot.label, "holdout": dot.label if dot.held_out else None}, **told, **unknown},
    }


def page_of(dots: list[Dot], **given: object) -> str:
    plain = {"suite": {"name": "s"}, "notes": [], "truncated": None, "simulated": False, "n_trials": 2}
    plain |= {"n_configurations": 2, "n_calls": 10, "study": "jrh-1", "grid_calls": 20, "constraints": []}
    members = [member(one) for one in dots]
    plain |= {"stopped": [], "missing": [], "measured": members, "front": [one for one in members if one["on_front"]]}
    plain |= {
        "verdict": {"sentences": ["Use it."]},
        "best": None,
        "cheapest_tied": None,
        "hypervolume": {"kind": "missing"},
        "importance": {},
    }
    return sweep_page({**plain, **given}, draw(sweep_figures(dots, (), title="s"))).to_html()


class Reader(HTMLParser):
    """Collects tags, attributes and the text of every dot."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_hostile_names_stay_text_and_the_page_asks_nobody() -> None:
    page = page_of([dot(HOSTILE, 0.8, 0.1, on_front=True)], notes=[HOSTILE], suite={"name": HOSTILE})
    reader = Reader()
    reader.feed(page)
    assert not {"script", "img", "link", "iframe"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name.startswith("on") or name in ("src", "xlink:href")]
    # It leads nowhere but into itself.
    assert all(str(value).startswith("#") for name, value in reader.attributes if name == "href")
    assert "http://" not in page
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_every_configuration_is_on_the_map_with_its_numbers() -> None:
    dots = [
        dot("cheap", 0.7, 0.01, on_front=True),
        dot("dear", 0.9, 1.0, on_front=True, tied=True),
        dot("no", 0.6, 1.0),
    ]
    page = page_of(dots)
    assert page.count("<circle") == 3
    assert "cheap: 0.70 [0.65, 0.75]" in page
    (cheap, low), (dear, high), (_, lowest) = re.findall(r'cx="([0-9.]+)" cy="([0-9.]+)"', page)
    assert float(cheap) < float(dear)
    assert float(high) < float(low) < float(lowest)


@pytest.mark.parametrize("dots", [[], [dot("only", 1.0, 0.0)], [dot("a", 0.5, 0.2, low=None, high=None)] * 2])
def test_a_page_is_made_of_nothing_of_one_and_of_equal_ones(dots: list[Dot]) -> None:
    page = page_of(dots)
    assert page.count("<circle") == len(dots)
    assert "nan" not in page.casefold()


def test_figures_are_drawn_where_there_is_something_to_draw() -> None:
    points: list[OperatingPoint] = graded(1.5, "a", 1) + graded(2.0, "b", 4)
    both = sweep_figures([dot("x", 0.8, 0.1, on_front=True), dot("y", 0.7, 0.9)], points, title="t")
    assert list(both) == ["pareto.png", "criterion_curve.png"]
    assert both["pareto.png"].axes[0].get_xscale() == "log"
    labels = {text.get_text() for text in both["criterion_curve.png"].axes[0].texts}
    assert labels == {"loose", "middle", "strict"}
    assert sweep_figures([], points[:1], title="t") == {}
