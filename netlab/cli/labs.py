"""``kube-netlab up``, ``down`` and ``ls``: labs that stay."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from netlab.cli.cells import pad
from netlab.cli.interrupts import Interrupted
from netlab.cli.output import Format, console, print_note, print_value
from netlab.engine import rendezvous
from netlab.engine.client import connect_to
from netlab.engine.files import read_files
from netlab.microvm.start import loaded_engine
from netlab.model.errors import EXIT_DONE, BadInput, NetlabError
from netlab.model.text import Message, user_language

ANSWER_S = 2.0
"""How long a lab may take to say what it is; it is busy when it is coming up."""

UP = Message(
    "labs.up",
    en='lab "{name}" is up: mode {mode}; nodes: {nodes}, Pods: {pods}, Services: {services}. {how}',
    zh='实验 "{name}" 已建立：{mode} 模式，{nodes} 个节点，{pods} 个 Pod，{services} 个 Service。{how}',
)
HOW_DETACHED = Message(
    "labs.how-detached", en="End it with 'kube-netlab down {name}'.", zh="用 'kube-netlab down {name}' 结束它。"
)
HOW_ATTACHED = Message("labs.how-attached", en="Ctrl-C ends it.", zh="按 Ctrl-C 结束。")
DOWN = Message("labs.down", en='lab "{name}" has ended', zh='实验 "{name}" 已结束')
WHICH = Message(
    "labs.which",
    en="several labs run: {names}; say which one",
    zh="有多个实验在运行：{names}；请指明是哪一个",
)
NONE = Message("labs.none", en="no lab is running", zh="没有实验在运行")
COLUMNS = (
    Message("labs.column.name", en="NAME", zh="名称"),
    Message("labs.column.mode", en="MODE", zh="模式"),
    Message("labs.column.nodes", en="NODES", zh="节点"),
    Message("labs.column.pods", en="PODS", zh="POD"),
    Message("labs.column.services", en="SERVICES", zh="SERVICE"),
)


def up_command(
    lab: Sequence[str], mode: str | None, name: str | None, output: Format, *, detach: bool, vm: bool
) -> int:
    """Build a lab; stay until interrupted, unless detached. Raises :class:`LabFailed` where the lab dies."""
    if name is not None:
        rendezvous.check_name(name)
    sources = read_files(lab)
    folder = rendezvous.directory()
    with ExitStack() as stack:
        listener = stack.enter_context(rendezvous.Listener(folder))
        engine = loaded_engine(sources, mode, print_note, vm=vm, listener=listener.socket, folder=folder)
        client, loaded = stack.enter_context(engine)
        listener.socket.close()
        name = name or loaded.name
        listener.publish(name)
        client.call("engine.named", name=f"{name}{rendezvous.SUFFIX}")
        for note in loaded.notes:
            print_note(note)
        described = client.start() | {"name": name}
        if detach:
            listener.keep()
            client.detach()
        try:
            _tell_up(described, output, detach=detach)
            if not detach:
                client.wait_closed()
        except Interrupted:
            return EXIT_DONE
    return EXIT_DONE


def _tell_up(described: dict[str, Any], output: Format, *, detach: bool) -> None:
    if output is not Format.TABLE:
        print_value(described, output)
        return
    how = HOW_DETACHED(name=described["name"]) if detach else HOW_ATTACHED()
    text = UP(
        name=described["name"],
        mode=described["mode"],
        nodes=len(described["nodes"]),
        pods=described["pods"],
        services=described["services"],
        how=how,
    )
    console().print(text.in_language(user_language()), markup=False)


def down_command(name: str | None) -> int:
    """End a lab, and return when it has ended."""
    if name is None:
        labs = rendezvous.running(rendezvous.directory())
        if not labs:
            raise BadInput(NONE())
        if len(labs) > 1:
            raise BadInput(WHICH(names=", ".join(labs)))
        name = next(iter(labs))
    with connect_to(rendezvous.find(name)) as client:
        client.stop()
    rendezvous.running(rendezvous.directory())
    console().print(DOWN(name=name).in_language(user_language()), markup=False)
    return EXIT_DONE


def ls_command(output: Format) -> int:
    """All running labs of the user."""
    found: list[dict[str, Any]] = []
    for name, path in rendezvous.running(rendezvous.directory()).items():
        try:
            with connect_to(path) as client:
                client.connection.settimeout(ANSWER_S)
                found.append({**client.call("lab.describe"), "name": name})
        except NetlabError:
            # It is coming up, or it has just ended.
            found.append({"name": name, "mode": "?", "nodes": [], "clients": [], "pods": 0, "services": 0, "notes": []})
    if output is not Format.TABLE:
        print_value(msgspec.to_builtins(found), output)
        return EXIT_DONE
    language = user_language()
    if not found:
        console().print(NONE().in_language(language), markup=False)
        return EXIT_DONE
    rows = [[each().in_language(language) for each in COLUMNS]]
    for lab in found:
        rows.append([lab["name"], lab["mode"], str(len(lab["nodes"])), str(lab["pods"]), str(lab["services"])])
    for row in rows:
        cells = [pad(row[0], 24), pad(row[1], 10), pad(row[2], 7), pad(row[3], 6), row[4]]
        console().print(" ".join(cells).rstrip(), markup=False)
    return EXIT_DONE
