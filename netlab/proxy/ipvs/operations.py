"""What can be done to a node in ipvs mode, one step each. Steps with several elements are one message to the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netlab.kernel.ipset import SetSpec
from netlab.kernel.ipvs import ServerAddress, Target, VirtualServer
from netlab.proxy.iptables.ruleset import TableChange


@dataclass(frozen=True, slots=True)
class CreateSet:
    spec: SetSpec


@dataclass(frozen=True, slots=True)
class AddElements:
    spec: SetSpec
    elements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteElements:
    spec: SetSpec
    elements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CreateLink:
    """Make kube-ipvs0."""


@dataclass(frozen=True, slots=True)
class AddAddress:
    """To kube-ipvs0."""

    ip: str


@dataclass(frozen=True, slots=True)
class DeleteAddress:
    """From kube-ipvs0."""

    ip: str


@dataclass(frozen=True, slots=True)
class NewServer:
    server: VirtualServer


@dataclass(frozen=True, slots=True)
class SetServer:
    server: VirtualServer


@dataclass(frozen=True, slots=True)
class DeleteServer:
    """With its real servers."""

    address: ServerAddress


@dataclass(frozen=True, slots=True)
class NewReal:
    """In service at once."""

    address: ServerAddress
    target: Target


@dataclass(frozen=True, slots=True)
class SetReal:
    """Weight 0: it keeps its connections and gets no new ones."""

    address: ServerAddress
    target: Target
    weight: int


@dataclass(frozen=True, slots=True)
class DeleteReal:
    address: ServerAddress
    target: Target


@dataclass(frozen=True, slots=True)
class WriteRules:
    """Change iptables' rules, by table."""

    changes: Mapping[str, TableChange]


Operation = (
    CreateSet
    | AddElements
    | DeleteElements
    | CreateLink
    | AddAddress
    | DeleteAddress
    | NewServer
    | SetServer
    | DeleteServer
    | NewReal
    | SetReal
    | DeleteReal
    | WriteRules
)
