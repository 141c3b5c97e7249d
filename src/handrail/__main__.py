"""`python -m handrail`: the command line where its script is not on the path."""

from handrail.front.cli import main

if __name__ == "__main__":
    main()
