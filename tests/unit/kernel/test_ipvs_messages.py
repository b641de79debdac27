"""Messages of IPVS and ipset, byte by byte: against what ipvsadm 1.31 and ipset 7.17 were seen to send (strace), and
what kernel 6.1 answered them."""

from __future__ import annotations

import struct

import pytest

from netlab.kernel import ipset, ipvs
from netlab.kernel.ipset import SetSpec
from netlab.kernel.ipvs import RealServer, ServerAddress, Target, Timeouts, VirtualServer
from netlab.kernel.netlink import NetlinkError, Request, attributes

WEB = ServerAddress("tcp", "10.96.0.10", 80)
DNS = ServerAddress("udp", "fd00:10:96::130", 53)
HTTP = Target("10.244.1.10", 8080)
QUERY = Target("fd00:10:244:1::130", 5353)
WEB_SERVER = VirtualServer(WEB, "rr", 0, 0, 32)
DNS_SERVER = VirtualServer(DNS, "mh", ipvs.PERSISTENT | ipvs.SCHEDULER_2, 600, 128)

ADD_WEB = (
    "010100005400018006000100020000000600020006000000140003000a60000a0000000000000000000000000600040000500000"
    "07000600727200000c00070000000000ffffffff080008000000000008000900ffffffff"
)
ADD_DNS = (
    "0101000054000180060001000a000000060002001100000014000300fd00001000960000000000000000013006000400003500000"
    "70006006d6800000c00070011000000ffffffff08000800580200000800090080000000"
)
EDIT_WEB = (
    "020100005400018006000100020000000600020006000000140003000a60000a0000000000000000000000000600040000500000"
    "08000600777272000c00070001000000ffffffff08000800302a000008000900ffffffff"
)
ADD_HTTP = (
    "050100005400018006000100020000000600020006000000140003000a60000a0000000000000000000000000600040000500000"
    "05000600000000000c00070000000000ffffffff080008000000000008000900ffffffff6000028006000b0002000000140001000"
    "af4010a000000000000000000000000060002001f9000000800030000000000080004000100000005000d000000000006000e0000"
    "00000006000f000000000008000500000000000800060000000000"
)
ADD_QUERY = (
    "0501000054000180060001000a000000060002001100000014000300fd00001000960000000000000000013006000400003500000"
    "5000600000000000c00070000000000ffffffff080008000000000008000900800000006000028006000b000a00000014000100fd"
    "0000100244000100000000000001300600020014e900000800030000000000080004000100000005000d000000000006000e00000"
    "0000006000f000000000008000500000000000800060000000000"
)
EDIT_HTTP = ADD_HTTP.replace("0501", "0601", 1).replace("0800040001000000", "0800040000000000")
DELETE_HTTP = ADD_HTTP.replace("0501", "0701", 1)
DELETE_WEB = "0301" + ADD_WEB[4:].replace("0700060072720000", "0500060000000000")
SET_TIMEOUTS = "0c0100000800040084030000080005003c000000080006002c010000"

ANSWERED_WEB = (
    "06000100020000000600020006000000140003000a60000a000000000000000000000000060004000050000008000600777272000"
    "c00070003000000ffffffff08000800302a000008000900ffffffff"
)
ANSWERED_DNS = (
    "060001000a000000060002001100000014000300fd0000100096000000000000000001300600040000350000070006006d680000"
    "0c00070013000000ffffffff08000800580200000800090080000000"
)
ANSWERED_HTTP = (
    "140001000af4010a000000000000000000000000060002001f900000080003000000000008000400000000000500"
    "0d000000000006000e000000000006000f000000000008000500000000000800060000000000080007000200000008000800030000000"
    "8000900010000000600"
    "0b0002000000"
)
TABLE = """\
IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0050 wrr  persistent 2700000 FFFFFFFF
  -> 0AF4010A:1F90      Masq    0      2          3         
UDP  [fd00:0010:0096:0000:0000:0000:0000:0130]:0035 mh persistent 150000 80000000
  -> [fd00:0010:0244:0001:0000:0000:0000:0130]:14E9      Masq    1      0          0         
FWM  00000001 rr 
  -> 0AF4010A:1F90      Route   1      0          0         
SCTP 0A60005B:8E3C rr 
"""  # noqa: W291


