"""Why a rule of kube-proxy's nftables mode (or of others, written with nft) did what it did.

A rule that looks a packet up in a verdict map is nobody's alone: its cause is that of the element that it found.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from netlab.model.records import TraceRecord
from netlab.model.rulebook import ElementEntry, RuleEntry
from netlab.model.text import Text
from netlab.model.walk import Changed, host_of
from netlab.packets import reasons
from netlab.packets.headers import PROTOCOL_NAMES, Packet

TABLE = "kube-proxy"

_PART = r"(?:ip6? [sd]addr|meta l4proto|th [sd]port)"
_LOOKUP = re.compile(rf"({_PART}(?: \. {_PART})*) (vmap )?@(\S+)")
_FIELDS: dict[str, Callable[[Packet], str | None]] = {
    "ip saddr": lambda packet: packet.source,
    "ip daddr": lambda packet: packet.destination,
    "ip6 saddr": lambda packet: packet.source,
    "ip6 daddr": lambda packet: packet.destination,
    "meta l4proto": lambda packet: PROTOCOL_NAMES.get(packet.protocol),
    "th sport": lambda packet: _port(packet.source_port),
    "th dport": lambda packet: _port(packet.destination_port),
}
_TRANSLATING: tuple[tuple[str, Changed], ...] = (
    (r"\b(?:dnat|redirect)\b", "destination"),
    (r"\b(?:snat|masquerade)\b", "source"),
)
_MARK = re.compile(r"meta mark set (?:meta mark \| )?(0x[0-9a-f]+)")
_CHOICE = re.compile(r"\bnumgen (?:random|inc) mod (\d+)")
_MATCH_STATUS = re.compile(r"ct status \S+ ")
_NOT_LOCAL = re.compile(r"(?:ip6? saddr|iifname) != (\S+) meta mark set")


def _port(number: int | None) -> str | None:
    return str(number) if number is not None else None


def looked_up(rule: RuleEntry, packet: Packet, find: Callable[[str, str], ElementEntry | None]) -> ElementEntry | None:
    """The element that a rule found for a packet: that of its verdict map, else that of its last set.

    ``find(container, key)`` knows the elements.
    """
    found: ElementEntry | None = None
    for match in _LOOKUP.finditer(rule.text):
        values = [_FIELDS[part](packet) for part in match.group(1).split(" . ")]
        if any(value is None for value in values):
            continue
        element = find(match.group(3), " . ".join(value for value in values if value is not None))
        if element is not None and (match.group(2) or found is None or not found.value):
            found = element
    return found


def translated_part(rule: RuleEntry) -> Changed | None:
    """Which address a rule rewrites, if it is one that does."""
    statement = _MATCH_STATUS.sub("", rule.text)
    return next((part for pattern, part in _TRANSLATING if re.search(pattern, statement)), None)


def promised_destination(text: str) -> str | None:
    """Where a DNAT rule leads, if its text leaves no choice."""
    match = re.search(r"\bdnat to (\S+)$", text)
    return match.group(1) if match and "-" not in match.group(1) else None


def choice_of(rule: RuleEntry, new: str) -> int | None:
    """Which of a rule's choices (from 0) leads to the address "A:P"."""
    host, _, port = new.rpartition(":")
    match = re.search(rf"(\d+) : {re.escape(host.strip('[]'))} \. {port}\b", rule.text)
    return int(match.group(1)) if match else None


def action_of(rule: RuleEntry, record: TraceRecord) -> str:
    """A short word for what the rule did: its verdict, or its statement where that is none."""
    if re.search(r"\breject\b", rule.text) and record.verdict == "drop":
        return "reject"
    mark = _MARK.search(rule.text)
    return f"mark {int(mark.group(1), 16):#x}" if mark and record.verdict == "continue" else record.verdict


def explain_translation(rule: RuleEntry, part: Changed, old: str, new: str | None, interface: str | None) -> Text:
    """What a rule did that made ``new`` of ``old`` (None: not observed), the packet leaving by ``interface``."""
    if new is None:
        return reasons.TRANSLATES()
    if part == "destination":
        if rule.table != TABLE:
            return (reasons.REDIRECTED if "redirect" in rule.text else reasons.USER_DNAT)(old=old, new=new)
        choice = _CHOICE.search(rule.text)
        if choice is None or choice.group(1) == "1":
            return reasons.DNAT(old=old, new=new)
        return reasons.PICKED_AND_TRANSLATED(count=choice.group(1), chance=f"1/{choice.group(1)}", old=old, new=new)
    if "masquerade" not in rule.text:
        return reasons.USER_SNAT(new=new)
    if "@hairpin-connections" in rule.text:
        return reasons.HAIRPIN_MASQUERADED(new=host_of(new))
    if host_of(new) == host_of(old):
        return reasons.MASQUERADE_UNCHANGED()
    return reasons.MASQUERADE(new=host_of(new), interface=interface or "?")


