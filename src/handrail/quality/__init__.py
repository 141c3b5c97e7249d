"""Linters: which program checks which file, how it is run, and what earlier looks found."""
