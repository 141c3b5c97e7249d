"""The code index of a workspace: parts of files by their words, in the user's cache folder."""
