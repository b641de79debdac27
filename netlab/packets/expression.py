"""Packets as an expression: scapy layers and literal values, parsed and never evaluated.

scapy is imported when the first expression is parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from netlab.model.errors import BadInput
from netlab.model.text import Message
from netlab.packets.fieldvalues import check_value

if TYPE_CHECKING:
    from scapy.packet import Packet as ScapyPacket

LIMIT_CHARACTERS = 10_000
LIMIT_DEPTH = 50

SYNTAX = Message(
    "packet.syntax",
    en='--packet: column {column}: {what}; layers are written as in IP(dst="10.96.0.1")/UDP(dport=53)/"text"',
    zh='--packet：第 {column} 列：{what}；各层的写法如 IP(dst="10.96.0.1")/UDP(dport=53)/"text"',
)
UNKNOWN_LAYER = Message(
    "packet.unknown-layer",
    en="--packet: column {column}: scapy has no layer {name}{hint}",
    zh="--packet：第 {column} 列：scapy 没有名为 {name} 的层{hint}",
)
UNKNOWN_FIELD = Message(
    "packet.unknown-field",
    en="--packet: column {column}: the layer {layer} has no field {name}; it has {known}",
    zh="--packet：第 {column} 列：层 {layer} 没有字段 {name}；它有 {known}",
)
UNUSABLE = Message(
    "packet.unusable",
    en="--packet: the packet cannot be built: {what}",
    zh="--packet：无法构造该数据包：{what}",
)
EMPTY = Message("packet.empty", en="", zh="")
DID_YOU_MEAN = Message("packet.did-you-mean", en=" (did you mean {name}?)", zh=" (您是否想写 {name}？)")


def parse_expression(text: str) -> ScapyPacket:
    """The packet that an expression stands for: layers joined by "/", each a name with literal field values.

    A value may be a number, text, bytes, a list of values, or a layer again; None leaves the field open; a bare text
    or bytes is a payload. Raises :class:`BadInput`. Nothing in the text is executed.
    """
    if len(text) > LIMIT_CHARACTERS:
        raise BadInput(SYNTAX(column=LIMIT_CHARACTERS, what=f"longer than {LIMIT_CHARACTERS} characters"))
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        column = getattr(error, "offset", None) or 1
        raise BadInput(SYNTAX(column=column, what=str(getattr(error, "msg", error)))) from error
    packet = _Builder().value(tree.body, 0)
    if not _is_packet(packet):
        raise BadInput(SYNTAX(column=1, what="a layer is expected"))
    return cast("ScapyPacket", packet)


def _is_packet(value: object) -> bool:
    from scapy.packet import Packet

    return isinstance(value, Packet)


class _Builder:
    """Turns the syntax tree into layers. Only what is listed here has a meaning."""

    def __init__(self) -> None:
        from scapy.packet import Raw

        self.layers = _known_layers()
        self.raw: Callable[..., Any] = Raw

    def value(self, node: ast.expr, depth: int) -> Any:
        if depth > LIMIT_DEPTH:
            raise BadInput(SYNTAX(column=node.col_offset + 1, what="nested too deeply"))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self._joined(node, depth)
        if isinstance(node, ast.Call):
            return self._layer(node, depth)
        if isinstance(node, ast.List | ast.Tuple):
            values = [self.value(each, depth + 1) for each in node.elts]
            return values if isinstance(node, ast.List) else tuple(values)
        if isinstance(node, ast.Name):
            return self._layer(ast.Call(node, [], [], col_offset=node.col_offset, lineno=node.lineno), depth)
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, MemoryError, RecursionError) as error:
            what = f"{ast.unparse(node)[:40]} is no layer and no literal value"
            raise BadInput(SYNTAX(column=node.col_offset + 1, what=what)) from error

    def _joined(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        for side, value in ((node.left, left), (node.right, right)):
            if not _is_packet(value) and not isinstance(value, str | bytes):
                raise BadInput(SYNTAX(column=side.col_offset + 1, what="only layers and payloads can be joined"))
        if isinstance(left, str | bytes):
            left = self.raw(load=left)
        return left / (self.raw(load=right) if isinstance(right, str | bytes) else right)

    def _layer(self, node: ast.Call, depth: int) -> Any:
        column = node.col_offset + 1
        if not isinstance(node.func, ast.Name):
            raise BadInput(SYNTAX(column=column, what=f"{ast.unparse(node.func)[:40]} is no layer"))
        name = node.func.id
        layer = self.layers.get(name)
        if layer is None:
            near = next((known for known in self.layers if known.lower() == name.lower()), None)
            hint = DID_YOU_MEAN(name=near) if near else EMPTY()
            raise BadInput(UNKNOWN_LAYER(column=column, name=name, hint=hint))
        values: dict[str, Any] = {}
        if node.args:
            if name != "Raw" or len(node.args) > 1:
                raise BadInput(SYNTAX(column=column, what=f"the fields of {name} need names"))
            values["load"] = self.value(node.args[0], depth + 1)
        fields = [each.name for each in layer.fields_desc]
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg not in fields:
                known = ", ".join(fields)
                place = keyword.value.col_offset + 1
                raise BadInput(UNKNOWN_FIELD(column=place, layer=name, name=keyword.arg or "**", known=known))
            value = self.value(keyword.value, depth + 1)
            if value is not None:
                field = layer.fields_desc[fields.index(keyword.arg)]
                check_value(keyword.value.col_offset + 1, name, field, value)
                values[keyword.arg] = value
        try:
            return layer(**values)
        except Exception as error:
            raise BadInput(UNUSABLE(what=f"{name}: {first_line(error)}")) from error


def first_line(error: Exception) -> str:
    """What an error of scapy says, in one line."""
    return (str(error) or type(error).__name__).splitlines()[0]


def _known_layers() -> Mapping[str, Any]:
    """scapy's own layers by name."""
    import scapy.layers.all  # noqa: F401
    from scapy.config import conf
    from scapy.layers import sctp  # noqa: F401

    return {layer.__name__: layer for layer in conf.layers}
