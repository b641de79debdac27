"""The words of the ``kube-netlab`` command: its subcommands, options and help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from netlab.cli.labs import down_command, ls_command, up_command
from netlab.cli.output import as_format
from netlab.cli.usage import bad_usage
from netlab.cli.walk import as_seconds, walk_command
from netlab.model.errors import EXIT_BAD_INPUT, EXIT_DONE
from netlab.model.text import Message, user_language

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
HELP_PROTO = Message("cli.proto", en="tcp, udp, sctp or icmp.", zh="tcp、udp、sctp 或 icmp。")
HELP_MODE = Message("cli.mode", en="kube-proxy's mode on every node.", zh="所有节点上 kube-proxy 的模式。")
HELP_PCAP = Message("cli.pcap", en="Write a capture file (pcapng).", zh="写出抓包文件 (pcapng)。")
HELP_PACKET = Message(
    "cli.packet",
    en="A packet to craft, as scapy layers: 'IP()/TCP(dport=80, flags=\"S\")'.",
    zh="要构造的数据包，以 scapy 层表示：'IP()/TCP(dport=80, flags=\"S\")'。",
)
HELP_TIMEOUT = Message("cli.timeout", en="Seconds to wait for an answer.", zh="等待应答的秒数。")
HELP_OUTPUT = Message("cli.output", en="table, json or yaml.", zh="table、json 或 yaml。")
HELP_VERBOSE = Message("cli.verbose", en="Every step, with its evidence.", zh="显示每一步及其证据。")
HELP_NAME = Message("cli.name", en="The lab's name.", zh="实验的名称。")
HELP_DETACH = Message(
    "cli.detach", en="Leave the lab running; end it with 'down'.", zh="让实验在后台运行；用 'down' 结束。"
)
HELP_WALK = Message(
    "cli.walk",
    en="Send one probe and show its way: where addresses changed, by which rule, and why.",
    zh="发送一个探测包并展示其路径：地址在哪里、被哪条规则、为何改写。",
)
HELP_UP = Message(
    "cli.up", en="Build a lab and keep it running until interrupted.", zh="建立实验并保持运行，直到被中断。"
)
HELP_DOWN = Message("cli.down", en="End a running lab.", zh="结束正在运行的实验。")
HELP_LS = Message("cli.ls", en="List running labs.", zh="列出正在运行的实验。")
HELP_GUI = Message(
    "cli.gui",
    en="Open the desktop app: watch the packet cross the lab, step by step.",
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

app = typer.Typer(
    help=t(HELP), no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
)

Output = Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help=t(HELP_OUTPUT))]


@app.command("walk", help=t(HELP_WALK))
def walk(
    lab: Annotated[list[str], typer.Argument(metavar="LAB.yaml…|NAME", help=t(HELP_LAB), show_default=False)],
    sender: Annotated[str, typer.Option("--from", metavar="WHO", help=t(HELP_FROM), show_default=False)],
    to: Annotated[str | None, typer.Option("--to", metavar="ADDR:PORT", help=t(HELP_TO))] = None,
    proto: Annotated[str, typer.Option("--proto", help=t(HELP_PROTO))] = "tcp",
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_MODE))] = None,
    pcap: Annotated[str | None, typer.Option("--pcap", metavar="F.pcapng", help=t(HELP_PCAP))] = None,
    packet: Annotated[str | None, typer.Option("--packet", metavar="LAYERS", help=t(HELP_PACKET))] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="S", help=t(HELP_TIMEOUT))] = "2",
    output: Output = "table",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help=t(HELP_VERBOSE))] = False,
) -> None:
    seconds, form = as_seconds(timeout), as_format(output)
    raise typer.Exit(walk_command(lab, sender, to, proto, mode, pcap, packet, seconds, form, verbose=verbose))


@app.command("up", help=t(HELP_UP))
def up(
    lab: Annotated[list[str], typer.Argument(metavar="LAB.yaml…", help=t(HELP_FILES), show_default=False)],
    mode: Annotated[str | None, typer.Option("--mode", help=t(HELP_MODE))] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="N", help=t(HELP_NAME))] = None,
    detach: Annotated[bool, typer.Option("--detach", help=t(HELP_DETACH))] = False,
    output: Output = "table",
) -> None:
    raise typer.Exit(up_command(lab, mode, name, as_format(output), detach=detach))


@app.command("down", help=t(HELP_DOWN))
def down(
    name: Annotated[str | None, typer.Argument(metavar="N", help=t(HELP_WHICH), show_default=False)] = None,
) -> None:
    raise typer.Exit(down_command(name))


@app.command("ls", help=t(HELP_LS))
def ls(output: Output = "table") -> None:
    raise typer.Exit(ls_command(as_format(output)))


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
