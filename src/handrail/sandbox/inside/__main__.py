"""The fork server's start: `python -I -S -E <this folder> <control descriptor> <the runtime's process id>`.

With `bubble` instead: the last steps inside bubblewrap.
"""

import os
import sys


def _packages(folder: str) -> None:
    """Make the package's modules importable without running the initialisers of the packages around them."""
    for depth, name in enumerate(("handrail.sandbox.inside", "handrail.sandbox", "handrail")):
        package = type(sys)(name)
        package.__path__ = [os.path.normpath(os.path.join(folder, *[".."] * depth))]
        sys.modules[name] = package


if __name__ == "__main__":
    _packages(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["bubble"]:
        from handrail.sandbox.inside.bubble import inside_bubble

        inside_bubble()
    from handrail.sandbox.inside.server import serve

    serve(int(sys.argv[1]), int(sys.argv[2]))
