"""The words of the ``kube-netlab`` command: its subcommands, options and help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from netlab.cli.change import apply_command, delete_command
from netlab.cli.compare import compare_command
from netlab.cli.doctor import doctor_command
from netlab.cli.execute import exec_command
from netlab.cli.labs import down_command, ls_command, up_command
from netlab.cli.output import as_format
from netlab.cli.proxy import proxy_command
from netlab.cli.rules import explain_command, rules_command
from netlab.cli.usage import bad_usage
from netlab.cli.walk import as_seconds, walk_command
from netlab.model.errors import EXIT_BAD_INPUT, EXIT_DONE, BadInput
from netlab.model.text import Message, user_language
from netlab.model.version import PRODUCT, product_version

HELP = Message(
    "cli.help",
    en="A network lab for Kubernetes Services: real rules, real packets, and what happened to them, hop by hop.",
    zh="Kubernetes Service 网络实验室：真实的规则，真实的数据包，逐跳展示发生了什么。",
)


def t(message: Message) -> str:
    """The wording for the user's language; help texts are chosen when the command starts."""
    return message().in_language(user_language())


HELP_LAB = Message(
    "cli.lab",
    en="Lab files (YAML, - for standard input), or the name of a running lab.",
    zh="实验文件 (YAML，- 表示标准输入)，或正在运行的实验的名称。",
)
HELP_FILES = Message("cli.files", en="Lab files (YAML, - for standard input).", zh="实验文件 (YAML，- 表示标准输入)。")
HELP_FROM = Message(
    "cli.from", en="Who sends: a client, a node, or [namespace/]pod.", zh="发送者：客户端、节点或 [命名空间/]pod。"
)
HELP_TO = Message("cli.to", en="Where to: ADDR:PORT, or ADDR for icmp.", zh="目标：地址:端口；icmp 只需地址。")
HELP_PROTO = Message("cli.proto", en="tcp (if not given), udp, sctp or icmp.", zh="tcp (默认)、udp、sctp 或 icmp。")
HELP_MODE = Message("cli.mode", en="kube-proxy's mode on every node.", zh="所有节点上 kube-proxy 的模式。")
HELP_PCAP = Message(
    "cli.pcap", en="Write a capture file (pcapng; - for standard output).", zh="写出抓包文件 (pcapng，- 表示标准输出)。"
)
HELP_PACKET = Message(
    "cli.packet",
    en="A packet to craft, as scapy layers: 'IP()/TCP(dport=80, flags=\"S\")'.",
    zh="要构造的数据包，以 scapy 层表示：'IP()/TCP(dport=80, flags=\"S\")'。",
)
HELP_TIMEOUT = Message("cli.timeout", en="Seconds to wait for an answer.", zh="等待应答的秒数。")
HELP_VM = Message(
    "cli.vm",
    en="Run the lab in a microVM. Without this it does where this kernel lacks what it needs.",
    zh="在 microVM 中运行实验。不指定时，仅在当前内核缺少所需功能时才这样做。",
)
HELP_OUTPUT = Message("cli.output", en="table, json or yaml.", zh="table、json 或 yaml。")
HELP_VERBOSE = Message("cli.verbose", en="Every step, with its evidence.", zh="显示每一步及其证据。")
HELP_NAME = Message("cli.name", en="The lab's name.", zh="实验的名称。")
HELP_DETACH = Message(
    "cli.detach", en="Leave the lab running; end it with 'down'.", zh="让实验在后台运行；用 'down' 结束。"
)
HELP_WALK = Message(
    "cli.walk",
    en="Send a probe and show its way, and each change of an address.",
    zh="发送一个探测包，展示其路径和每次地址改写。",
)
HELP_MODES = Message("cli.modes", en="The modes to compare.", zh="要比较的模式。")
HELP_COMPARE = Message(
    "cli.compare",
    en="Send one probe in several modes, and show what differs and why.",
    zh="在多种模式下发送同一探测包，展示差异及其原因。",
)
HELP_NODE = Message("cli.node", en="The node.", zh="节点。")
HELP_DRY_RUN = Message(
    "cli.dry-run",
    en="Work the rules out from the files: without privileges, without a lab.",
    zh="仅根据文件推算规则：无需权限，也不建立实验。",
)
HELP_RULES = Message(
    "cli.rules",
    en="Show what kube-proxy programs on a node. With -o json, each rule comes with the field that caused it.",
    zh="展示 kube-proxy 在节点上编程的内容 (-o json 带出处)。",
)
HELP_EXPLAIN = Message(
    "cli.explain",
    en="Show all that a Service causes on a node, and by which field.",
    zh="展示一个 Service 在节点上产生的全部条目，以及由哪个字段产生。",
)
HELP_FILES_SERVICE = Message(
    "cli.files-service",
    en="Lab files (YAML, - for standard input), then a Service: [namespace/]name.",
    zh="实验文件 (YAML，- 表示标准输入)，最后是一个 Service：[命名空间/]名称。",
)
NEED_SERVICE = Message(
    "cli.need-service",
    en="lab files and, after them, a Service are needed: explain LAB.yaml SERVICE --node N",
    zh="需要实验文件以及其后的一个 Service：explain LAB.yaml SERVICE --node N",
)
HELP_UP = Message(
    "cli.up", en="Build a lab and keep it running until interrupted.", zh="建立实验并保持运行，直到被中断。"
)
HELP_EXEC = Message(
    "cli.exec",
    en="Run a command in the network of a node, a Pod or a client.",
    zh="在节点、Pod 或客户端的网络命名空间里运行命令。",
)
HELP_WHERE = Message("cli.where", en="LAB/node-a, or LAB/[namespace/]pod.", zh="LAB/node-a，或 LAB/[命名空间/]pod。")
HELP_COMMAND = Message("cli.command", en="The command and its arguments.", zh="命令及其参数。")
HELP_RUNNING = Message("cli.running", en="A running lab's name.", zh="正在运行的实验的名称。")
HELP_APPLY = Message(
    "cli.apply",
    en="Create or change objects of a running lab: all, or none of them.",
    zh="创建或更改正在运行的实验中的对象：要么全部生效，要么全不生效。",
)
HELP_DELETE = Message("cli.delete", en="Delete objects of a running lab.", zh="删除正在运行的实验中的对象。")
HELP_OBJECTS = Message("cli.objects", en="KIND/NAME or KIND/NAMESPACE/NAME.", zh="类型/名称，或 类型/命名空间/名称。")
HELP_DOWN = Message("cli.down", en="End a running lab.", zh="结束正在运行的实验。")
HELP_LS = Message("cli.ls", en="List running labs.", zh="列出正在运行的实验。")
HELP_PROXY = Message(
    "cli.proxy",
    en="Be the kube-proxy of a real node, against a real API server. Takes root.",
    zh="作为真实节点的 kube-proxy 运行，连接真实的 API 服务器。需要 root。",
)
HELP_KUBECONFIG = Message("cli.kubeconfig", en="Which API server, and who to be.", zh="API 服务器及身份。")
HELP_PROXY_MODE = Message("cli.proxy-mode", en="kube-proxy's mode.", zh="kube-proxy 的模式。")
HELP_CONFIG = Message("cli.config", en="A KubeProxyConfiguration.", zh="KubeProxyConfiguration 文件。")
HELP_NODE_NAME = Message(
    "cli.node-name", en="The node's name, if it is not the host's.", zh="节点名称 (默认为主机名)。"
)
HELP_CLEANUP = Message(
    "cli.cleanup", en="Take away all that a kube-proxy has made here.", zh="清除 kube-proxy 在此生成的全部内容。"
)
HELP_DOCTOR = Message(
    "cli.doctor", en="Show what this machine can do, and what it lacks.", zh="展示这台机器能做什么、缺少什么。"
)
HELP_GUI = Message(
    "cli.gui",
    en="Open the desktop app: watch a packet cross the lab.",
    zh="打开桌面应用：逐步观察数据包穿过实验。",
)
HELP_GUI_FILE = Message(
    "cli.gui-file",
    en="A lab file, a walk saved as JSON, or an example's name (nodeport).",
    zh="实验文件、保存为 JSON 的旅程，或示例名称 (nodeport)。",
)
HELP_WHICH = Message(
    "cli.which", en="The lab's name; may be left out if one runs.", zh="实验名称；只有一个在运行时可省略。"
)

