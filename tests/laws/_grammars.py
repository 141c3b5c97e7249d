"""Samples of each language that has a grammar, with the parts that they are to be cut into."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

MODULES = {
    "py": "tree_sitter_python", "js": "tree_sitter_javascript", "ts": "tree_sitter_typescript",
    "tsx": "tree_sitter_typescript",
    "go": "tree_sitter_go", "rs": "tree_sitter_rust", "java": "tree_sitter_java", "c": "tree_sitter_c",
    "sh": "tree_sitter_bash", "cpp": "tree_sitter_cpp", "cs": "tree_sitter_c_sharp", "rb": "tree_sitter_ruby",
    "php": "tree_sitter_php",
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
    "cpp": (
        """\
        #include <vector>
        namespace shop {
        // A cart.
        template <typename T>
        class Cart : public Base {
         public:
          explicit Cart(int size);
          ~Cart() {}
          int total() const { return 1; }
         private:
          int size_ = 0;
        };
        struct Point { int x; };
        enum class Color { Red };
        using Id = int;
        }  // namespace shop
        int shop::Cart::count(int a) {
          return a;
        }
        static void helper();
        """,
        [
            (1, 2, ""), (3, 7, "shop.Cart"), (8, 8, "shop.Cart.~Cart"), (9, 9, "shop.Cart.total"),
            (10, 12, "shop.Cart"), (13, 13, "shop.Point"), (14, 14, "shop.Color"), (15, 15, "shop.Id"), (16, 16, ""),
            (17, 19, "shop::Cart::count"), (20, 20, ""),
        ],
    ),
    "cs": (
        """\
        using System;
        namespace Shop
        {
            /// <summary>A cart.</summary>
            [Serializable]
            public class Cart<T> : Base
            {
                private int max = 3;
                public Cart(int a) { }
                public int Total { get; set; }
                [Obsolete]
                public async Task<int> Add(T item)
                {
                    return 1;
                }
            }
            public interface IThing { void Run(); }
            public record Point(int X, int Y);
            enum Color { Red }
            public delegate void Done(int a);
        }
        """,
        [
            (1, 3, ""), (4, 8, "Shop.Cart"), (9, 9, "Shop.Cart.Cart"), (10, 10, "Shop.Cart.Total"),
            (11, 15, "Shop.Cart.Add"), (17, 17, "Shop.IThing"), (18, 18, "Shop.Point"), (19, 19, "Shop.Color"),
            (20, 20, "Shop.Done"),
        ],
    ),
    "rb": (
        """\
        require "set"
        LIMIT = 3
        module Shop
          # A cart.
          class Cart < Base
            attr_reader :items
            def add(item)
              @items << item
            end
            def self.build
              new
            end
            class << self
              def other; end
            end
          end
          def self.helper(x) = x
        end
        def top?
          true
        end
        """,
        [
            (1, 3, ""), (4, 6, "Shop.Cart"), (7, 9, "Shop.Cart.add"), (10, 12, "Shop.Cart.build"),
            (13, 13, "Shop.Cart"), (14, 14, "Shop.Cart.other"), (15, 16, "Shop.Cart"), (17, 17, "Shop.helper"),
            (18, 18, ""), (19, 21, "top"),
        ],
    ),
    "php": (
        """\
        <?php
        namespace Shop;
        use Some\\Thing;
        /** A cart. */
        #[Entity]
        final class Cart extends Base
        {
            private int $max = 3;
            public function __construct(private int $a) { }
            public static function add(Item $item): int
            {
                return 1;
            }
        }
        interface Runs { public function run(): void; }
        trait Helps { function help() {} }
        enum Color: string { case Red = "r"; public function label() { return "x"; } }
        function top(int $a) {
            return $a;
        }
        """,
        [
            (1, 3, ""), (4, 8, "Cart"), (9, 9, "Cart.__construct"), (10, 13, "Cart.add"), (15, 15, "Runs"),
            (16, 16, "Helps"), (17, 17, "Color"), (18, 20, "top"),
        ],
    ),
    "sh": (
        "set -e\nbuild() {\n  echo 'fake() {'\n}\nfunction deploy { :; }\nbuild\n",
        [(1, 1, ""), (2, 4, "build"), (5, 5, "deploy"), (6, 6, "")],
    ),
}  # fmt: skip
