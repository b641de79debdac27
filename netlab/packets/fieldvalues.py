"""Values for the fields of scapy's layers, checked before scapy sees them.

scapy takes more than one packet can hold: names that it looks up in the DNS, nets, lists and ranges that stand for
many packets. And what it cannot use it refuses only when it builds the packet, in words of its own.
"""

from __future__ import annotations

from typing import Any

from netlab.model.errors import BadInput
from netlab.model.text import Message, Text
from netlab.objects.ip import parse_ip

BAD_VALUE = Message(
    "packet.bad-value",
    en="--packet: column {column}: {layer}: {field}={value} is not possible: {allowed}",
    zh="--packet：第 {column} 列：{layer}：不能使用 {field}={value}：{allowed}",
)
NEEDS_NUMBER = Message(
    "packet.needs-number", en="a whole number from 0 to {high} is needed", zh="需要 0 到 {high} 的整数"
)
NEEDS_FLAGS = Message(
    "packet.needs-flags",
    en="flags are made of {names}, or are a number from 0 to {high}",
    zh="标志由 {names} 组成，或是 0 到 {high} 的整数",
)
NEEDS_ADDRESS = Message(
    "packet.needs-address",
    en="an IPv{version} address is needed (no name, no network)",
    zh="需要一个 IPv{version} 地址 (不能是名称或网段)",
)
NEEDS_ONE = Message(
    "packet.needs-one",
    en="one value is needed: a list or a range stands for many packets, and one is sent",
    zh="需要单个值：列表或范围代表多个数据包，而这里只发送一个",
)

_SIZES = {"B": 8, "H": 16, "I": 32, "Q": 64}


def check_value(column: int, layer: str, field: Any, value: object) -> None:
    """Raises :class:`BadInput` for a value that no packet can have in the field; ``column`` is where it stands."""
    while hasattr(field, "fld"):
        field = field.fld
    wanted = _what_is_wrong(field, value)
    if wanted is not None:
        shown = ascii(value) if len(ascii(value)) <= 40 else f"{ascii(value)[:40]}…"
        raise BadInput(BAD_VALUE(column=column, layer=layer, field=field.name, value=shown, allowed=wanted))


def _what_is_wrong(field: Any, value: object) -> Text | None:
    """What is needed instead; None where the value will do."""
    from scapy.fields import FlagsField, IP6Field, IPField

    if getattr(field, "islist", False):
        return None
    if isinstance(value, list | tuple):
        return NEEDS_ONE()
    for kind, version in ((IPField, 4), (IP6Field, 6)):
        if isinstance(field, kind):
            address = parse_ip(value) if isinstance(value, str) else None
            return NEEDS_ADDRESS(version=version) if address is None or address.version != version else None
    bits = _bits(field)
    if bits is None:
        return None
    high = (1 << bits) - 1
    if isinstance(value, int):
        right = 0 <= value <= high
    elif isinstance(value, str):
        right = _is_known_name(field, value)
    else:
        right = False
    if right:
        return None
    if isinstance(field, FlagsField):
        return NEEDS_FLAGS(names=field.names if isinstance(field.names, str) else "+".join(field.names), high=high)
    return NEEDS_NUMBER(high=high)


def _bits(field: Any) -> int | None:
    """How long a field for an unsigned number is; None for other fields."""
    from scapy.fields import BitField, Field, FlagsField, ScalingField

    if isinstance(field, BitField | FlagsField):
        return abs(int(field.size)) or None
    is_number = isinstance(field, Field) and (field.default is None or isinstance(field.default, int))
    if not is_number or isinstance(field, ScalingField) or field.holds_packets:
        return None
    return _SIZES.get(field.fmt[-1]) if len(field.fmt.lstrip("!<>=@")) == 1 else None


def _is_known_name(field: Any, value: str) -> bool:
    from scapy.fields import EnumField, FlagsField, MultiEnumField

    if isinstance(field, FlagsField):
        parts = set(value) if isinstance(field.names, str) else set(value.split("+")) - {""}
        return parts <= set(field.names)
    if not isinstance(field, EnumField):
        return False
    try:
        # Which names a MultiEnumField has depends on the layer's other fields.
        return isinstance(field, MultiEnumField) or isinstance(field.any2i(None, value), int)
    except Exception:
        return False
