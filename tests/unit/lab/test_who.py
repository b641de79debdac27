"""Who sends: a client's name, a node's name, or a Pod's, with or without its namespace."""

from __future__ import annotations

import pytest

from netlab.lab.who import SHOWN, Sender, find_sender
from netlab.model.errors import BadInput
from netlab.model.keys import ObjectKey
from netlab.model.topology import Place, PlaceKind, Topology

ON_NODE = {ObjectKey("Pod", "kube-system", "agent"): "node-a"}


def topology(places: dict[str, PlaceKind]) -> Topology:
    return Topology({name: Place(name=name, kind=kind) for name, kind in places.items()})


PLACES: dict[str, PlaceKind] = {
    "router": "router",
    "client": "client",
    "node-a": "node",
    "default/web": "pod",
    "default/twin": "pod",
    "prod/twin": "pod",
    "default/client": "pod",
    "prod/node-a": "pod",
}
LAB = topology(PLACES)


@pytest.mark.parametrize(
    ("who", "name", "place"),
    [
        ("client", "client", "client"),
        ("node-a", "node-a", "node-a"),
        ("web", "default/web", "default/web"),
        ("default/web", "default/web", "default/web"),
        ("prod/twin", "prod/twin", "prod/twin"),
        ("default/client", "default/client", "default/client"),
        ("prod/node-a", "prod/node-a", "prod/node-a"),
        ("agent", "kube-system/agent", "node-a"),
        ("kube-system/agent", "kube-system/agent", "node-a"),
    ],
)
def test_a_sender(who: str, name: str, place: str) -> None:
    assert find_sender(who, LAB, ON_NODE) == Sender(name, place)


def test_a_pod_in_two_namespaces_is_ambiguous() -> None:
    with pytest.raises(BadInput) as caught:
        find_sender("twin", LAB, ON_NODE)
    assert caught.value.text.en == (
        '--from: "twin" is ambiguous: it may be default/twin, prod/twin; say which, as in default/twin'
    )


@pytest.mark.parametrize("who", ["", "nobody", "default", "default/", "/web", "other/web", "router", "WEB", "web "])
def test_nobody_of_that_name(who: str) -> None:
    with pytest.raises(BadInput) as caught:
        find_sender(who, LAB, ON_NODE)
    assert caught.value.text.en == (
        f'--from: "{who}" is no client, node or Pod of the lab; there are client, node-a, default/client, '
        "default/twin, default/web, kube-system/agent, prod/node-a, prod/twin"
    )


def test_a_long_list_is_cut() -> None:
    many = topology({f"node-{number:03}": "node" for number in range(SHOWN + 1)})
    with pytest.raises(BadInput) as caught:
        find_sender("nobody", many, {})
    assert caught.value.text.en.endswith("node-018, node-019 …")
