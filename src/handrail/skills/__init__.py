"""Skills: folders with SKILL.md, read as data that nobody vouches for.

header    what SKILL.md says of itself: strict where it matters, lenient where people write it differently
dialects  the names that `allowed-tools` may hold, as ours
folder    one skill's folder: its files and digest, nothing beyond it
sources   the folders of skills there are
finding   all skills of a workspace and its user, and their ids
run       the skills of a run: which one is active, on record in the journal
"""