def parts(command: bytes) -> tuple[bytes, dict[int, dict[int, bytes]]]:
    """The command, and the attributes of the virtual (1) and of the real server (2) in it."""
    return command[:4], {kind: dict(attributes(value)) for kind, value in attributes(command[4:])}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ipvs.new_server(WEB_SERVER), ADD_WEB),
        (ipvs.new_server(DNS_SERVER), ADD_DNS),
        (ipvs.set_server(VirtualServer(WEB, "wrr", ipvs.PERSISTENT, 10800, 32)), EDIT_WEB),
        (ipvs.set_timeouts(Timeouts(900, 60, 300)), SET_TIMEOUTS),
        (ipvs.flush(), "11010000"),
    ],
    ids=["add IPv4", "add IPv6 with flags", "edit", "timeouts", "flush"],
)
def test_commands_are_those_of_ipvsadm(ours: ipvs.Command, theirs: str) -> None:
    assert ours.body.hex() == theirs


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (ipvs.new_real(WEB, HTTP, 1), ADD_HTTP),
        (ipvs.new_real(DNS, QUERY, 1), ADD_QUERY),
        (ipvs.set_real(WEB, HTTP, 0), EDIT_HTTP),
        (ipvs.delete_real(WEB, HTTP), DELETE_HTTP),
        (ipvs.delete_server(WEB), DELETE_WEB),
    ],
    ids=["add IPv4", "add IPv6", "edit", "delete", "delete server"],
)
def test_and_say_the_same_in_less_where_ipvsadm_says_more_than_the_kernel_reads(
    ours: ipvs.Command, theirs: str
) -> None:
    """A virtual server is named by family, protocol, address and port alone; tunnels have no part in masquerading."""
    head, said = parts(ours.body)
    their_head, their_said = parts(bytes.fromhex(theirs))
    assert head == their_head
    for server, values in said.items():
        assert values == {kind: their_said[server][kind] for kind in values}
    assert list(said[1]) == [1, 2, 3, 4]


def test_answers_of_the_kernel_are_understood() -> None:
    web = ipvs._read_service(bytes.fromhex(ANSWERED_WEB))
    assert web == VirtualServer(WEB, "wrr", ipvs.PERSISTENT, 10800, 32)
    assert ipvs._read_service(bytes.fromhex(ANSWERED_DNS)) == DNS_SERVER
    target, real = ipvs._read_destination(bytes.fromhex(ANSWERED_HTTP), 2)
    assert target == HTTP
    assert real == RealServer(0, ipvs.MASQUERADING, 2, 3, 1)


def test_a_virtual_server_for_a_firewall_mark_is_passed_over() -> None:
    assert ipvs._read_service(bytes.fromhex("0600010002000000") + struct.pack("=HHI", 8, 5, 7)) is None


def test_the_table_of_real_servers_is_understood() -> None:
    assert ipvs.parse_table(TABLE) == {
        WEB: {HTTP: RealServer(0, ipvs.MASQUERADING, 2, 3)},
        DNS: {QUERY: RealServer(1)},
        ServerAddress("sctp", "10.96.0.91", 36412): {},
    }


def test_an_empty_table_has_nothing() -> None:
    assert ipvs.parse_table("\n".join(TABLE.splitlines()[:3])) == {}


CLUSTER_IP = SetSpec("KUBE-CLUSTER-IP", "hash:ip,port", "inet")
SOURCE_CIDR_6 = SetSpec("KUBE-6-LOAD-BALANCER-SOURCE-CID", "hash:ip,port,net", "inet6")
LOOP_BACK = SetSpec("KUBE-LOOP-BACK", "hash:ip,port,ip", "inet")
IPVS_IPS = SetSpec("KUBE-IPVS-IPS", "hash:ip", "inet")
NODE_PORT_TCP = SetSpec("KUBE-NODE-PORT-TCP", "bitmap:port", "")

