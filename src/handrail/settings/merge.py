"""How layers meet: later beats earlier, lists that protect add up, and an untrusted project only narrows. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from handrail.policy.patterns import protects
from handrail.settings.layers import Layer, Origin
from handrail.settings.model import BY_NAME, Key, Meets, RuleEntry

PROTECTED = "workspace.protected"
_KNOWN = "redaction.known"  # hides more, so that it adds up over the layers that count
Groups = tuple[tuple[str, ...], ...]


class Met(NamedTuple):
    """What came of an untrusted value: the value in force, and what was not taken, if anything."""

    value: Any
    refused: str = ""


class Merged:
    """The values in force, each with its origin."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.origins = dict.fromkeys(values, Origin("default"))
        self.rules: list[RuleEntry] = []
        self.warnings: list[str] = []
        self.protected: Groups = (tuple(values.get(PROTECTED, ())),)
        self.origins |= {f"{PROTECTED}.{item}": Origin("default") for item in self.protected[0]}

    def take(self, layer: Layer) -> None:
        """Lay one layer over those before it."""
        for name, value in layer.values.items():
            if BY_NAME[name].meets is Meets.LONGER or (name == _KNOWN and layer.trusted):
                self._add(name, value, layer)
            elif layer.trusted:
                self._replace(name, value, layer)
            else:
                self._narrow(BY_NAME[name], value, layer)
        for rule, origin in layer.rules:
            if not layer.trusted and rule.effect == "allow":
                self._warn("rules", "allows something", origin, layer)
                continue
            number = len(self.rules) + 1
            self.rules.append(
                RuleEntry.model_construct(
                    **dict(rule), id=f"rules.{number}", where=origin.where, narrows=not layer.trusted
                )
            )

    def _add(self, name: str, value: Sequence[str], layer: Layer) -> None:
        """Lengthen a list that protects: no layer shortens what another one put in."""
        before = self.values[name]
        if name == PROTECTED:
            self._warn_of_kept(value, layer)
            self.protected = _grouped(self.protected, value)
            longer = tuple(item for group in self.protected for item in group)
        else:
            longer = _longer(before, value).value
        for item in value:
            known = self.origins.get(f"{name}.{item}")
            if known is None or known.layer == "default":
                self.origins[f"{name}.{item}"] = layer.origin(name)
        if longer != before:
            self._replace(name, longer, layer)

    def _warn_of_kept(self, value: Sequence[str], layer: Layer) -> None:
        """Warn of each `!name` that names what another layer protects."""
        names = [item for item in value if item.startswith("!")]
        for item in names:
            found = [protects(group, item[1:].strip("/")) for group in self.protected]
            for pattern in (pattern for pattern in found if pattern is not None):
                self.warnings.append(
                    f"{layer.origin(PROTECTED).where}: `{PROTECTED}` has {item!r}, which takes out only what the same "
                    f"list put in; {pattern!r} ({self._place_of(pattern)}) still protects it. To open it, add a rule "
                    'with `effect = "allow"` for it, or remove the pattern there.'
                )

    def _place_of(self, pattern: str) -> str:
        """Say where a protected pattern was written: a file and line, or the defaults."""
        return self.origins.get(f"{PROTECTED}.{pattern}", Origin("default")).where

    def _replace(self, name: str, value: Any, layer: Layer) -> None:
        if isinstance(value, dict):
            self.values[name] = {**self.values[name], **value}
            self.origins |= {f"{name}.{item}": layer.origin(name, item) for item in value}
        else:
            self.values[name] = value
        self.origins[name] = layer.origin(name)

    def _narrow(self, key: Key, value: Any, layer: Layer) -> None:
        base = self.values[key.name]
        met = met_untrusted(key, base, value)
        if met.refused:
            self._warn(key.name, met.refused, layer.origin(key.name), layer)
        if isinstance(base, dict):
            met = Met({item: number for item, number in met.value.items() if base.get(item) != number})
        if met.value not in (base, {}):
            self._replace(key.name, met.value, layer)

    def _warn(self, name: str, what: str, origin: Origin, layer: Layer) -> None:
        why = "changed since it was trusted" if layer.changed else "is not trusted"
        self.warnings.append(
            f"{origin.where}: `{name}` {what}, which is ignored because {origin.file} {why}; "
            "review the file, then run `handrail config trust`"
        )


