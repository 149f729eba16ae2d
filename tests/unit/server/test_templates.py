from __future__ import annotations

import pytest

from mcpost.errors import UsageError
from mcpost.server.templates import Template


@pytest.mark.req("F-02/S")
@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        pytest.param("books://{id}", "books://7", {"id": "7"}, id="one segment"),
        pytest.param("test://{id}/data", "test://1 2/data", {"id": "1 2"}, id="in the middle"),
        pytest.param("a://{x}/{y}", "a://1/2", {"x": "1", "y": "2"}, id="two segments"),
        pytest.param("a://{x}-{y}", "a://1-2-3", {"x": "1", "y": "2-3"}, id="two in a segment"),
        pytest.param("a://{x}.json", "a://b.c.json", {"x": "b.c"}, id="with an ending"),
        pytest.param("a://{x}", "a://caf%C3%A9", {"x": "café"}, id="percent-encoded"),
        pytest.param("f:///{+p}", "f:///a/b.txt", {"p": "a/b.txt"}, id="the rest of a path"),
        pytest.param("f:///{+p}", "f:///a%2Fb", {"p": "a/b"}, id="an encoded slash of a rest"),
        pytest.param(
            "f:///{+p}/{n}.md", "f:///a/b/c.md", {"p": "a/b", "n": "c"}, id="a rest and more"
        ),
        pytest.param("plain://x", "plain://x", {}, id="no variable"),
    ],
)
def test_a_uri_of_a_template_gives_its_values(
    template: str, uri: str, values: dict[str, str]
) -> None:
    assert Template(template).match(uri) == values


@pytest.mark.req("F-02/S")
@pytest.mark.parametrize(
    "uri",
    [
        "f://..",
        "f://.",
        "f://a/b",
        "f://a%2Fb",
        "f://%2e%2e",
        "f://..%2f..%2fetc%2fpasswd",
        "f://a%5Cb",
        "f://a\\b",
        "f://a%00b",
        "f://a%0Ab",
        "f://",
        "f://a%",
        "f://a%zz",
        "f://%ff",
        "f://a?b",
        "f://a#b",
        "g://a",
        "f://a/",
    ],
)
def test_a_simple_variable_takes_one_safe_segment(uri: str) -> None:
    assert Template("f://{name}").match(uri) is None


@pytest.mark.req("F-02/S")
@pytest.mark.parametrize(
    "path", ["..", "a/..", "../a", "a/../b", "%2e%2e/a", "a/%2e%2e", "/etc", "%2Fetc", "a\\..\\b"]
)
def test_the_rest_of_a_path_does_not_lead_out(path: str) -> None:
    assert Template("f:///{+path}").match(f"f:///{path}") is None


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("a://{x}{y}", "nothing tells where"),
        ("a://{x}/{x}", "stands twice"),
        ("a://{+x}/{+y}", "only one variable"),
        ("a://{x", "a variable is written"),
        ("a://x}", "a variable is written"),
        ("a://{?x}", "a variable is written"),
        ("a://{x*}", "a variable is written"),
    ],
)
def test_a_template_of_another_form_is_refused(template: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        Template(template)


def test_the_names_are_known_in_their_order() -> None:
    assert Template("a://{b}/{+c}").names == ("b", "c")
