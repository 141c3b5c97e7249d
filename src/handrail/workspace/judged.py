"""Whether a folder that is taken away still holds nothing but what was judged."""

from __future__ import annotations

import os

from handrail.errors import Problem
from handrail.words import Place
from handrail.workspace.beneath import FOLDER
from handrail.workspace.standing import stale


def check_judged(place: Place, judged: frozenset[str]) -> None:
    """Refuse what stands below a folder and was not there, or not seen, when the call was judged."""
    if place.path not in judged:
        raise unjudged(place)


def unjudged(place: Place) -> Problem:
    """What appeared since a call was judged."""
    return stale(place, "it was not there when this call was judged")


def first_unjudged(folder: int, path: str, judged: frozenset[str]) -> str | None:
    """The first path in an open folder, or below it, that is not among those that were judged.

    Only folders that were judged are entered, so there is no more to look at than what was judged. What cannot be
    entered counts as not judged.
    """
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in found:
        inner = f"{path}/{name}"
        if inner not in judged:
            return inner
        if is_folder and (deeper := _inside(folder, name, inner, judged)) is not None:
            return deeper
    return None


def _inside(folder: int, name: str, path: str, judged: frozenset[str]) -> str | None:
    try:
        below = os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return path
    try:
        return first_unjudged(below, path, judged)
    finally:
        os.close(below)
