"""Why a rule of kube-proxy's iptables mode (or of ipvs mode, or of others, written with iptables) did what it did."""

from __future__ import annotations

import re

from netlab.model.records import TraceRecord
from netlab.model.rulebook import RuleEntry
from netlab.model.text import Text
from netlab.model.walk import Changed, host_of
from netlab.packets import reasons

_TARGET = re.compile(r"(?:^| )-[jg] (\S+)")
_COMMENT = re.compile(r'--comment (?:"((?:[^"\\]|\\.)*)"|(\S+))')
_SERVICE_COMMENT = re.compile(r"^(\S+/\S+?)(?: .*)?$")


def rule_target(text: str) -> str | None:
    """What follows -j or -g in a rule."""
    match = _TARGET.search(_COMMENT.sub("", text))
    return match.group(1) if match else None


_TRANSLATING: dict[str, Changed] = {
    "DNAT": "destination",
    "REDIRECT": "destination",
    "SNAT": "source",
    "MASQUERADE": "source",
}


def translated_part(rule: RuleEntry) -> Changed | None:
    """Which address a rule rewrites, if it is one that does."""
    return _TRANSLATING.get(rule_target(rule.text) or "")


def promised_destination(text: str) -> str | None:
    """Where a DNAT rule leads, if its text leaves no choice."""
    match = re.search(r"--to-destination (\S+)(?: |$)(?!.*--random)", text)
    if match is None or "-" in match.group(1):
        return None
    return match.group(1)


def mark_of(text: str) -> str:
    """What a MARK rule sets."""
    match = re.search(r"--set-x?mark (\S+)", text)
    return match.group(1) if match else "?"


def action_of(rule: RuleEntry, record: TraceRecord) -> str:
    """A short word for what the rule did: its verdict, or its target where that is no verdict."""
    target = rule_target(rule.text)
    if target == "REJECT":
        return "reject"
    return f"mark {mark_of(rule.text)}" if target == "MARK" else record.verdict


def explain_translation(rule: RuleEntry, part: Changed, old: str, new: str | None, interface: str | None) -> Text:
    """What a rule did that made ``new`` of ``old`` (None: not observed), the packet leaving by ``interface``."""
    target = rule_target(rule.text)
    if new is None:
        return reasons.TRANSLATES()
    if part == "destination":
        if target == "REDIRECT":
            return reasons.REDIRECTED(old=old, new=new)
        return (
            reasons.DNAT(old=old, new=new)
            if rule.chain.startswith("KUBE-SEP-")
            else reasons.USER_DNAT(old=old, new=new)
        )
    if target == "SNAT":
        return reasons.USER_SNAT(new=new)
    if "--match-set KUBE-LOOP-BACK" in rule.text or "--match-set KUBE-6-LOOP-BACK" in rule.text:
        return reasons.HAIRPIN_MASQUERADED(new=host_of(new))
    if host_of(new) == host_of(old):
        return reasons.MASQUERADE_UNCHANGED()
    return reasons.MASQUERADE(new=host_of(new), interface=interface or "?")


def service_of_rule(rule: RuleEntry) -> str:
    """The Service that a rule is about: from its cause, else from its comment, else the chain's name."""
    if rule.origin is not None and rule.origin.object.startswith("Service "):
        return rule.origin.object
    match = _COMMENT.search(rule.text)
    if match and (name := _SERVICE_COMMENT.match(match.group(1) or match.group(2))):
        return f"Service {name.group(1).partition(':')[0]}"
    return rule.chain


