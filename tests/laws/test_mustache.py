"""Mustache, rule by rule: interpolation, sections, partials, delimiters, and the optional parts of its specification.

The cases are our own; each checks one rule of the specification (version 1.4).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import handrail
from handrail import ports
from handrail.tools.util import _mustache
from handrail.tools.util._mustache import register_lambda, render
from handrail.tools.util._mustache_parse import TemplateError

Case = tuple[str, str, Any, str]  # rule, template, data, result
WithPartials = tuple[str, str, Any, dict[str, str], str]

INTERPOLATION: list[Case] = [
    ("text alone stays", "no tags {here} }} at all", {}, "no tags {here} }} at all"),
    ("a value takes the tag's place", "Dear {{name}},", {"name": "Ada"}, "Dear Ada,"),
    ("values are not read again", "{{a}}", {"a": "{{b}}", "b": "no"}, "{{b}}"),
    ("a value is escaped", "{{x}}", {"x": '<a href="b">&\''}, "&lt;a href=&quot;b&quot;&gt;&amp;'"),
    ("three braces do not escape", "{{{x}}}", {"x": '<&">'}, '<&">'),
    ("an ampersand does not escape", "{{&x}}|{{& x }}", {"x": "<"}, "<|<"),
    ("whole numbers", "{{n}} {{{n}}} {{&n}}", {"n": 85}, "85 85 85"),
    ("decimals keep their form", "{{n}}", {"n": 1.25}, "1.25"),
    ("null is empty", "[{{n}}{{{n}}}{{&n}}]", {"n": None}, "[]"),
    ("what is missing is empty", "[{{n}}{{{n}}}{{&n}}]", {}, "[]"),
    ("dots walk into objects", "{{a.b.c}}", {"a": {"b": {"c": "deep"}}}, "deep"),
    ("dots work without escaping too", "{{{a.b}}}{{&a.b}}", {"a": {"b": "<"}}, "<<"),
    ("a broken chain is empty", "[{{a.b.c}}]", {"a": {"x": 1}, "b": {"c": "no"}}, "[]"),
    ("a chain does not climb back out", "[{{#in}}{{a.b}}{{/in}}]", {"a": {"b": "no"}, "in": {"a": {}}}, "[]"),
    ("the first name climbs", "{{#in}}{{a.b}}{{/in}}", {"a": {"b": "yes"}, "in": {}}, "yes"),
    ("a text has no parts", "[{{a.length}}]", {"a": "four"}, "[]"),
    ("a dot is the thing itself", "{{.}}|{{{.}}}|{{&.}}", "<", "&lt;|<|<"),
    ("a dot may be a number", "{{.}}", 7, "7"),
    ("blanks around a tag stay", "| {{a}} |\n {{{a}}}\n\t{{&a}} \n", {"a": "-"}, "| - |\n -\n\t- \n"),
    ("blanks inside a tag go", "{{  a\t}}|{{{ a }}}|{{&  a  }}", {"a": "-"}, "-|-|-"),
    ("truth is written as JSON", "{{t}} {{f}}", {"t": True, "f": False}, "true false"),
    (
        "lists and objects are written as JSON",
        "{{{l}}} {{{o}}}",
        {"l": [1, "é"], "o": {"a": None}},
        '[1, "é"] {"a": null}',
    ),
]
SECTIONS: list[Case] = [
    ("truth shows", "[{{#a}}shown{{/a}}]", {"a": True}, "[shown]"),
    ("falsehood hides", "[{{#a}}hidden{{/a}}]", {"a": False}, "[]"),
    ("null hides", "[{{#a}}hidden{{/a}}]", {"a": None}, "[]"),
    ("nothing hides", "[{{#a}}hidden{{/a}}]", {}, "[]"),
    ("an object is entered", "{{#a}}Hi {{name}}{{/a}}", {"a": {"name": "Joe"}}, "Hi Joe"),
    ("outer values are seen inside", "{{#a}}{{b}}{{c}}{{/a}}", {"a": {"b": 1}, "b": 0, "c": 2}, "12"),
    ("a value is the context", "{{#a}}<{{.}}>{{/a}}", {"a": "x"}, "<x>"),
    ("a list repeats", "{{#l}}{{n}},{{/l}}", {"l": [{"n": 1}, {"n": 2}]}, "1,2,"),
    ("an empty list hides", "[{{#l}}no{{/l}}]", {"l": []}, "[]"),
    ("a dot goes through values", "{{#l}}({{.}}){{/l}}", {"l": [1, "b", 2.5]}, "(1)(b)(2.5)"),
    ("lists of lists", "{{#l}}({{#.}}{{.}}{{/.}}){{/l}}", {"l": [[1, 2], ["a"]]}, "(12)(a)"),
    ("the root may be a list", "{{#.}}{{n}}{{/.}}", [{"n": 1}, {"n": 2}], "12"),
    ("the same name twice", "{{#a}}1{{/a}}{{b}}{{#a}}3{{/a}}", {"a": True, "b": 2}, "123"),
    ("sections in sections", "{{#a}}1{{#a}}2{{/a}}3{{/a}}", {"a": True}, "123"),
    ("false inside true", "{{#a}}1{{#b}}2{{/b}}3{{/a}}", {"a": True, "b": False}, "13"),
    ("dotted sections", "{{#a.b.c}}x{{/a.b.c}}", {"a": {"b": {"c": True}}}, "x"),
    ("dotted misses", "[{{#a.b.c}}x{{/a.b.c}}]", {"a": {}}, "[]"),
    ("blanks around stay", " - {{#a}} +\t{{/a}} - \n", {"a": True}, " -  +\t - \n"),
    ("a line of its own goes", "a\n{{#t}}\nb\n{{/t}}\nc\n", {"t": True}, "a\nb\nc\n"),
    ("also when indented", "a\n  {{#t}}\nb\n\t{{/t}}\nc", {"t": True}, "a\nb\nc"),
    ("also with CRLF", "a\r\n{{#t}}\r\nb\r\n{{/t}}\r\nc", {"t": True}, "a\r\nb\r\nc"),
    ("also at the start", "  {{#t}}\nx{{/t}}\ny", {"t": True}, "x\ny"),
    ("also at the end", "x{{#t}}\ny\n  {{/t}}", {"t": True}, "x\ny\n"),
    ("padding in the tags", "{{# t }}x{{/  t\n}}", {"t": True}, "x"),
    ("empty text hides", "[{{#s}}x{{/s}}]", {"s": ""}, "[]"),
    ("zero hides", "[{{#n}}x{{/n}}]", {"n": 0}, "[]"),
    ("an empty object shows", "[{{#o}}x{{/o}}]", {"o": {}}, "[x]"),
]
INVERTED: list[Case] = [
    ("falsehood shows", "{{^a}}x{{/a}}", {"a": False}, "x"),
    ("truth hides", "[{{^a}}x{{/a}}]", {"a": True}, "[]"),
    ("null shows", "{{^a}}x{{/a}}", {"a": None}, "x"),
    ("nothing shows", "{{^a}}x{{/a}}", {}, "x"),
    ("an object hides", "[{{^a}}x{{/a}}]", {"a": {"b": 1}}, "[]"),
    ("a list hides", "[{{^a}}x{{/a}}]", {"a": [0]}, "[]"),
    ("an empty list shows", "{{^a}}x{{/a}}", {"a": []}, "x"),
    ("a dotted miss shows", "{{^a.b}}x{{/a.b}}", {"a": {}}, "x"),
    ("the context stays", "{{^a}}{{b}}{{/a}}", {"b": "outer"}, "outer"),
    ("a line of its own goes", "a\n {{^f}}\nb\n {{/f}}\nc\n", {}, "a\nb\nc\n"),
    ("else", "{{#a}}yes{{/a}}{{^a}}no{{/a}}", {"a": 0}, "no"),
]
COMMENTS_AND_DELIMITERS: list[Case] = [
    ("comments go", "1{{! two }}3", {}, "13"),
    ("over several lines", "1{{!\n  two\n}}3", {}, "13"),
    ("with their line", "a\n{{! b }}\nc\n", {}, "a\nc\n"),
    ("with their lines", "a\n  {{!\n b\n  }}\nc\n", {}, "a\nc\n"),
    ("not with others' lines", "a {{! b }}\nc", {}, "a \nc"),
    ("comments hold anything", "[{{! #/^=>{ }}]", {}, "[]"),
    ("delimiters change", "{{=<% %>=}}(<%a%>{{a}})", {"a": 1}, "(1{{a}})"),
    ("and may be special signs", "({{=[ ]=}}[a])", {"a": 1}, "(1)"),
    ("and change back", "{{=| |=}}|a||={{ }}=|{{a}}", {"a": 1}, "11"),
    ("also inside sections", "{{#t}}{{a}}{{=| |=}}|a|{{/t}}|/t|", {"t": {"a": 1}}, "11{{/t}}"),
    ("blanks inside", "{{=   @\t@   =}}@a@", {"a": 1}, "1"),
    ("with their line", "a\n  {{=@ @=}}\nb", {}, "a\nb"),
    ("triple tags keep their form", "{{=<% %>=}}<%{a}%>", {"a": "<"}, "<"),
]
PARTIALS: list[WithPartials] = [
    ("it takes the tag's place", "[{{>p}}]", {}, {"p": "text"}, "[text]"),
    ("a missing one is empty", "[{{>p}}]", {}, {}, "[]"),
    ("it sees the context", "{{#a}}{{>p}}{{/a}}", {"a": {"n": 1}}, {"p": "*{{n}}*"}, "*1*"),
    ("it recurses", "{{>n}}", {"c": 1, "l": [{"c": 2, "l": []}]}, {"n": "{{c}}[{{#l}}{{>n}}{{/l}}]"}, "1[2[]]"),
    ("it nests", "{{>a}}", {"x": 1}, {"a": "({{>b}})", "b": "{{x}}"}, "(1)"),
    ("blanks around stay", "- {{>p}} -", {}, {"p": " x\t"}, "-  x\t -"),
    ("inside a line nothing is indented", "  {{a}}  {{>p}}\n", {"a": "|"}, {"p": "1\n2"}, "  |  1\n2\n"),
    ("alone its lines are indented", "a\n {{>p}}\nb\n", {}, {"p": "1\n2\n"}, "a\n 1\n 2\nb\n"),
    ("values in it are not", " {{>p}}\n", {"v": "x\ny"}, {"p": "{{{v}}}\n"}, " x\ny\n"),
    ("empty lines are not", "  {{>p}}", {}, {"p": "1\n\n2"}, "  1\n\n  2"),
    ("CRLF alone", "a\r\n{{>p}}\r\nb", {}, {"p": "x"}, "a\r\nxb"),
    ("without a line before", "  {{>p}}\nend", {}, {"p": "1\n2"}, "  1\n  2end"),
    ("without a line after", "top\n  {{>p}}", {}, {"p": "1\n2"}, "top\n  1\n  2"),
    ("padding in the tag", "<{{>  p  }}>", {}, {"p": "x"}, "<x>"),
    ("delimiters do not go in", "{{=| |=}}|>p|", {"a": 1}, {"p": "{{a}}|a|"}, "1|a|"),
    ("delimiters do not come out", "{{>p}}.{{a}}|a|", {"a": 1}, {"p": "{{a}}{{=| |=}}|a|"}, "11.1|a|"),
]
DYNAMIC: list[WithPartials] = [
    ("a name is looked up", "{{>*k}}", {"k": "p"}, {"p": "x"}, "x"),
    ("the star is not part of it", "{{>*k}}", {"k": "p", "*k": "q"}, {"p": "x", "q": "no"}, "x"),
    ("a miss is empty", "[{{>*k}}]", {}, {"k": "no"}, "[]"),
    ("a missing partial is empty", "[{{>*k}}]", {"k": "z"}, {"p": "no"}, "[]"),
    ("what is no text is empty", "[{{>*k}}]", {"k": 3}, {"3": "no"}, "[]"),
    ("dotted names", "{{>*a.b}}", {"a": {"b": "p"}, "t": 1}, {"p": "{{t}}"}, "1"),
    (
        "the context is not changed",
        "{{#s}}{{>*o.k}}{{/s}}",
        {"s": {"v": 1}, "o": {"k": "p", "v": 2}},
        {"p": "{{v}}"},
        "1",
    ),
    ("not twice", "[{{>**k}}]", {"k": "l", "l": "p"}, {"p": "no"}, "[]"),
    ("alone it is indented", "a\n  {{>*k}}\nb", {"k": "p"}, {"p": "1\n2\n"}, "a\n  1\n  2\nb"),
    ("padding", "{{> * k }}", {"k": "p"}, {"p": "x"}, "x"),
    (
        "other for each item",
        "{{#l}}{{>*kind}}{{/l}}",
        {"l": [{"kind": "a"}, {"kind": "b"}]},
        {"a": "A", "b": "B"},
        "AB",
    ),
    ("parents too", "{{<*k}}{{$b}}mine{{/b}}{{/*k}}", {"k": "p"}, {"p": "<{{$b}}yours{{/b}}>"}, "<mine>"),
]
PLAIN = {"p": "{{$t}}d{{/t}}"}
CHAIN = {"a": "{{<b}}{{$t}}a{{/t}}{{/b}}", "b": "{{$t}}b{{/t}}"}
MARKED = {"p": "({{$t}}d{{/t}})"}
INNER = {"p": "{{#o}}{{$t}}d{{/t}}{{/o}}"}
NESTED = {"a": "{{<b}}{{$t}}[{{$in}}old{{/in}}]{{/t}}{{/b}}", "b": "{{$t}}{{/t}}"}
INHERITANCE: list[WithPartials] = [
    ("a block has a default", "{{$t}}default {{x}}{{/t}}\n", {"x": 1}, {}, "default 1\n"),
    ("data does not fill a block", "{{$x}}default{{/x}}", {"x": "no"}, {}, "default"),
    ("a parent without arguments", "{{<p}}{{/p}}\n", {}, {"p": "{{$t}}default{{/t}}"}, "default"),
    ("is the same as a partial", "{{>p}}|{{<p}}{{/p}}", {}, PLAIN, "d|d"),
    ("a missing parent is empty", "[{{<p}}{{$t}}x{{/t}}{{/p}}]", {}, {}, "[]"),
    ("an argument replaces", "{{<p}}{{$t}}mine{{/t}}{{/p}}", {}, {"p": "<{{$t}}d{{/t}}>"}, "<mine>"),
    ("others keep their default", "{{<p}}{{$b}}B{{/b}}{{/p}}", {}, {"p": "{{$a}}1{{/a}},{{$b}}2{{/b}}"}, "1,B"),
    ("each use has its own", "{{<p}}{{$t}}1{{/t}}{{/p}}{{<p}}{{$t}}2{{/t}}{{/p}}{{>p}}", {}, MARKED, "(1)(2)(d)"),
    ("other text in a parent goes", "{{<p}} no {{x}} {{$t}}yes{{/t}} no {{/p}}", {"x": 9}, PLAIN, "yes"),
    ("variables in an argument", "{{<p}}{{$t}}{{x}}{{/t}}{{/p}}", {"x": 1}, PLAIN, "1"),
    ("the scope is where it lands", "{{<p}}{{$t}}{{n}}{{/t}}{{/p}}", {"n": "out", "o": {"n": "in"}}, INNER, "in"),
    ("the outermost wins", "{{<a}}{{$t}}top{{/t}}{{/a}}", {}, CHAIN, "top"),
    ("the next one if it is silent", "{{<a}}{{/a}}", {}, CHAIN, "a"),
    ("it reaches partials inside", "{{<a}}{{$t}}top{{/t}}{{/a}}", {}, {"a": "{{>b}}", "b": "{{$t}}b{{/t}}"}, "top"),
    ("blocks in arguments", "{{<a}}{{$in}}new{{/in}}{{/a}}", {}, NESTED, "[new]"),
    ("a block inside its own argument", "{{<p}}{{$t}}<{{$t}}x{{/t}}>{{/t}}{{/p}}", {}, PLAIN, "<x>"),
    ("delimiters of the argument hold", "{{=| |=}}|<p||$t||x||/t||/p|", {"x": 1}, {"p": "{{$t}}d{{/t}}{{x}}"}, "11"),
    ("alone the parent is indented", "a\n  {{<p}}{{/p}}\nb", {}, {"p": "1\n2\n"}, "a\n  1\n  2\nb"),
    ("line breaks in an argument", "{{<p}}{{$t}}\n1\n\n2\n{{/t}}{{/p}}", {}, PLAIN, "1\n\n2\n"),
    (
        "an argument takes the block's indentation",
        "{{<p}}{{$t}}\n1\n2\n{{/t}}{{/p}}",
        {},
        {"p": "a\n  {{$t}}\n  {{/t}}\nb"},
        "a\n  1\n  2\nb",
    ),
    ("and loses its own", "{{<p}}{{$t}}\n    1\n      2\n{{/t}}{{/p}}", {}, {"p": " {{$t}}\n {{/t}}\n"}, " 1\n   2\n"),
    (
        "the default shows the indentation",
        "{{<p}}{{$t}}\n1\n2\n{{/t}}{{/p}}",
        {},
        {"p": "{{$t}}\n   d\n{{/t}}\n"},
        "   1\n   2\n",
    ),
    (
        "a block on one line, alone",
        "{{<p}}{{$t}}\n1\n2{{/t}}\n{{/p}}",
        {},
        {"p": "a\n {{$t}}{{/t}}\nb"},
        "a\n 1\n 2\nb",
    ),
    ("a block with text before it", "{{<p}}{{$t}}1\n2{{/t}}{{/p}}", {}, {"p": "a: {{$t}}d{{/t}}\n"}, "a: 1\n2\n"),
    ("indentation adds up", " {{<p}}{{$t}}\n1\n{{/t}}{{/p}}\n", {}, {"p": "a\n {{$t}}\n d\n{{/t}}\n"}, " a\n  1\n"),
]


@pytest.mark.parametrize(
    ("rule", "template", "data", "result"),
    [*INTERPOLATION, *SECTIONS, *INVERTED, *COMMENTS_AND_DELIMITERS],
    ids=lambda value: value if isinstance(value, str) and " " in value and "{" not in value else "",
)
def test_a_template_follows_the_rule(rule: str, template: str, data: Any, result: str) -> None:
    """Rendered with escaping, as the specification has it."""
    assert render(template, data, escape_html=True) == result, rule


@pytest.mark.parametrize(("rule", "template", "data", "partials", "result"), [*PARTIALS, *DYNAMIC, *INHERITANCE])
def test_templates_together_follow_the_rule(
    rule: str, template: str, data: Any, partials: dict[str, str], result: str
) -> None:
    """Partials, dynamic names and inheritance."""
    assert render(template, data, partials, escape_html=True) == result, rule


@pytest.fixture
def functions() -> Iterator[Callable[..., None]]:
    """Register functions for one test."""
    before = dict(_mustache.LAMBDAS)
    yield register_lambda
    _mustache.LAMBDAS.clear()
    _mustache.LAMBDAS.update(before)


class TestLambdas:
    """Functions that the operator registered."""

    def test_a_variable_calls_and_what_comes_is_a_template(self, functions: Callable[..., None]) -> None:
        """Its result is rendered with the usual delimiters, then escaped."""
        functions("f", lambda text: f"{text}{{{{x}}}}|x|")
        assert render("{{=| |=}}[|f|]", {"x": ">"}, escape_html=True) == "[&gt;|x|]"

    def test_a_variable_calls_each_time(self, functions: Callable[..., None]) -> None:
        """No result is kept."""
        calls = iter(range(10))
        functions("f", lambda _text: str(next(calls)))
        assert render("{{f}}{{{f}}}{{&f}}", {}) == "012"

    def test_a_section_hands_over_its_text_as_written(self, functions: Callable[..., None]) -> None:
        """Unrendered, and only once for the section."""
        functions("f", lambda text: "yes" if text == "{{x}} " else "no")
        assert render("<{{#f}}{{x}} {{/f}}>", {"x": "no"}) == "<yes>"

    def test_a_section_is_rendered_with_the_delimiters_in_force(self, functions: Callable[..., None]) -> None:
        """What it gives is a template of its place."""
        functions("f", lambda text: f"{text}{{{{x}}}}=|x|{text}")
        assert render("{{=| |=}}<|#f|-|/f|>", {"x": 1}) == "<-{{x}}=1->"

    def test_a_section_calls_each_time(self, functions: Callable[..., None]) -> None:
        """Once for each use."""
        functions("f", lambda text: f"({text})")
        assert render("{{#f}}A{{/f}}{{#f}}B{{/f}}", {}) == "(A)(B)"

    def test_it_counts_as_true(self, functions: Callable[..., None]) -> None:
        """An inverted section of a function is empty."""
        functions("f", lambda _text: "")
        assert render("<{{^f}}no{{/f}}>", {}) == "<>"

    def test_data_comes_first_and_can_never_be_called(self, functions: Callable[..., None]) -> None:
        """A value of the same name hides the function; text that names one is text."""
        functions("f", lambda _text: "called")
        assert render("{{f}}|{{g}}", {"f": "data", "g": "f"}) == "data|f"

    @pytest.mark.parametrize("name", ["", "a.b"])
    def test_a_name_that_no_tag_could_reach_is_refused(self, name: str) -> None:
        """Registering it would be a mistake."""
        with pytest.raises(ValueError, match="cannot name a lambda"):
            register_lambda(name, str)


@pytest.mark.parametrize(
    ("template", "told", "place"),
    [
        ("a\n  {{name", "not closed", (2, 3)),
        ("{{{a}}", "not closed", (1, 1)),
        ("x {{#a}}", "#a is opened and never closed", (1, 3)),
        ("{{<a}}", "<a is opened and never closed", (1, 1)),
        ("x\ny{{/a}}", "/a closes what was never opened", (2, 2)),
        ("{{#a}}\n{{#b}}{{/a}}{{/b}}", "/a stands where /b is expected", (2, 7)),
        ("{{}}", "without a name", (1, 1)),
        ("ab{{# }}", "without a name", (1, 3)),
        ("{{=a=}}", "two delimiters", (1, 1)),
        ("{{=a b c=}}", "two delimiters", (1, 1)),
        ("{{=", "not closed", (1, 1)),
        ("{{#a}}" * 200, "nested more than 100", (1, 595)),
    ],
)
def test_an_error_names_its_line_and_column(template: str, told: str, place: tuple[int, int]) -> None:
    """What is wrong, and where."""
    with pytest.raises(TemplateError, match=told) as caught:
        render(template, {})
    assert (caught.value.line, caught.value.column) == place


def test_an_error_in_a_partial_names_the_partial() -> None:
    """Whose line it is."""
    with pytest.raises(TemplateError) as caught:
        render("{{>a}}", {}, {"a": "x\n{{>b}}", "b": "\n\n{{"})
    assert (caught.value.template, caught.value.line) == ("b", 3)


@pytest.mark.parametrize(
    ("template", "data", "partials"),
    [
        ("{{>a}}", {}, {"a": "{{>a}}"}),
        ("{{>a}}", {}, {"a": "{{>b}}", "b": " {{>a}}\n"}),
        ("{{<a}}{{$t}}{{<a}}{{/a}}{{/t}}{{/a}}", {}, {"a": "{{$t}}{{/t}}{{>a}}"}),
        ("{{>p0}}", {}, {f"p{n}": f"{{{{>p{n + 1}}}}}" * 2 for n in range(60)}),
        ("{{>p0}}", {}, {f"p{n}": f" {{{{>p{n + 1}}}}}\n" * 8 for n in range(60)} | {"p60": "x\n" * 1000}),
        ("{{#l}}{{#l}}{{#l}}{{#l}}x{{/l}}{{/l}}{{/l}}{{/l}}", {"l": [1] * 1000}, {}),
        ("{{#l}}{{#l}}{{v}}{{/l}}{{/l}}", {"l": [1] * 1000, "v": "y" * 10_000}, {}),
    ],
)
def test_no_template_runs_or_grows_without_end(template: str, data: Any, partials: dict[str, str]) -> None:
    """Depth, steps and output are bounded, and passing a bound is said."""
    with pytest.raises(TemplateError):
        render(template, data, partials)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TAGS = "a /a #a ^b /b >p <p /p $a a.b !c . >*c &a =|~|=".split(" ")  # noqa: SIM905
OTHER = ["{{", "}}", "{{{a}}}", "|a|", "|={{ }}=|", "x", "  ", "\n", "\r\n"]
SCRAPS = st.sampled_from([*(f"{{{{{tag.replace('~', ' ')}}}}}" for tag in TAGS), *OTHER])
TEMPLATE = st.lists(SCRAPS, max_size=14).map("".join)


@given(TEMPLATE, JSON, st.dictionaries(st.sampled_from("pabc"), TEMPLATE, max_size=3))
def test_every_template_renders_or_is_refused_with_a_place(template: str, data: Any, partials: dict[str, str]) -> None:
    """A law: text or TemplateError, nothing else, and the same every time."""
    try:
        first = render(template, data, partials, max_steps=5000)
    except TemplateError:
        return
    assert first == render(template, data, partials, max_steps=5000)


@given(st.text().filter(lambda text: "{{" not in text))
def test_text_without_tags_is_itself(text: str) -> None:
    """A law: whatever is no tag stays, to the last blank."""
    assert render(text, {}) == text


@given(st.text())
def test_a_value_arrives_unchanged(value: str) -> None:
    """A law: without escaping, a value is put in as it is and never read as a template."""
    assert render("[{{v}}]", {"v": value}) == f"[{value}]"


@given(JSON)
def test_any_json_value_can_be_the_data(data: Any) -> None:
    """A law: rendering a dot gives the value's own text, empty for null."""
    expected = data if isinstance(data, str) else "" if data is None else json.dumps(data, ensure_ascii=False)
    assert render("{{.}}", data) == expected


def test_what_users_register_and_ask_with_comes_from_the_package_itself() -> None:
    """The very objects, under public names."""
    assert (handrail.register_lambda, handrail.HttpRequest) == (register_lambda, ports.HttpRequest)
    assert {"register_lambda", "HttpRequest"} <= set(handrail.__all__)
