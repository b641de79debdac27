"""What a rule did and why, whichever tool it was written with."""

from __future__ import annotations

from netlab.model.records import TraceRecord
from netlab.model.rulebook import ElementEntry, RuleEntry
from netlab.model.text import Text
from netlab.model.walk import Changed
from netlab.packets import iptables_reasons, ipvs_reasons, nftables_reasons
from netlab.packets.headers import Packet


def translated_part(rule: RuleEntry) -> Changed | None:
    """Which address a rule rewrites, if it is one that does."""
    return nftables_reasons.translated_part(rule) if rule.native else iptables_reasons.translated_part(rule)


def promised_destination(rule: RuleEntry) -> str | None:
    """Where a rule that rewrites destinations leads, if its text leaves no choice."""
    promised = nftables_reasons.promised_destination if rule.native else iptables_reasons.promised_destination
    return promised(rule.text)


def action_of(rule: RuleEntry, record: TraceRecord) -> str:
    """A short word for what the rule did: its verdict, or its target where that is no verdict."""
    if record.verdict in ("jump", "goto"):
        return verdict_words(record)
    return nftables_reasons.action_of(rule, record) if rule.native else iptables_reasons.action_of(rule, record)


def verdict_words(record: TraceRecord) -> str:
    """The verdict with the chain that it leads to."""
    return f"{record.verdict} {record.target}" if record.target else record.verdict


def explain_translation(rule: RuleEntry, part: Changed, old: str, new: str | None, interface: str | None) -> Text:
    """What a rule did that made ``new`` of ``old`` (None: not observed), the packet leaving by ``interface``."""
    explain = nftables_reasons.explain_translation if rule.native else iptables_reasons.explain_translation
    return explain(rule, part, old, new, interface)


def explain_rule(
    rule: RuleEntry,
    hook: str,
    packet: Packet,
    element: ElementEntry | None,
    led_by: ElementEntry | None,
    *,
    ipvs: bool = False,
) -> Text | None:
    """Why a rule matched; None where there is nothing to say. ``element`` is what it looked up in a set or map,
    ``led_by`` what led the packet to its chain; ``ipvs``: the node is in ipvs mode."""
    if rule.native:
        return nftables_reasons.explain_rule(rule, hook, packet, element, led_by)
    if ipvs:
        target = iptables_reasons.rule_target(rule.text) or ""
        found = ipvs_reasons.explain_rule(rule, target, hook, element or led_by)
        if found is not None:
            return found
    return iptables_reasons.explain_rule(rule, hook, packet.source)