def met_untrusted(key: Key, base: Any, value: Any) -> Met:
    """Let a value of an untrusted project meet the value below it."""
    if value == base:
        return Met(base)
    if key.meets is Meets.SHORTER:
        return _shorter(key.name, base, value)
    if key.meets is Meets.LONGER:
        return _longer(base, value)
    if key.meets is Meets.LOWER and isinstance(value, dict):
        return _lower_each(base, value)
    if key.meets is Meets.LOWER:
        return _lower(base, value, unbounded=key.unbounded)
    if key.meets is Meets.HIGHER:
        return Met(value) if value > base else Met(base, f"lowers {_amount(base)} to {_amount(value)}")
    if key.meets is Meets.STRICTER:
        stricter = key.order.index(value) > key.order.index(base)
        return Met(value) if stricter else Met(base, f"loosens {_word(base)} to {_word(value)}")
    return Met(base, "is for a trusted file to set")


def _shorter(name: str, base: Sequence[str], value: Sequence[str]) -> Met:
    kept = tuple(item for item in value if any(_within(name, item, wider) for wider in base))
    added = [item for item in value if item not in kept]
    return Met(kept, f"adds {_listed(added)}" if added else "")


def _longer(base: Sequence[str], value: Sequence[str]) -> Met:
    return Met(tuple(dict.fromkeys([*base, *value])))


def _grouped(groups: Groups, value: Sequence[str]) -> Groups:
    """Add one layer's protected names: `!name` counts within its group only, so that a layer with one has its own."""
    known = next((group for group in groups if tuple(value[: len(group)]) == group), ())
    more = tuple(value[len(known) :])
    if any(item.startswith("!") for item in more):
        return (*groups, tuple(value))
    # Names at the end of a group are out of reach of every `!` before them.
    reopened = any(item.startswith("!") for group in groups for item in group)
    added = tuple(item for item in more if reopened or not any(item in group for group in groups))
    return (*groups[:-1], (*groups[-1], *added))


def _lower(base: float, value: float, *, unbounded: bool) -> Met:
    bound = float("inf")
    now, wanted = (bound if unbounded and number == 0 else number for number in (base, value))
    return Met(value) if wanted < now else Met(base, f"raises {_amount(base)} to {_amount(value, unbounded)}")


def _amount(value: float, unbounded: bool = False) -> str:
    return "no bound" if unbounded and value == 0 else f"{value:.15g}"


def _lower_each(base: Mapping[str, float], value: Mapping[str, float]) -> Met:
    lower = {name: number for name, number in value.items() if number <= base.get(name, number)}
    raised = [name for name in value if name not in lower]
    return Met({**base, **lower}, f"raises {_listed(raised)}" if raised else "")


def _within(name: str, item: str, wider: str) -> bool:
    """Whether an entry lets in no more than a wider one does."""
    if name == "http.allowed_hosts":
        return _host_within(item.lower(), wider.lower())
    return item == wider


def _host_within(item: str, wider: str) -> bool:
    name, port = _host_port(item)
    wider_name, wider_port = _host_port(wider)
    if wider_port not in ("*", port) and not (wider_port == "" and port in ("80", "443")):
        return False
    return wider_name in ("*", name) or (wider_name.startswith("*.") and name.endswith(wider_name[1:]))


def _host_port(text: str) -> tuple[str, str]:
    name, mark, port = text.rpartition(":")
    return (name, port) if mark and not text.endswith("]") else (text, "")


def _listed(items: Sequence[str]) -> str:
    return ", ".join(repr(item) for item in items)


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
