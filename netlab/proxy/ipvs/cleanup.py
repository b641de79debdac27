"""Take away all that ipvs mode makes on a node, in both families, whoever the proxy was that made it.

kube-proxy's own clean-up leaves the sets of IPv6 behind, and rules that it finds changed; this one does not.
"""

from __future__ import annotations

from typing import Literal

from netlab.kernel import addresses, ipset, iptables, nfnetlink, rtnetlink
from netlab.kernel.ipvs import Ipvs, flush
from netlab.kernel.netlink import NETLINK_ROUTE, NetlinkError, NetlinkSocket
from netlab.model.errors import LabFailed, MachineCannot
from netlab.proxy.family import Family
from netlab.proxy.iptables.cleanup import remove_chains
from netlab.proxy.iptables.ruleset import parse_save
from netlab.proxy.ipvs import names
from netlab.proxy.ipvs.host import REFUSED

CHAINS = {"filter": names.FILTER_CHAINS, "nat": names.NAT_CHAINS}


def cleanup(node: str) -> None:
    """Delete all virtual servers, kube-ipvs0, the mode's chains with the jumps to them, and its sets.

    In the network namespace of the calling thread. Raises :class:`LabFailed` where the kernel refuses.
    """
    versions: tuple[Literal[4, 6], ...] = (4, 6)
    for version in versions:
        remove_chains(version, node, parse_save(iptables.save(version, node)), CHAINS)
    try:
        _delete_link()
        _flush_servers()
        _destroy_sets()
    except NetlinkError as error:
        raise LabFailed(REFUSED(node=node, what=ipset.words(error))) from error


def _flush_servers() -> None:
    try:
        with Ipvs() as ipvs:
            ipvs.run([flush()])
    except MachineCannot:
        # No IPVS in the kernel, so no virtual servers either.
        return


def _delete_link() -> None:
    with NetlinkSocket(NETLINK_ROUTE) as netlink:
        index = addresses.link_index(netlink, names.LINK)
        if index is not None:
            netlink.run([rtnetlink.delete_link(index, names.LINK)])


def _destroy_sets() -> None:
    with nfnetlink.netfilter_socket() as netlink:
        try:
            there = ipset.list_sets(netlink)
        except MachineCannot:
            # No ipset in the kernel, so no sets either.
            return
        specs = [spec for family in Family for spec in names.set_specs(family).values()]
        netlink.run(ipset.destroy(spec) for spec in specs if spec.name in there)
