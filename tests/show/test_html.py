"""Links between pages, resolved as a browser does."""

from __future__ import annotations

from urllib.parse import parse_qs, urljoin, urlsplit

import pytest

from jrh_mlflow.show.html import Addresses

RUN, OTHER = "0" * 32, "f" * 32


@pytest.mark.parametrize("prefix", ["", "/behind/a/proxy"])
@pytest.mark.parametrize(
    ("page", "root"),
    [("/jrh/", ""), (f"/jrh/datasheet/{RUN}", "../"), (f"/jrh/calls/{RUN}?page=2", "../"), ("/", "jrh/")],
)
def test_links_hold_from_every_page_and_behind_a_prefix(prefix, page, root):
    base, to = f"http://host:5000{prefix}", Addresses(root)

    def found(link: str) -> str:
        return urljoin(f"{base}{page}", link).removeprefix(base)

    assert found(to.index()) == "/jrh/"
    assert found(to.run(RUN)) == f"/jrh/run/{RUN}"
    assert found(to.datasheet(RUN)) == f"/jrh/datasheet/{RUN}"
    assert found(to.compare([RUN, OTHER])) == f"/jrh/compare?run={RUN}&run={OTHER}"
    assert found(to.calls(RUN)) == f"/jrh/calls/{RUN}"
    assert found(to.mlflow("7", RUN)) == f"/#/experiments/7/runs/{RUN}?workflowType=machine_learning"


def test_a_whole_address_makes_whole_links():
    to = Addresses("http://127.0.0.1:5000/jrh/")
    assert to.datasheet(RUN) == f"http://127.0.0.1:5000/jrh/datasheet/{RUN}"
    assert to.mlflow("7", RUN) == f"http://127.0.0.1:5000/#/experiments/7/runs/{RUN}?workflowType=machine_learning"


def test_filters_come_back_as_they_were_given():
    filters = {"axis": "dark_current", "condition": ["a&b", "ö #?"], "delta": 1, "item": "x/y=z", "similarity": 0.25}
    link = urlsplit(Addresses("").calls(RUN, **filters))
    expected = {name: value if isinstance(value, list) else [str(value)] for name, value in filters.items()}
    assert parse_qs(link.query) == expected


def test_an_id_that_somebody_made_up_stays_one_part_of_the_path():
    link = Addresses("").datasheet('../x?y#"<')
    assert urljoin("http://host/jrh/", link) == "http://host/jrh/datasheet/..%2Fx%3Fy%23%22%3C"


def test_the_line_at_the_top_leads_to_the_other_pages_of_a_run_and_is_left_out_of_files():
    from jrh_mlflow.show.html import _environment

    template = _environment().from_string('{% from "_nav.html" import nav %}{{ nav(to, here, run, experiment) }}')
    page = template.render(to=Addresses("../"), here="calls", run=RUN, experiment="7")
    links = [
        '"../">All judges</a>',
        f'"../datasheet/{RUN}">Datasheet</a>',
        f'"../../#/experiments/7/runs/{RUN}?workflowType=machine_learning">',
    ]
    assert all(f"<a href={link}" in page for link in links)
    assert '<span aria-current="page">Calls</span>' in page
    assert template.render(to=None, here="calls", run=RUN, experiment="7").strip() == ""
