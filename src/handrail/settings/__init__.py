"""Layered settings: each value remembers where it came from, and an untrusted project only narrows.

model    every setting: type, default, meaning, how layers meet
layers   files, environment, flags and mappings as checked values with their places
merge    laying one layer over another
trust    which project files a person has reviewed
lint     what is taken, but probably not meant
"""

from __future__ import annotations

from handrail.settings.layers import Origin
from handrail.settings.loading import Loaded, ReadFile, fix, load
from handrail.settings.model import Key, Meets, RuleEntry, Settings, keys, rule_keys
from handrail.settings.paths import cache_dir, config_dir, runs_dir, state_dir, user_file
from handrail.settings.presets import PRESETS, preset, preset_text, write_new
from handrail.settings.trust import TrustStore, trust_store

__all__ = [
    "PRESETS",
    "Key",
    "Loaded",
    "Meets",
    "Origin",
    "ReadFile",
    "RuleEntry",
    "Settings",
    "TrustStore",
    "cache_dir",
    "config_dir",
    "fix",
    "keys",
    "load",
    "preset",
    "preset_text",
    "rule_keys",
    "runs_dir",
    "state_dir",
    "trust_store",
    "user_file",
    "write_new",
]
