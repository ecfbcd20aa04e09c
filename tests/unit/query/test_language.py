"""The query language: what is typed becomes a tree, or an error that points at the character."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import InvalidRequest
from server.query.language import MAX_CHARS, MAX_DEPTH, MAX_TERMS, parse_query
from server.query.tree import (
    And,
    FileHas,
    Node,
    Not,
    Or,
    PathHas,
    PropertyTest,
    TagIs,
    Text,
    walk,
    wanted_texts,
)

A, B, C = Text("a"), Text("b"), Text("c")


@pytest.mark.parametrize(
    ("typed", "tree"),
    [
        ("", None),
        (" \t\n ", None),
        ("word", Text("word")),
        ("a b", And((A, B))),
        ("a AND b", And((A, B))),
        ('"a phrase here"', Text("a phrase here")),
        ('"a phrase"b', And((Text("a phrase"), B))),
        ("begin*", Text("begin", prefix=True)),
        ('"two wor"*', Text("two wor", prefix=True)),
        ("東*", Text("東", prefix=True)),
        ("a OR b", Or((A, B))),
        ("a or b", And((A, Text("or"), B))),
        ('a "OR" b', And((A, Text("OR"), B))),
        ("a b OR c", Or((And((A, B)), C))),
        ("a (b OR c)", And((A, Or((B, C))))),
        ("((a) ((b)))", And((A, B))),
        ("-a", Not(A)),
        ("a -b", And((A, Not(B)))),
        ('-"a b"', Not(Text("a b"))),
        ("-(a OR b)", Not(Or((A, B)))),
        ("-tag:x", Not(TagIs("x"))),
        ("-[k]", Not(PropertyTest("k", "exists", True))),
        ("well-known", Text("well-known")),
        ("--force", Text("--force")),
        ("tag:x", TagIs("x")),
        ("tag:#x/y", TagIs("x/y")),
        ("TAG:x", TagIs("x")),
        ("tag: x", TagIs("x")),
        ('tag:"#x"', TagIs("x")),
        ("#x-1/y_z", TagIs("x-1/y_z")),
        ("#読書", TagIs("読書")),
        ("tag:(#x OR y)", Or((TagIs("x"), TagIs("y")))),
        ("#1 a", And((Text("#1"), A))),
        ("C#", Text("C#")),
        ("path:a/b", PathHas("a/b")),
        ('path:"a b/c"', PathHas("a b/c")),
        ("path:(a OR b)", Or((PathHas("a"), PathHas("b")))),
        ("path:(a -b)", And((PathHas("a"), Not(PathHas("b"))))),
        ("file:x.md", FileHas("x.md")),
        ("content:a", A),
        ("content:path:x", Text("path:x")),
        ("10:30", Text("10:30")),
        ("https://a.b/c?d=e", Text("https://a.b/c?d=e")),
        ("/usr/local", Text("/usr/local")),
        ("a & b --- c", And((A, B, C))),
        ("a OR &", A),
        ("[key]", PropertyTest("key", "exists", True)),
        ("[key:value]", PropertyTest("key", "eq", "value")),
        ("[key: in progress ]", PropertyTest("key", "eq", "in progress")),
        ('["my key":"a:b]"]', PropertyTest("my key", "eq", "a:b]")),
        ("[my key:v]", PropertyTest("my key", "eq", "v")),
        ("[key:null]", PropertyTest("key", "eq", None)),
        ('[key:"null"]', PropertyTest("key", "eq", "null")),
        ("[n:>5]", PropertyTest("n", "gt", "5")),
        ("[n:>= 5]", PropertyTest("n", "gte", "5")),
        ("[n:<5]", PropertyTest("n", "lt", "5")),
        ('[n:<="5"]', PropertyTest("n", "lte", "5")),
        ("[at:10:30]", PropertyTest("at", "eq", "10:30")),
        ("[k:a OR b]", Or((PropertyTest("k", "eq", "a"), PropertyTest("k", "eq", "b")))),
        ('[k:"a" OR >3]', Or((PropertyTest("k", "eq", "a"), PropertyTest("k", "gt", "3")))),
        ("[k:ORder]", PropertyTest("k", "eq", "ORder")),
        ("array[0]", Text("array[0]")),
    ],
)
def test_what_is_typed_becomes_a_tree(typed: str, tree: Node | None) -> None:
    assert parse_query(typed) == tree


@pytest.mark.parametrize(
    ("typed", "position", "says"),
    [
        ('a "b', 2, "never closed"),
        ("a (b", 2, "never closed"),
        ("a) b", 1, "closes nothing"),
        ("a [b", 2, "never closed"),
        ("[b:c", 0, "never closed"),
        ("[b:", 0, "never closed"),
        ("[b:]", 3, "value is missing"),
        ("[b:x OR ]", 8, "value is missing"),
        ("[]", 1, "name of a property"),
        ('[a:"x"y]', 6, "does not belong"),
        ("a OR", 4, "missing"),
        ("OR a", 0, "missing"),
        ("a OR OR b", 5, "missing"),
        ("a AND", 5, "missing"),
        ("()", 1, "missing"),
        ("- a", 0, "stands alone"),
        ("a -", 2, "stands alone"),
        ("(-)", 1, "stands alone"),
        ("*a", 0, "end a word"),
        ("a*b", 1, "end a word"),
        ("x a*", 2, "Fewer than"),
        ("ab*", 0, "Fewer than"),
        ("a tag:", 2, "no value"),
        ("path:", 0, "no value"),
        ('path:""', 5, "no value"),
        ("#a,b", 2, "','"),
        ('tag:"#a b"', 7, "' '"),
        ("tag:x*", 5, "'*'"),
        ("tag:/", 4, "tag is missing"),
        ("a line:b", 2, "line:"),
        ("block:b", 0, "block:"),
        ("section:(a b)", 0, "section:"),
        ("task-todo:b", 0, "task-todo:"),
        ("match-case:B", 0, "match-case:"),
        (r"a /\d+ x/ b", 2, "regex"),
        ("???", 0, "No word"),
        ("-&", 0, "No word"),
        ("a \ud800", 2, "Half a character"),
        ("x" * (MAX_CHARS + 1), MAX_CHARS, "More than"),
        ("(" * (MAX_DEPTH + 1), MAX_DEPTH, "deeper"),
        ("a " * (MAX_TERMS + 1), 2 * MAX_TERMS, "conditions"),
    ],
)
def test_an_error_points_at_the_character(typed: str, position: int, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_query(typed)
    error = caught.value
    assert says in error.message
    assert error.details["position"] == position
    assert f"character {position + 1} " in error.message
    assert error.hint
    shown, mark = error.message.splitlines()[-2:]
    assert mark.strip(" \u3000") == "^"
    if position < len(typed) and typed[position].isprintable():
        assert shown[mark.index("^")] == typed[position]


def test_the_mark_stands_below_wide_characters_too() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_query("東京 )")
    assert caught.value.message.endswith("\n東京 )\n\u3000\u3000 ^")


def test_only_texts_that_are_wanted_speak_for_a_note() -> None:
    tree = parse_query("a -b (c OR tag:x) -(d e)")
    assert list(wanted_texts(tree)) == [A, C]
    assert Text("e") in list(walk(tree))


_TYPED = st.text(st.sampled_from('ab *-"()[]:#/<>=OR東\n\u3000é'), max_size=60) | st.text(
    max_size=40
)


@given(_TYPED)
def test_any_text_is_a_tree_or_refused(typed: str) -> None:
    try:
        tree = parse_query(typed)
    except InvalidRequest as error:
        assert 0 <= error.details["position"] <= len(typed)
    else:
        assert (tree is None) == (not typed.strip())


@given(st.recursive(st.sampled_from(["a", '"b c"', "tag:x", "[k:v]", "dee*"]),
                    lambda inner: st.tuples(inner, inner).map(lambda two: f"({two[0]} OR -{two[1]})"),
                    max_leaves=8))  # fmt: skip
def test_what_is_well_formed_is_understood(typed: str) -> None:
    assert parse_query(typed) is not None
