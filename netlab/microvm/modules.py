"""A kernel's modules: what each says of itself, in which order they load, and the index that ``modprobe`` reads.

A package of a kernel has no such index; it is made when the package is installed, which it never is here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from netlab.microvm import elf

BOOT = ("virtio_pci", "virtio_blk", "squashfs", "virtio_console")
"""What the guest needs to find its image and its port."""

FOLDERS = (
    "arch/x86/crypto",
    "crypto",
    "lib",
    "net/802",
    "net/8021q",
    "net/bridge",
    "net/core",
    "net/ipv4",
    "net/ipv6",
    "net/llc",
    "net/netfilter",
    "net/netlink",
    "net/packet",
    "net/sched",
    "net/sctp",
)
"""Folders of modules that the guest has, so that its kernel can load what somebody asks for."""

LOADED = (
    *("veth", "dummy", "bridge", "br_netfilter", "vxlan", "af_packet", "sch_netem", "sch_tbf"),
    *("nf_conntrack", "nf_conntrack_netlink", "nf_nat", "nfnetlink_acct", "nfnetlink_log", "nfnetlink_queue"),
    *("nf_tables", "nf_log_syslog", "nft_chain_nat", "nft_compat", "nft_ct", "nft_fib_inet", "nft_hash", "nft_limit"),
    *("nft_log", "nft_masq", "nft_nat", "nft_numgen", "nft_redir", "nft_reject_inet"),
    *("xt_addrtype", "xt_comment", "xt_conntrack", "xt_ipvs", "xt_limit", "xt_mark", "xt_multiport", "xt_nat"),
    *("xt_nfacct", "xt_physdev", "xt_recent", "xt_set", "xt_statistic", "xt_tcpudp", "xt_MASQUERADE", "xt_REDIRECT"),
    *("ipt_REJECT", "ip6t_REJECT", "ip_set", "ip_set_bitmap_port", "ip_set_hash_ip", "ip_set_hash_ipport"),
    *("ip_set_hash_ipportip", "ip_set_hash_ipportnet", "ip_set_hash_net"),
    *("ip_vs", "ip_vs_rr", "ip_vs_wrr", "ip_vs_lc", "ip_vs_wlc", "ip_vs_lblc", "ip_vs_lblcr", "ip_vs_dh", "ip_vs_sh"),
    *("ip_vs_mh", "ip_vs_sed", "ip_vs_nq"),
)
"""What labs use, loaded before the snapshot: a kernel that loads a module keeps its user waiting."""


@dataclass(frozen=True)
class Module:
    """``path`` is below the folder of the kernel's modules; ``needs`` are names of modules that come before."""

    name: str
    path: str
    needs: tuple[str, ...]
    aliases: tuple[str, ...]


def name_of(path: str) -> str:
    """The module in a file: "kernel/net/x-y.ko" holds x_y."""
    return PurePosixPath(path).name.partition(".")[0].replace("-", "_")


def read_module(path: str, contents: bytes) -> Module:
    """What a module (not compressed) says of itself. Raises ValueError for what is none."""
    said: dict[str, list[str]] = {}
    for text in elf.section(contents, b".modinfo").split(b"\0"):
        key, _, value = text.decode(errors="replace").partition("=")
        said.setdefault(key, []).append(value)
    needs = [each.replace("-", "_") for each in said.get("depends", [""])[0].split(",") if each]
    return Module(name_of(path), path, tuple(needs), tuple(said.get("alias", [])))


def in_order(wanted: Iterable[str], modules: Mapping[str, Module]) -> list[Module]:
    """The wanted modules and all that they need, each after what it needs.

    What is not there is built into the kernel.
    """
    found: dict[str, Module] = {}

    def add(name: str) -> None:
        module = modules.get(name)
        if module is None or name in found:
            return
        for each in module.needs:
            add(each)
        found[name] = module

    for name in wanted:
        add(name)
    return list(found.values())


def dependencies_index(modules: Mapping[str, Module]) -> str:
    """The text of modules.dep: each module's file, and those to load before, the last of them first."""
    lines = []
    for name, module in sorted(modules.items()):
        before = reversed(in_order([name], modules)[:-1])
        lines.append(" ".join([f"{module.path}:", *(each.path for each in before)]))
    return "".join(f"{line}\n" for line in lines)


def aliases_index(modules: Mapping[str, Module]) -> str:
    """The text of modules.alias: under which other names the kernel may ask for a module."""
    return "".join(f"alias {alias} {name}\n" for name, module in sorted(modules.items()) for alias in module.aliases)