def explain_rule(
    rule: RuleEntry, hook: str, packet: Packet, element: ElementEntry | None, led_by: ElementEntry | None
) -> Text | None:
    """Why kube-proxy's rule matched; None for rules that are not kube-proxy's or only lead on.

    ``element`` is what the rule looked up, ``led_by`` what led the packet to the rule's chain.
    """
    if rule.table != TABLE:
        return _explain_stranger(rule)
    kind = rule.chain.partition("-")[0]
    if rule.text == "jump services":
        return reasons.TO_SERVICES() if hook == "PREROUTING" else reasons.TO_SERVICES_LOCAL()
    if rule.chain == "services":
        return _explain_dispatch(rule, packet, element)
    if rule.chain in ("firewall-check", "service-endpoints-check", "nodeport-endpoints-check"):
        return _explain_check(rule, element)
    if rule.chain == "reject-chain":
        return reasons.REJECTED_NO_ENDPOINTS(service=_service(led_by), answer=port_unreachable(packet))
    if rule.chain == "cluster-ips-check":
        refused = rule.text.endswith("reject")
        return reasons.REJECTED_WRONG_PORT(answer=port_unreachable(packet)) if refused else reasons.DROPPED_NO_SERVICE()
    if kind == "external":
        return _explain_external(rule)
    if kind == "firewall":
        return reasons.DROPPED_FIREWALL(service=_service(led_by))
    if kind in ("service", "local"):
        return _explain_choice(rule)
    return reasons.REMEMBERED() if rule.text.startswith("update @") else None


def _explain_stranger(rule: RuleEntry) -> Text | None:
    if re.search(r"\breject\b", rule.text):
        return reasons.REJECTED_BY_RULE()
    return reasons.DROPPED_BY_RULE() if re.search(r"\bdrop\b", rule.text) else None


def _service(element: ElementEntry | None) -> str:
    return element.origin.object if element is not None and element.origin is not None else "?"


def port_unreachable(packet: Packet) -> str:
    """What a packet is refused with unless a rule says otherwise, as nft and IPVS have it."""
    return "icmp-port-unreachable" if packet.family == 4 else "icmpv6-port-unreachable"


def _explain_dispatch(rule: RuleEntry, packet: Packet, element: ElementEntry | None) -> Text | None:
    if "meta mark set" in rule.text:
        match = _NOT_LOCAL.search(rule.text)
        if match is None:
            return reasons.MASQ_ALL()
        field = rule.origin.field if rule.origin is not None else "detectLocalMode"
        local = match.group(1).strip('"')
        if "iifname" in match.group(0):
            return reasons.MASQ_NOT_BY_INTERFACE(interface=local, field=field)
        return reasons.MASQ_NOT_LOCAL(source=packet.source, local=local, field=field)
    if element is None or element.origin is None:
        return None
    if "@service-nodeports" in rule.text:
        return reasons.NODE_PORT(port=packet.destination_port or "?", service=_service(element))
    for words, message in (
        ("clusterIP", reasons.CLUSTER_IP),
        ("externalIPs", reasons.EXTERNAL_IP),
        ("loadBalancer", reasons.LOAD_BALANCER_IP),
    ):
        if words in element.origin.field:
            return message(service=_service(element))
    return None


def _explain_check(rule: RuleEntry, element: ElementEntry | None) -> Text | None:
    if element is None:
        return None
    if rule.chain == "firewall-check":
        return reasons.TO_FIREWALL(service=_service(element))
    if element.value == "drop":
        return reasons.DROPPED_NO_LOCAL(service=_service(element))
    return reasons.TO_REJECT(service=_service(element))


def _explain_external(rule: RuleEntry) -> Text | None:
    if rule.text.startswith("meta mark set"):
        return reasons.MASQ_EXTERNAL()
    if "meta mark set" in rule.text:
        return reasons.MASQ_LOCAL_SOURCE()
    if not rule.text.startswith("goto "):
        return reasons.SHORT_CIRCUIT()
    local = rule.text.startswith("goto local-")
    return reasons.POLICY_CHAIN(which=reasons.POLICY_LOCAL() if local else reasons.POLICY_ALL())


def _explain_choice(rule: RuleEntry) -> Text | None:
    if "@affinity-" in rule.text:
        return reasons.STICKY()
    choice = _CHOICE.search(rule.text)
    if choice is None:
        return None
    count = choice.group(1)
    return reasons.ONLY_ENDPOINT() if count == "1" else reasons.PICKED(count=count, chance=f"1/{count}")
