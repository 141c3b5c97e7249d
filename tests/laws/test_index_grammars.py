"""Files cut by grammar: what each language defines has its part, with what belongs to it and no more."""

from __future__ import annotations

import os
import random
from importlib.util import find_spec
from textwrap import dedent

import pytest

from handrail.index import reader
from handrail.index.grammars import marks_by_grammar
from handrail.index.parts import parts_of
from handrail.index.reader import Reader

MODULES = {
    "py": "tree_sitter_python", "js": "tree_sitter_javascript", "ts": "tree_sitter_typescript",
    "tsx": "tree_sitter_typescript",
    "go": "tree_sitter_go", "rs": "tree_sitter_rust", "java": "tree_sitter_java", "c": "tree_sitter_c",
    "sh": "tree_sitter_bash",
}  # fmt: skip


def need(extension: str) -> None:
    """Skip where a grammar is not installed; where all must be there, fail."""
    if find_spec(MODULES[extension]) is None:
        assert os.environ.get("CI") != "true", f"{MODULES[extension]} is missing"
        pytest.skip(f"{MODULES[extension]} is not installed (handrail[search])")


SAMPLES = {
    "py": (
        """\
        import os

        LIMIT = 3


        @route(
            "/x",
        )
        async def top(a):
            def inner():
                pass
            return inner


        class Outer(Base):
            value = 1

            @property
            def size(self):
                return 1

            class Inner:
                def method(self):
                    pass

            after = 2


        if os.name == "posix":
            def guarded():
                pass
        last = 4
        """,
        [
            (1, 3, ""), (6, 12, "top"), (15, 16, "Outer"), (18, 20, "Outer.size"), (22, 24, "Outer.Inner"),
            (26, 26, "Outer"), (29, 29, ""), (30, 31, "guarded"), (32, 32, ""),
        ],
    ),
    "js": (
        """\
        const LIMIT = 3;
        /** A cart. */
        export default class Cart extends Base {
          static total = 0;
          async addItem(item) {
            return item;
          }
          handler = (e) => {
            log(e);
          };
        }
        export async function fetchAll(url) {
          function inner() {}
        }
        const arrow = async (a) => {
          return a;
        }, other = function () {
          return 2;
        };
        module.exports.helper = function (x) { return x; };
        const plain = { a: 1 };
        """,
        [
            (1, 1, ""), (2, 4, "Cart"), (5, 7, "Cart.addItem"), (8, 10, "Cart.handler"), (12, 14, "fetchAll"),
            (15, 16, "arrow"), (17, 19, "other"), (20, 20, "module.exports.helper"), (21, 21, ""),
        ],
    ),
    "ts": (
        """\
        import { A } from "./a";
        export interface User<T> {
          id: number;
        }
        export type Id = string | number;
        enum Color { Red }
        namespace Util {
          export class Deep {
            run(): void {}
          }
        }
        abstract class Shape implements Thing {
          private readonly x: number = 1;
          abstract area(): number;
          @log()
          public async render(ctx: Ctx): Promise<void> {}
        }
        export const useThing = <T,>(a: T): T => a;
        """,
        [
            (1, 1, ""), (2, 4, "User"), (5, 5, "Id"), (6, 6, "Color"), (7, 7, ""), (8, 8, "Util.Deep"),
            (9, 9, "Util.Deep.run"), (12, 13, "Shape"), (14, 14, "Shape.area"), (15, 16, "Shape.render"),
            (18, 18, "useThing"),
        ],
    ),
    "tsx": (
        """\
        export const Button: React.FC<Props> = ({ label }) => {
          return <button>{label}</button>;
        };
        export function Page() { return <div><Button label="x" /></div>; }
        """,
        [(1, 3, "Button"), (4, 4, "Page")],
    ),
    "go": (
        """\
        package main

        // Server serves.
        type Server[T any] struct {
        \taddr string
        }

        type (
        \tHandler interface{ Serve() }
        \tId      int
        )

        // Listen listens.
        func (s *Server[T]) Listen(addr string) error {
        \treturn nil
        }

        func main() {}
        """,
        [
            (1, 1, ""), (3, 6, "Server"), (8, 9, "Handler"), (10, 10, "Id"), (13, 16, "Server.Listen"),
            (18, 18, "main"),
        ],
    ),
    "rs": (
        """\
        const MAX: usize = 3;
        /// A point.
        #[derive(Debug)]
        pub struct Point<T> { x: T }
        pub trait Shape {
            fn area(&self) -> f64;
        }
        impl<T> Shape for Point<T> {
            #[inline]
            fn area(&self) -> f64 {
                0.0
            }
        }
        macro_rules! pair { () => {} }
        #[cfg(test)]
        mod tests {
            use super::*;
            #[test]
            fn works() {}
        }
        """,
        [
            (1, 1, ""), (2, 4, "Point"), (5, 5, "Shape"), (6, 6, "Shape.area"), (8, 8, "Point"), (9, 12, "Point.area"),
            (14, 14, "pair"), (15, 17, ""), (18, 19, "tests.works"),
        ],
    ),
    "java": (
        """\
        package a.b;
        @Deprecated
        public class Shop<T> extends Base {
          private int max = 3;
          public Shop(int a) { }
          @Override
          public <R> List<R> items(int a) {
            return null;
          }
          enum Kind { A, B; void m() {} }
        }
        record Point(int x, int y) { double len() { return 0; } }
        """,
        [
            (1, 1, ""), (2, 4, "Shop"), (5, 5, "Shop.Shop"), (6, 9, "Shop.items"), (10, 10, "Shop.Kind"),
            (12, 12, "Point"),
        ],
    ),
    "c": (
        """\
        #include <stdio.h>
        #define SQ(x) ((x)*(x))
        struct point { int x, y; };
        typedef struct node {
          struct node *next;
        } node_t;
        static struct point origin;
        int add(int a, int b);
        /* Adds. */
        static inline int add(int a, int b) { return a + b; }
        int (*getfn(void))(int) { return 0; }
        #ifdef X
        char **
        names(int n)
        {
          return 0;
        }
        #endif
        """,
        [
            (1, 1, ""), (2, 2, "SQ"), (3, 3, "point"), (4, 6, "node_t"), (7, 8, ""), (9, 10, "add"), (11, 11, "getfn"),
            (12, 12, ""), (13, 17, "names"), (18, 18, ""),
        ],
    ),
    "sh": (
        "set -e\nbuild() {\n  echo 'fake() {'\n}\nfunction deploy { :; }\nbuild\n",
        [(1, 1, ""), (2, 4, "build"), (5, 5, "deploy"), (6, 6, "")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("extension", SAMPLES)
def test_each_definition_has_the_lines_that_belong_to_it(extension: str) -> None:
    """Decorators and comments go with it, members are apart, what stands between them is what is around them."""
    need(extension)
    text, wanted = SAMPLES[extension]
    text = dedent(text)
    assert [tuple(part) for part in parts_of(text, extension, marks_by_grammar(text, extension))] == wanted


@pytest.mark.parametrize("extension", SAMPLES)
def test_broken_code_is_cut_all_the_same(extension: str) -> None:
    """Cut off anywhere, with brackets gone or bytes that are no text: every line with a word is in one part."""
    need(extension)
    chance = random.Random(7)
    whole = dedent(SAMPLES[extension][0])
    for _ in range(40):
        text = list(whole[: chance.randrange(1, len(whole))])
        for _ in range(chance.randrange(6)):
            text[chance.randrange(len(text))] = chance.choice("(){}[]'\"`\ufffd\u0000é\t\r<>@#\\")
        lines = "".join(text).split("\n")
        parts = parts_of("".join(text), extension, marks_by_grammar("".join(text), extension))
        covered = [line for part in parts for line in range(part.start, part.end + 1)]
        assert len(covered) == len(set(covered))
        assert {n for n, line in enumerate(lines, 1) if any(c.isalnum() for c in line)} <= set(covered)


def test_names_in_any_script_are_told() -> None:
    """Also where a file is no UTF-8 and some of its letters are lost."""
    need("py")
    text = "def größe():\n    pass\nclass 数据:\n    pass\n"
    lost = b"def gr\xf6sse():\n    pass\n\ndef next_one():\n    pass\n".decode("utf-8", "replace")
    assert [mark.name for mark in marks_by_grammar(text, "py") or ()] == ["größe", "数据"]
    assert "next_one" in [mark.name for mark in marks_by_grammar(lost, "py") or ()]


# ── the process that reads ───────────────────────────────────────────────────────────────────


def test_a_process_of_its_own_finds_the_same() -> None:
    """And a language without a grammar is nothing for it."""
    need("py")
    text, found = dedent(SAMPLES["py"][0]), Reader()
    try:
        assert found.marks([(text, "py")])[0] == marks_by_grammar(text, "py")
        assert found.marks([(text, "zzz")])[0] is None
        assert found.marks([("x = 1;" * 10_000, "py")])[0] is None  # no person wrote this line
    finally:
        found.close()


def test_text_that_a_grammar_never_ends_with_costs_a_process_and_not_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is ended after its time, a new one serves the next file, and after some such ends grammars are left alone."""
    need("py")
    text = "class A { \n" * 90_000
    found = Reader()
    try:
        assert found.marks([("def f(): pass\n", "py")])[0] is not None
        first = found._process
        assert first is not None
        assert (found.marks([(text, "py")])[0], first.returncode is None, found._process) == (None, False, None)
        assert found.marks([("def f(): pass\n", "py")])[0] is not None
        monkeypatch.setattr(reader, "MAX_ENDS", 1)
        assert found.marks([("def f(): pass\n", "py")])[0] is None
    finally:
        found.close()


def test_the_process_ends_with_whoever_asked() -> None:
    """And a process that is gone is started again."""
    need("py")
    found = Reader()
    assert found.marks([("def f(): pass\n", "py")])[0] is not None
    process = found._process
    assert process is not None
    process.kill()
    process.wait()
    assert found.marks([("def f(): pass\n", "py")])[0] is None
    assert found.marks([("def f(): pass\n", "py")])[0] is not None
    found.close()
    assert found._process is None
