"""Projects as people have them: a shop in Python and Node with its own environment and git, built within a second."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import shutil
import subprocess
import sys
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "pip")
SCRIPTS = ("pytest", "pip")
FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n\n[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
    "package.json": '{"name": "shop", "version": "1.0.0", "scripts": {"test": "node web/test.js"}}\n',
    ".gitignore": ".venv/\n__pycache__/\n.pytest_cache/\n.ruff_cache/\nnode_modules/\nreport.csv\n",
    "README.md": "# Shop\n\nIt greets people.\n",
    "NOTES.txt": "What comes next: discounts.\n",
    "PLAN.txt": "A better cart.\n",
    "run_report.py": "from shop.cart import total\n\nwith open('report.csv', 'w') as file:\n"
    "    file.write(f'total,{total([1, 2, 3])}\\n')\nprint('written')\n",
    "shop/__init__.py": "",
    "shop/cart.py": 'def total(prices):\n    """Add prices up."""\n    return sum(prices)\n',
    "shop/greet.py": "def greet(name):\n    return 'Hello ' + name\n",
    "tests/test_cart.py": "from shop.cart import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n",
    "tests/test_greet.py": "from shop.greet import greet\n\n\n"
    "def test_greet():\n    assert greet('Ann') == 'Hello Ann'\n",
    "web/cart.js": "exports.total = (prices) => prices.reduce((sum, price) => sum + price, 0);\n",
    "web/test.js": "const {total} = require('./cart.js');\n"
    "if (total([1, 2]) !== 3) process.exit(1);\nconsole.log('1 test passed');\n",
}


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write texts by their paths."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def build_shop(folder: Path) -> Path:
    """Build the shop: files, an environment with pytest, ruff and pip, and a repository with one commit."""
    write_files(folder, FILES)
    (folder / "conftest.py").write_text("")
    build_environment(folder / ".venv")
    commit_all(folder)
    return folder


def build_crate(folder: Path) -> Path:
    """Build a crate without dependencies, with a library, a program and a test."""
    library = (
        "pub fn add(a: u32, b: u32) -> u32 {\n    a + b\n}\n\n"
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n}\n"
    )
    files = {
        "Cargo.toml": '[package]\nname = "sum"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": library,
        "src/main.rs": 'fn main() {\n    println!("{}", sum::add(1, 2));\n}\n',
        ".gitignore": "target/\n",
    }
    write_files(folder, files)
    commit_all(folder)
    return folder


def build_web(folder: Path, count: int) -> Path:
    """Build a page with a test, a build and a linter, and so many files of packages."""
    scripts = {"test": "node test.js", "build": "node build.js", "lint": "node -c src/page.js"}
    files = {
        "package.json": json.dumps({"name": "web", "version": "1.0.0", "scripts": scripts}) + "\n",
        ".gitignore": "node_modules/\ndist/\n",
        "src/page.js": "exports.render = (text) => '<p>' + text + '</p>';\n",
        "build.js": "const fs = require('fs');\nfs.mkdirSync('dist', {recursive: true});\n"
        "fs.writeFileSync('dist/index.html', require('./src/page.js').render('Hello'));\n",
        "test.js": "if (!require('./src/page.js').render('a').endsWith('>a</p>')) process.exit(1);\n"
        "console.log('ok');\n",
    }
    write_files(folder, files)
    for number in range(0, count, 100):
        package = folder / f"node_modules/package{number // 100}/lib"
        package.mkdir(parents=True)
        for part in range(min(100, count - number)):
            (package / f"{part}.js").write_text(f"exports.n = {part};\n")
    commit_all(folder)
    return folder


def commit_all(folder: Path) -> None:
    """Make a repository with one commit."""
    for line in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *line], cwd=folder, check=True, capture_output=True)


def build_environment(folder: Path) -> None:
    """Build a virtual environment by copying what the tests' own has: nothing is downloaded."""
    subprocess.run(
        [sys._base_executable, "-m", "venv", "--without-pip", str(folder)],  # type: ignore[attr-defined]
        check=True,
        capture_output=True,
    )
    site = folder / f"lib/python{sysconfig.get_python_version()}/site-packages"
    for name in PACKAGES:
        _copy_package(name, site)
    for name in SCRIPTS:
        (entry,) = distribution(name).entry_points.select(group="console_scripts", name=name)
        script = folder / "bin" / name
        line = f"from {entry.module} import {entry.attr} as main"
        script.write_text(f"#!{folder}/bin/python\nimport sys\n{line}\nsys.exit(main())\n")
        script.chmod(0o755)
    shutil.copy2(Path(sys.executable).with_name("ruff"), folder / "bin/ruff")


def _copy_package(name: str, site: Path) -> None:
    """Copy the modules of a distribution without their caches."""
    found = distribution(name)
    roots = {file.parts[0] for file in found.files or () if not file.parts[0].startswith((".", "__pycache__"))}
    for part in roots:
        source = Path(str(found.locate_file(part)))
        if source.is_dir():
            shutil.copytree(source, site / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, site / part)


def write_identity(home: Path) -> None:
    """Give the user a name in git's own settings."""
    (home / ".gitconfig").write_text("[user]\n\tname = Ann Archer\n\temail = ann@example.org\n")


def build_wheel(folder: Path, name: str) -> Path:
    """Build a package that has one function."""
    about = f"{name}-1.0.dist-info"
    files = {
        f"{name}/__init__.py": "def answer():\n    return 42\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{path},sha256={_hash(text)},{len(text)}" for path, text in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*rows, f"{about}/RECORD,,", ""])
    made = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return made


def _hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@contextmanager
def package_index(folder: Path, name: str) -> Iterator[str]:
    """Serve an index with one package on 127.0.0.1; gives its address."""
    place = folder / "simple" / name
    place.mkdir(parents=True)
    wheel = build_wheel(place, name)
    (place / "index.html").write_text(
        f'<!DOCTYPE html><html><body><a href="{wheel.name}">{wheel.name}</a></body></html>'
    )

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: object, **how: object) -> None:
            super().__init__(*args, directory=str(folder), **how)  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
