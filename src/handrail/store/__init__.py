"""Where a run is kept: its folder, its journal, what was spilled and what undo needs."""
