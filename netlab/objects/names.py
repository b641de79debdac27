"""What Kubernetes takes as a name, a label or a port, and its words for what it does not take.

Every function gives the API server's sentences, in its order; none means that the value is fine.

Source: k8s.io/apimachinery/pkg/api/validate/content (dns.go, kube.go), pkg/util/validation/validation.go,
pkg/api/validation/generic.go.
"""

from __future__ import annotations

import re

LABEL_MAX = 63
SUBDOMAIN_MAX = 253
PORT_NAME_MAX = 15
PORT_MAX = 65535
PORT_NUMBER_WORDS = f"must be between 1 and {PORT_MAX}, inclusive"

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_WITH_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_WITH_UNDERSCORE = rf"{_LABEL_WITH_UNDERSCORE}(\.{_LABEL_WITH_UNDERSCORE})*"
_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_NAME_PART})?"

_LABEL_PATTERN = re.compile(_LABEL)
_SUBDOMAIN_PATTERN = re.compile(_SUBDOMAIN)
_SUBDOMAIN_WITH_UNDERSCORE_PATTERN = re.compile(_SUBDOMAIN_WITH_UNDERSCORE)
_NAME_PART_PATTERN = re.compile(_NAME_PART)
_LABEL_VALUE_PATTERN = re.compile(_LABEL_VALUE)
_PORT_NAME_PATTERN = re.compile("[-a-z0-9]+")
_LETTER = re.compile("[a-z]")

_ENDS = "and must start and end with an alphanumeric character"
_LABEL_WORDS = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}"
_SUBDOMAIN_WORDS = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
)
_SUBDOMAIN_WITH_UNDERSCORE_WORDS = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', {_ENDS}"
)
_NAME_PART_WORDS = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
_LABEL_VALUE_WORDS = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"
)


def dns1123_label_faults(name: str) -> list[str]:
    """RFC 1123 label: names of Services, namespaces, containers and Service ports, hostnames of Pods."""
    faults = _length_faults(name, LABEL_MAX)
    if not _LABEL_PATTERN.fullmatch(name):
        if _SUBDOMAIN_PATTERN.fullmatch(name):
            faults.append("must not contain dots")
        else:
            faults.append(_pattern_words(_LABEL_WORDS, _LABEL, "my-name", "123-abc"))
    return faults


def dns1123_subdomain_faults(name: str) -> list[str]:
    """RFC 1123 subdomain: names of most objects, externalName."""
    faults = _length_faults(name, SUBDOMAIN_MAX)
    if not _SUBDOMAIN_PATTERN.fullmatch(name):
        faults.append(_pattern_words(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return faults


def dns1123_label_fault(name: str) -> str | None:
    """The first thing wrong with a label."""
    return next(iter(dns1123_label_faults(name)), None)


def dns1123_subdomain_fault(name: str) -> str | None:
    """The first thing wrong with a subdomain."""
    return next(iter(dns1123_subdomain_faults(name)), None)


def search_domain_faults(name: str) -> list[str]:
    """A subdomain that may have underscores: search domains of dnsConfig (KEP-4427)."""
    faults = _length_faults(name, SUBDOMAIN_MAX)
    if not _SUBDOMAIN_WITH_UNDERSCORE_PATTERN.fullmatch(name):
        words = _SUBDOMAIN_WITH_UNDERSCORE_WORDS
        faults.append(_pattern_words(words, _SUBDOMAIN_WITH_UNDERSCORE, "example.com"))
    return faults


def qualified_name_faults(name: str) -> list[str]:
    """A name with an optional "prefix/": keys of labels and annotations, finalizers, appProtocol, loadBalancerClass."""
    prefix, slash, part = name.rpartition("/")
    if "/" in prefix:
        words = _pattern_words(_NAME_PART_WORDS, _NAME_PART, "MyName", "my.name", "123-abc")
        return [f"a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    faults = []
    if slash:
        faults = (
            [f"prefix part {fault}" for fault in dns1123_subdomain_faults(prefix)]
            if prefix
            else [_empty("prefix part")]
        )
    if not part:
        faults.append(_empty("name part"))
    faults += [f"name part {fault}" for fault in _length_faults(part, LABEL_MAX)]
    if not _NAME_PART_PATTERN.fullmatch(part):
        words = _pattern_words(_NAME_PART_WORDS, _NAME_PART, "MyName", "my.name", "123-abc")
        faults.append(f"name part {words}")
    return faults


def label_value_faults(value: str) -> list[str]:
    """The value of a label, of a taint and of a zone hint."""
    faults = _length_faults(value, LABEL_MAX)
    if not _LABEL_VALUE_PATTERN.fullmatch(value):
        faults.append(_pattern_words(_LABEL_VALUE_WORDS, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return faults


def port_name_faults(name: str) -> list[str]:
    """The name of a container's port, also as a targetPort (RFC 6335)."""
    faults = _length_faults(name, PORT_NAME_MAX)
    if not _PORT_NAME_PATTERN.fullmatch(name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _LETTER.search(name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def port_number_faults(port: int) -> list[str]:
    return [] if 1 <= port <= PORT_MAX else [PORT_NUMBER_WORDS]


def generated_prefix(prefix: str) -> str:
    """A generateName as its rule sees it: a hyphen at the end is fine, for more will follow."""
    return f"{prefix[:-1]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def _length_faults(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []


def _empty(what: str) -> str:
    return f"{what} must be non-empty"


def _pattern_words(words: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {shown}regex used for validation is '{pattern}')"