def explain_rule(rule: RuleEntry, hook: str, source: str) -> Text | None:
    """Why kube-proxy's rule matched a packet from ``source``; None for rules that are not kube-proxy's.

    Rules that change addresses are explained where the change is known (see :func:`explain_translation`).
    """
    target = rule_target(rule.text) or ""
    chain = rule.chain
    if target in ("DROP", "REJECT"):
        return _explain_refusal(rule, target)
    if target == "KUBE-SERVICES" and rule.table == "nat":
        return reasons.TO_SERVICES() if hook == "PREROUTING" else reasons.TO_SERVICES_LOCAL()
    if target == "KUBE-NODEPORTS" and rule.table == "nat":
        return reasons.TO_NODEPORTS()
    if chain == "KUBE-SERVICES":
        return _explain_dispatch(rule)
    if chain == "KUBE-NODEPORTS" and rule.table == "nat":
        match = re.search(r"--dport (\d+)", rule.text)
        return reasons.NODE_PORT(port=match.group(1) if match else "?", service=service_of_rule(rule))
    if target == "KUBE-MARK-MASQ":
        return _explain_mark(rule, source)
    if chain == "KUBE-MARK-MASQ":
        return reasons.SETS_MARK(mark=mark_of(rule.text).partition("/")[0])
    if chain.startswith("KUBE-FW-") and target:
        return reasons.SOURCE_ALLOWED()
    if chain.startswith("KUBE-EXT-"):
        if "--src-type LOCAL" in rule.text or " -s " in f" {rule.text}" or " -i " in f" {rule.text}":
            return reasons.SHORT_CIRCUIT()
        return reasons.POLICY_CHAIN(
            which=reasons.POLICY_LOCAL() if target.startswith("KUBE-SVL-") else reasons.POLICY_ALL()
        )
    if target.startswith("KUBE-SEP-"):
        return _explain_choice(rule)
    if chain == "KUBE-POSTROUTING":
        return reasons.NOT_MARKED() if target == "RETURN" else reasons.CLEARS_MARK() if target == "MARK" else None
    if chain == "KUBE-FORWARD":
        return reasons.FORWARD_MARKED() if "-m mark" in rule.text else reasons.FORWARD_ESTABLISHED()
    return None


def _explain_dispatch(rule: RuleEntry) -> Text | None:
    service = service_of_rule(rule)
    for words, message in (
        ("cluster IP", reasons.CLUSTER_IP),
        ("external IP", reasons.EXTERNAL_IP),
        ("loadbalancer IP", reasons.LOAD_BALANCER_IP),
    ):
        if words in rule.text:
            return message(service=service)
    return None


def _explain_mark(rule: RuleEntry, source: str) -> Text | None:
    if rule.chain.startswith("KUBE-SEP-"):
        return reasons.MASQ_HAIRPIN()
    if rule.chain.startswith("KUBE-EXT-"):
        return reasons.MASQ_LOCAL_SOURCE() if "--src-type LOCAL" in rule.text else reasons.MASQ_EXTERNAL()
    match = re.match(r"! -s (\S+)|.*! -i (\S+)", rule.text)
    if match is None:
        return reasons.MASQ_ALL()
    field = rule.origin.field if rule.origin is not None else "detectLocalMode"
    if match.group(1) is None:
        return reasons.MASQ_NOT_BY_INTERFACE(interface=match.group(2), field=field)
    return reasons.MASQ_NOT_LOCAL(source=source, local=match.group(1), field=field)


def _explain_choice(rule: RuleEntry) -> Text:
    if "-m recent" in rule.text:
        return reasons.STICKY()
    return (
        reasons.ONLY_ENDPOINT() if rule.choices <= 1 else reasons.PICKED(count=rule.choices, chance=f"1/{rule.choices}")
    )


def _explain_refusal(rule: RuleEntry, target: str) -> Text:
    if "has no endpoints" in rule.text:
        match = re.search(r"--reject-with (\S+)", rule.text)
        return reasons.REJECTED_NO_ENDPOINTS(service=service_of_rule(rule), answer=match.group(1) if match else "RST")
    if "has no local endpoints" in rule.text:
        return reasons.DROPPED_NO_LOCAL(service=service_of_rule(rule))
    if rule.chain == "KUBE-PROXY-FIREWALL":
        return reasons.DROPPED_FIREWALL(service=service_of_rule(rule))
    if rule.chain == "KUBE-FIREWALL":
        return reasons.DROPPED_LOCALNET()
    if "--ctstate INVALID" in rule.text:
        return reasons.DROPPED_INVALID()
    return reasons.DROPPED_BY_RULE() if target == "DROP" else reasons.REJECTED_BY_RULE()
