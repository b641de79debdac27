"""``kube-netlab doctor``: what this machine can do, what it lacks, and what would bring it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from netlab.cli.cells import pad, wrap
from netlab.cli.output import Format, console, print_value
from netlab.engine.client import start_engine
from netlab.kernel import programs
from netlab.microvm import packages
from netlab.microvm.cache import Cache, default_folder
from netlab.model.errors import EXIT_DONE, EXIT_MACHINE, MachineCannot, NetlabError
from netlab.model.text import Message, Text, user_language

WIDTH = 80
LAB = b"apiVersion: netlab/v1alpha1\nkind: Lab\nspec: {nodes: [{name: node-a}]}\n"
"""The smallest lab: if it comes up, others do."""

SYSTEM = Message("doctor.system", en="this machine", zh="这台机器")
SYSTEM_IS = Message(
    "doctor.system-is",
    en="Linux {kernel}, Python {python}, as {who}",
    zh="Linux {kernel}，Python {python}，用户 {who}",
)
TOOLS = Message("doctor.tools", en="tools", zh="工具")
HAS_TOOLS = Message("doctor.has-tools", en="all that labs need are installed", zh="实验所需的工具均已安装")
LABS = Message("doctor.labs", en="labs", zh="实验")
LAB_RUNS = Message(
    "doctor.lab-runs",
    en="a lab came up and was programmed in mode iptables",
    zh="已成功建立一个实验，并以 iptables 模式完成编程",
)
MODE = Message("doctor.mode", en="mode {mode}", zh="{mode} 模式")
MODE_RUNS = Message("doctor.mode-runs", en="works in this kernel", zh="可在当前内核中使用")
NO_IPVS = Message(
    "doctor.no-ipvs",
    en="this kernel has no IPVS, or does not let labs use it: such labs run in the microVM",
    zh="当前内核没有 IPVS，或不允许实验使用它：此类实验在 microVM 中运行",
)
MICROVM = Message("doctor.microvm", en="microVM", zh="microVM")
HAS_MICROVM = Message(
    "doctor.has-microvm",
    en="can be used; its kernel: {kernel}",
    zh="可以使用；其内核：{kernel}",
)
CAPTURES = Message("doctor.captures", en="captures", zh="抓包文件")
HAS_TSHARK = Message("doctor.has-tshark", en="tshark opens them", zh="可用 tshark 打开")
NO_TSHARK = Message(
    "doctor.no-tshark",
    en="no tshark or wireshark here to open them: 'apt install tshark' brings one",
    zh="没有 tshark 或 wireshark 可以打开：用 'apt install tshark' 安装",
)
MARKS = {True: "✓", False: "✗", None: "–"}


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at. ``ok`` is null for what can be done without; ``words`` say what was found and,
    where something is missing, what brings it."""

    name: Text
    ok: bool | None
    words: Text


def doctor_command(output: Format) -> int:
    """Exit status 0 where labs can run here, 3 where not."""
    checks = list(_checks())
    if output is not Format.TABLE:
        plain: list[dict[str, Any]] = [{"name": c.name, "ok": c.ok, "words": c.words} for c in checks]
        print_value(plain, output)
    else:
        _print(checks)
    return EXIT_MACHINE if any(each.ok is False for each in checks) else EXIT_DONE


def _print(checks: list[Check]) -> None:
    language, screen = user_language(), console()
    width = 14
    for check in checks:
        lines = wrap(check.words.in_language(language), WIDTH - width - 4)
        for number, line in enumerate(lines):
            name = f"{MARKS[check.ok]} {pad(check.name.in_language(language), width)}"
            head = name if number == 0 else " " * (width + 2)
            screen.print(f"{head}  {line}".rstrip(), markup=False)


def _checks() -> Iterator[Check]:
    who = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    version = sys.version.split()[0]
    yield Check(SYSTEM(), True, SYSTEM_IS(kernel=platform.release(), python=version, who=who))
    yield _tools()
    lacking: list[str] = []
    yield _lab(lacking)
    yield Check(MODE(mode="ipvs"), None, NO_IPVS()) if lacking else Check(MODE(mode="ipvs"), True, MODE_RUNS())
    yield _microvm()
    there = any(packages.find(each) is not None for each in ("tshark", "wireshark"))
    yield Check(CAPTURES(), True if there else None, HAS_TSHARK() if there else NO_TSHARK())


def _tools() -> Check:
    for program in programs.PACKAGES:
        if program != "conntrack":
            try:
                programs.find(program)
            except MachineCannot as error:
                return Check(TOOLS(), False, error.text)
    return Check(TOOLS(), True, HAS_TOOLS())


def _lab(lacking: list[str]) -> Check:
    """Whether a lab comes up; what its kernel cannot do is added to ``lacking``."""
    try:
        with start_engine() as client:
            client.load([("doctor.yaml", LAB)], None)
            client.start()
        with start_engine() as client:
            lacking += client.load([("doctor.yaml", LAB)], "ipvs").lacking
    except NetlabError as error:
        return Check(LABS(), False, error.text)
    return Check(LABS(), True, LAB_RUNS())


def _microvm() -> Check:
    try:
        packages.check_machine()
        packages.find_all(packages.HOST_PROGRAMS)
        packages.find_all(packages.GUEST_PROGRAMS)
    except MachineCannot as error:
        return Check(MICROVM(), None, error.text)
    try:
        kernel = packages.kernel(Cache(default_folder()), lambda _: None)
    except NetlabError as error:
        return Check(MICROVM(), None, error.text)
    return Check(MICROVM(), True, HAS_MICROVM(kernel=kernel.name or "/boot"))