HELP_VERSION = Message("cli.version", en="Print the version and exit.", zh="打印版本号并退出。")

app = typer.Typer(
    help=t(HELP), no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(PRODUCT, product_version())
        raise typer.Exit(EXIT_DONE)


@app.callback(help=t(HELP))
def options(
    version: Annotated[
        bool, typer.Option("--version", help=t(HELP_VERSION), is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """What may stand before a command."""


Output = Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help=t(HELP_OUTPUT))]
Vm = Annotated[bool, typer.Option("--vm", help=t(HELP_VM))]


@app.command("walk", help=t(HELP_WALK))
def walk(
    lab: Annotated[list[str], typer.Argument(metavar="LAB.yaml…|NAME", help=t(HELP_LAB), show_default=False)],
    sender: Annotated[str, typer.Option("--from", metavar="WHO", help=t(HELP_FROM), show_default=False)],
    to: Annotated[str | None, typer.Option("--to", metavar="ADDR:PORT", help=t(HELP_TO))] = None,
    proto: Annotated[str | None, typer.Option("--proto", help=t(HELP_PROTO))] = None,
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_MODE))] = None,
    pcap: Annotated[str | None, typer.Option("--pcap", metavar="F.pcapng", help=t(HELP_PCAP))] = None,
    packet: Annotated[str | None, typer.Option("--packet", metavar="LAYERS", help=t(HELP_PACKET))] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="S", help=t(HELP_TIMEOUT))] = "2",
    vm: Vm = False,
    output: Output = "table",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help=t(HELP_VERBOSE))] = False,
) -> None:
    seconds, form = as_seconds(timeout), as_format(output)
    raise typer.Exit(walk_command(lab, sender, to, proto, mode, pcap, packet, seconds, form, vm=vm, verbose=verbose))


