from __future__ import annotations

import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpost.server.templates import Template

SEGMENT = st.text(min_size=1).filter(
    lambda text: (
        text not in (".", "..")
        and not set(text) & set("/\\")
        and all(ord(each) > 31 and ord(each) != 127 for each in text)
        and text.isascii() | all(not 0xD800 <= ord(each) <= 0xDFFF for each in text)
    )
)
REST = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
NOISE = st.text(alphabet=string.ascii_letters + "./\\%2eEfF0-_?#é", max_size=30)


@pytest.mark.req("F-02/S")
@given(SEGMENT, SEGMENT)
def test_values_survive_the_way_through_a_uri(first: str, second: str) -> None:
    uri = f"x://{quote(first, safe='')}/data/{quote(second, safe='')}"

    assert Template("x://{a}/data/{b}").match(uri) == {"a": first, "b": second}


@pytest.mark.req("F-02/S")
@given(REST)
def test_a_path_survives_the_way_through_a_uri(path: str) -> None:
    assert Template("x:///{+path}").match(f"x:///{quote(path)}") == {"path": path}


@pytest.mark.req("F-02/S")
@given(NOISE, st.sampled_from(["x://{a}", "x://{+a}", "x://{a}-{b}", "x://{+a}/{b}.x"]))
def test_no_value_leads_out(noise: str, text: str) -> None:
    for value in (Template(text).match(f"x://{noise}") or {}).values():
        assert ".." not in value.split("/")
        assert not value.startswith("/")
        assert "\\" not in value
        assert "\0" not in value
        assert "/" not in value or "{+a}" in text
