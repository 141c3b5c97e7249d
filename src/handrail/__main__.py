"""`python -m handrail`: the command line where its script is not on the path."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and len(sys.path) > 1:
        del sys.path[0]  # the current folder, which is mostly the project that tools write
    from handrail.front.cli import main

    main()