@app.command("compare", help=t(HELP_COMPARE))
def compare(
    lab: Annotated[list[str], typer.Argument(metavar="LAB.yaml…", help=t(HELP_FILES), show_default=False)],
    sender: Annotated[str, typer.Option("--from", metavar="WHO", help=t(HELP_FROM), show_default=False)],
    to: Annotated[str, typer.Option("--to", metavar="ADDR:PORT", help=t(HELP_TO), show_default=False)],
    proto: Annotated[str, typer.Option("--proto", help=t(HELP_PROTO))] = "tcp",
    modes: Annotated[str, typer.Option("--modes", metavar="M,M…", help=t(HELP_MODES))] = "iptables,ipvs,nftables",
    timeout: Annotated[str, typer.Option("--timeout", metavar="S", help=t(HELP_TIMEOUT))] = "2",
    output: Output = "table",
) -> None:
    raise typer.Exit(compare_command(lab, sender, to, proto, modes, as_seconds(timeout), as_format(output)))


@app.command("rules", help=t(HELP_RULES))
def rules(
    lab: Annotated[list[str], typer.Argument(metavar="LAB.yaml…|NAME", help=t(HELP_LAB), show_default=False)],
    node: Annotated[str, typer.Option("--node", metavar="N", help=t(HELP_NODE), show_default=False)],
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_MODE))] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=t(HELP_DRY_RUN))] = False,
    output: Output = "table",
) -> None:
    raise typer.Exit(rules_command(lab, node, mode, as_format(output), dry_run=dry_run))


