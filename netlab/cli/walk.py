"""``kube-netlab walk``: one probe and its way."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from netlab.cli.output import Format, console, print_note, print_value
from netlab.cli.streams import StandardOutput
from netlab.engine import rendezvous
from netlab.engine.client import EngineClient, connect_to
from netlab.engine.files import STANDARD_INPUT, OutputFile, read_files
from netlab.microvm.start import loaded_engine
from netlab.model.errors import EXIT_DONE, EXIT_NO, BadInput
from netlab.model.text import Message, user_language
from netlab.model.walk import Walk

NEED_TARGET = Message(
    "walk.need-target",
    en="--to ADDR:PORT is needed (or --packet with a destination)",
    zh="需要 --to 地址:端口 (或带有目标的 --packet)",
)
BAD_TIMEOUT = Message(
    "walk.bad-timeout",
    en='--timeout: "{value}": must be a number greater than 0 and at most 3600 (seconds)',
    zh='--timeout："{value}"：必须是大于 0 且不超过 3600 的数 (秒)',
)
MODE_OF_RUNNING = Message(
    "walk.mode-of-running",
    en="--mode cannot be given for a running lab: {name} runs in mode {mode}",
    zh="不能为正在运行的实验指定 --mode：{name} 以 {mode} 模式运行",
)
VM_OF_RUNNING = Message(
    "walk.vm-of-running",
    en="--vm cannot be given for a running lab: {name} stays where it is",
    zh="不能为正在运行的实验指定 --vm：{name} 只能在原处运行",
)

ONE_OUTPUT = Message(
    "walk.one-output",
    en="--pcap - writes the capture to standard output, where -o {format} would go too: give --pcap a file",
    zh="--pcap - 将抓包写到标准输出，而 -o {format} 也输出到那里：请为 --pcap 指定一个文件",
)
STANDARD_OUTPUT = "-"
"""For --pcap."""


def as_seconds(text: str) -> float:
    """What --timeout takes. Raises :class:`BadInput`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise BadInput(BAD_TIMEOUT(value=text))
    return value


def walk_command(
    lab: Sequence[str],
    sender: str,
    to: str | None,
    proto: str | None,
    mode: str | None,
    pcap: str | None,
    packet: str | None,
    timeout: float,
    output: Format,
    *,
    vm: bool,
    verbose: bool,
) -> int:
    """Exit status 0 where the probe was answered, 1 where not."""
    if to is None and packet is None:
        raise BadInput(NEED_TARGET())
    language = user_language()
    with ExitStack() as stack:
        file = _capture_file(pcap, lab, output) if pcap is not None else None
        if file is not None:
            stack.callback(file.close)
        client = stack.enter_context(lab_client(lab, mode, vm=vm))
        walk, capture = client.walk(sender, to, proto, packet, timeout, capture=file is not None, language=language)
        if file is not None:
            file.write(capture)
        print_result(walk, output, language, verbose=verbose, beside=pcap == STANDARD_OUTPUT)
    return EXIT_DONE if walk.verdict == "answered" else EXIT_NO


def _capture_file(name: str, lab: Sequence[str], output: Format) -> OutputFile | StandardOutput:
    """Where the capture goes. Raises :class:`BadInput`."""
    if name != STANDARD_OUTPUT:
        return OutputFile(name, lab)
    if output is not Format.TABLE:
        raise BadInput(ONE_OUTPUT(format=output.value))
    return StandardOutput()


def print_result(walk: Walk, output: Format, language: str, *, verbose: bool, beside: bool = False) -> None:
    """``beside``: standard output has something else to carry, and the table goes to standard error."""
    if output is not Format.TABLE:
        print_value(walk, output)
        return
    from netlab.cli.table import print_walk

    print_walk(walk, console(beside=beside), language, verbose=verbose)


@contextmanager
def lab_client(lab: Sequence[str], mode: str | None, *, vm: bool = False) -> Iterator[EngineClient]:
    """A client of a lab that is up: one that runs already, by its name, or one made of files for this use only.

    ``vm``: in a microVM, whatever the lab needs.
    """
    if is_running_name(lab):
        if vm:
            raise BadInput(VM_OF_RUNNING(name=lab[0]))
        with connect_to(rendezvous.find(lab[0])) as client:
            if mode is not None:
                running = client.call("lab.describe")
                if running["mode"] != mode:
                    raise BadInput(MODE_OF_RUNNING(name=lab[0], mode=running["mode"]))
            yield client
        return
    sources = read_files(lab)
    with loaded_engine(sources, mode, print_note, vm=vm) as (client, loaded):
        for note in loaded.notes:
            print_note(note)
        client.start()
        yield client


def is_running_name(lab: Sequence[str]) -> bool:
    """Whether the words name a running lab: one word that is no file and has no look of one."""
    if len(lab) != 1 or lab[0] == STANDARD_INPUT or os.path.lexists(lab[0]):
        return False
    return "/" not in lab[0] and not lab[0].endswith((".yaml", ".yml", ".json"))