CREATE_CLUSTER_IP = (
    "020000000500010007000000140002004b5542452d434c55535445522d49500011000300686173683a69702c706f7274000000000"
    "50004000600000005000500020000001400078008001240000004000800134000010000"
)
CREATE_SOURCE_CIDR_6 = (
    "020000000500010007000000240002004b5542452d362d4c4f41442d42414c414e4345522d534f555243452d43494400150003006"
    "86173683a69702c706f72742c6e6574000000000500040008000000050005000a0000001400078008001240000004000800134000"
    "010000"
)
CREATE_NODE_PORT = (
    "020000000500010007000000170002004b5542452d4e4f44452d504f52542d5443500000100003006269746d61703a706f7274000"
    "500040003000000050005000000000014000780060004400000000006000540ffff0000"
)
DESTROY_LOOP_BACK = "020000000500010007000000130002004b5542452d4c4f4f502d4241434b0000"
RESTORE_CLUSTER_IP = (
    "020000000500010007000000140002004b5542452d434c55535445522d4950000800094000000001540008802800078"
    "00c000180080001400a60000b0600044000500000050007000600000008000940000000012800078"
    "00c000180080001400a60000c060004400050000005000700060000000800094000000002"
)
ELEMENTS = [
    (CLUSTER_IP, "10.96.0.10,tcp:80", "0c000180080001400a60000a06000440005000000500070006000000"),
    (
        SOURCE_CIDR_6,
        "fd00::30,sctp:80,fd00:1::/64",
        "1800018014000240fd000000000000000000000000000030060004400050000005000700840000001800148014000240fd000001"
        "0000000000000000000000000500150040000000",
    ),
    (
        SOURCE_CIDR_6,
        "fd00::30,sctp:80,fd00:1::7",
        "1800018014000240fd000000000000000000000000000030060004400050000005000700840000001800148014000240fd000001"
        "0000000000000000000000070500150080000000",
    ),
    (
        LOOP_BACK,
        "10.244.1.10,udp:53,10.244.1.10",
        "0c000180080001400af4010a060004400035000005000700110000000c001480080001400af4010a",
    ),
    (IPVS_IPS, "10.96.0.10", "0c000180080001400a60000a"),
    (NODE_PORT_TCP, "30080", "0600044075800000"),
]

VERSION_7, VERSION_6 = "0500010007000000", "0500010006000000"


def body(request: Request) -> str:
    return request.body.hex()


def older(theirs: str) -> str:
    """As ipset says it to a kernel before 4.20; those after it take it, too."""
    return theirs.replace(VERSION_7, VERSION_6, 1)


@pytest.mark.parametrize(
    ("spec", "revision", "theirs"),
    [
        (CLUSTER_IP, 6, CREATE_CLUSTER_IP),
        (SOURCE_CIDR_6, 8, CREATE_SOURCE_CIDR_6),
        (NODE_PORT_TCP, 3, CREATE_NODE_PORT),
    ],
    ids=lambda each: each.name if isinstance(each, SetSpec) else "",
)
def test_sets_are_made_as_ipset_makes_them(spec: SetSpec, revision: int, theirs: str) -> None:
    request = ipset.create(spec, revision)
    assert (request.type, request.flags) == (0x602, 0x600)
    assert body(request) == older(theirs)


def test_sets_are_destroyed_as_ipset_does() -> None:
    request = ipset.destroy(LOOP_BACK)
    assert (request.type, request.flags) == (0x603, 0x200)
    assert body(request) == older(DESTROY_LOOP_BACK)


@pytest.mark.parametrize(
    ("spec", "element", "theirs"), ELEMENTS, ids=lambda each: each if isinstance(each, str) else ""
)
def test_elements_are_those_of_ipset_in_both_directions(spec: SetSpec, element: str, theirs: str) -> None:
    assert ipset._data(spec, element).hex() == theirs
    assert ipset._element(bytes.fromhex(theirs)) == element


def test_many_elements_go_in_one_message_as_in_ipset_restore() -> None:
    (request,) = ipset.add(CLUSTER_IP, ["10.96.0.11,tcp:80", "10.96.0.12,tcp:80"])
    assert (request.type, request.flags) == (0x609, 0x200)
    assert body(request) == older(RESTORE_CLUSTER_IP)
    (request,) = ipset.delete(CLUSTER_IP, ["10.96.0.11,tcp:80", "10.96.0.12,tcp:80"])
    assert request.type == 0x60A
    assert body(request) == older(RESTORE_CLUSTER_IP)


def test_no_message_is_too_long_for_its_attributes() -> None:
    elements = [f"fd00::{number:x},sctp:80,fd00:1::/64" for number in range(1000)]
    requests = list(ipset.add(SOURCE_CIDR_6, elements))
    assert len(requests) == 4
    assert max(len(request.body) for request in requests) < 0xFFFF


def test_errors_of_ipset_have_words() -> None:
    assert ipset.words(NetlinkError(4103, "add to the set X 1", "")) == (
        "add to the set X 1: the element is already there, or not there"
    )
    assert ipset.words(NetlinkError(17, "make the set X", "")) == "make the set X: File exists"