@app.command("explain", help=t(HELP_EXPLAIN))
def explain(
    lab: Annotated[
        list[str], typer.Argument(metavar="LAB.yaml… SERVICE", help=t(HELP_FILES_SERVICE), show_default=False)
    ],
    node: Annotated[str, typer.Option("--node", metavar="N", help=t(HELP_NODE), show_default=False)],
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_MODE))] = None,
    output: Output = "table",
) -> None:
    *files, service = lab
    if not files:
        raise BadInput(NEED_SERVICE())
    raise typer.Exit(explain_command(files, service, node, mode, as_format(output)))


@app.command("up", help=t(HELP_UP))
def up(
    lab: Annotated[list[str], typer.Argument(metavar="LAB.yaml…", help=t(HELP_FILES), show_default=False)],
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_MODE))] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="N", help=t(HELP_NAME))] = None,
    detach: Annotated[bool, typer.Option("--detach", help=t(HELP_DETACH))] = False,
    vm: Vm = False,
    output: Output = "table",
) -> None:
    raise typer.Exit(up_command(lab, mode, name, as_format(output), detach=detach, vm=vm))


@app.command("exec", help=t(HELP_EXEC), context_settings={"ignore_unknown_options": True})
def execute(
    where: Annotated[str, typer.Argument(metavar="NAME/PLACE", help=t(HELP_WHERE), show_default=False)],
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND…", help=t(HELP_COMMAND), show_default=False)],
) -> None:
    raise typer.Exit(exec_command(where, command))


@app.command("apply", help=t(HELP_APPLY))
def apply(
    name: Annotated[str, typer.Argument(metavar="NAME", help=t(HELP_RUNNING), show_default=False)],
    files: Annotated[list[str], typer.Argument(metavar="FILE.yaml…", help=t(HELP_FILES), show_default=False)],
    output: Output = "table",
) -> None:
    raise typer.Exit(apply_command(name, files, as_format(output)))


@app.command("delete", help=t(HELP_DELETE))
def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help=t(HELP_RUNNING), show_default=False)],
    objects: Annotated[list[str], typer.Argument(metavar="KIND/NAME…", help=t(HELP_OBJECTS), show_default=False)],
    output: Output = "table",
) -> None:
    raise typer.Exit(delete_command(name, objects, as_format(output)))


@app.command("down", help=t(HELP_DOWN))
def down(
    name: Annotated[str | None, typer.Argument(metavar="N", help=t(HELP_WHICH), show_default=False)] = None,
) -> None:
    raise typer.Exit(down_command(name))


@app.command("ls", help=t(HELP_LS))
def ls(output: Output = "table") -> None:
    raise typer.Exit(ls_command(as_format(output)))


@app.command("proxy", help=t(HELP_PROXY))
def proxy(
    kubeconfig: Annotated[str | None, typer.Option("--kubeconfig", metavar="F", help=t(HELP_KUBECONFIG))] = None,
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_PROXY_MODE))] = None,
    config: Annotated[str | None, typer.Option("--config", metavar="F", help=t(HELP_CONFIG))] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="N", help=t(HELP_NODE_NAME))] = None,
    cleanup: Annotated[bool, typer.Option("--cleanup", help=t(HELP_CLEANUP))] = False,
) -> None:
    raise typer.Exit(proxy_command(kubeconfig, config, node, mode, cleanup=cleanup))


@app.command("doctor", help=t(HELP_DOCTOR))
def doctor(output: Output = "table") -> None:
    raise typer.Exit(doctor_command(as_format(output)))


@app.command("gui", help=t(HELP_GUI))
def gui(
    file: Annotated[
        str | None, typer.Argument(metavar="LAB.yaml|WALK.json", help=t(HELP_GUI_FILE), show_default=False)
    ] = None,
) -> None:
    from netlab.cli.gui import gui_command

    raise typer.Exit(gui_command(file))


def run(arguments: Sequence[str]) -> int:
    """Run the command of these words. Raises :class:`NetlabError`, for faults in the words themselves too."""
    try:
        return int(app(list(arguments), "kube-netlab", standalone_mode=False) or EXIT_DONE)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error, file=sys.stderr)
            return EXIT_BAD_INPUT
        if hasattr(error, "format_message"):
            raise bad_usage(error) from error
        raise
