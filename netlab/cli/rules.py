"""``kube-netlab rules`` and ``explain``: what is, or would be, programmed on a node, and which line of YAML did it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from netlab.cli.cells import wrap
from netlab.cli.output import Format, console, print_note, print_value
from netlab.cli.walk import is_running_name, lab_client
from netlab.engine.files import read_files
from netlab.model.errors import EXIT_DONE, BadInput
from netlab.model.text import Message, user_language

if TYPE_CHECKING:
    from netlab.lab.programmed import Programmed
    from netlab.lab.resolve import Resolved

WIDTH = 80

DRY_RUN_OF_FILES = Message(
    "rules.dry-run-of-files",
    en="--dry-run works out rules from lab files; {name} is a running lab, whose rules are there to be read",
    zh="--dry-run 根据实验文件推算规则；{name} 是正在运行的实验，其规则可直接读取",
)
EXPLAIN_FILES = Message(
    "rules.explain-files",
    en="explain works from lab files; {name} is the name of a running lab",
    zh="explain 根据实验文件工作；{name} 是正在运行的实验的名称",
)
CAUSED = Message(
    "rules.caused",
    en="{service} on {node} in mode {mode}, entries that it causes: {count}",
    zh="{service} 在节点 {node} 上 ({mode} 模式) 产生 {count} 个条目：",
)
NOTHING = Message(
    "rules.nothing",
    en="{service} causes nothing on {node}: it is headless or an ExternalName, or none of its ports can be served",
    zh="{service} 在节点 {node} 上不产生任何条目：它是 headless 或 ExternalName 类型，或没有可服务的端口",
)


def rules_command(lab: Sequence[str], node: str, mode: str | None, output: Format, *, dry_run: bool) -> int:
    """Print a node's rules: those in the kernel, or with ``dry_run`` those that would be."""
    if dry_run:
        return _dry_run(lab, node, mode, output)
    with lab_client(lab, mode) as client:
        rules: dict[str, Any] = client.call("lab.rules", node=node)
    if output is Format.TABLE:
        sys.stdout.write(rules["text"])
    else:
        print_value(rules, output)
    return EXIT_DONE


def _dry_run(lab: Sequence[str], node: str, mode: str | None, output: Format) -> int:
    from netlab.lab.locating import CauseLocator, in_objects
    from netlab.lab.programmed import programmed_items, programmed_text, world_of

    if is_running_name(lab):
        raise BadInput(DRY_RUN_OF_FILES(name=lab[0]))
    resolved = _resolved(lab, mode)
    world = world_of(resolved, node)
    if output is Format.TABLE:
        sys.stdout.write(programmed_text(world))
        return EXIT_DONE
    items = programmed_items(world, CauseLocator(resolved.locator, in_objects(resolved.objects)))
    print_value({"node": node, "mode": world.config.proxy_mode, "items": items}, output)
    return EXIT_DONE


def explain_command(lab: Sequence[str], service: str, node: str, mode: str | None, output: Format) -> int:
    """Print all that a Service causes on a node, by the field that caused it."""
    from netlab.lab.locating import CauseLocator, in_objects
    from netlab.lab.programmed import caused_by, find_service, programmed_items, world_of

    if is_running_name(lab):
        raise BadInput(EXPLAIN_FILES(name=lab[0]))
    resolved = _resolved(lab, mode)
    world = world_of(resolved, node)
    path = find_service(resolved, service)
    locate = CauseLocator(resolved.locator, in_objects(resolved.objects))
    items = caused_by(programmed_items(world, locate), resolved, path)
    value = {"service": path, "node": node, "mode": world.config.proxy_mode, "items": items}
    if output is not Format.TABLE:
        print_value(value, output)
        return EXIT_DONE
    _print_explained(f"Service {path}", node, world.config.proxy_mode, items)
    return EXIT_DONE


def _print_explained(service: str, node: str, mode: str, items: Sequence[Programmed]) -> None:
    language, screen = user_language(), console()
    if not items:
        screen.print(NOTHING(service=service, node=node).in_language(language), markup=False)
        return
    screen.print(CAUSED(service=service, node=node, mode=mode, count=len(items)).in_language(language), markup=False)
    for origin, caused in _by_origin(items):
        screen.print()
        for line in wrap(origin, WIDTH):
            screen.print(line, style="bold", markup=False)
        for each in caused:
            screen.print(f"  {each.part} {each.place}", markup=False)
            for line in wrap(each.text, WIDTH - 4):
                screen.print(f"    {line}", style="dim", markup=False)


def _by_origin(items: Iterable[Programmed]) -> list[tuple[str, list[Programmed]]]:
    """Items by what caused them: the Service's fields in the order in which they come up, then its endpoints."""
    groups: dict[str, list[Programmed]] = {}
    for each in items:
        groups.setdefault(str(each.origin), []).append(each)
    return sorted(groups.items(), key=lambda group: not group[0].startswith("Service "))


def _resolved(lab: Sequence[str], mode: str | None) -> Resolved:
    """The cluster of the files, with what is worth telling told."""
    from netlab.lab.input import read_input
    from netlab.lab.resolve import resolve
    from netlab.objects.yaml_source import Source

    sources = [Source(name, data) for name, data in read_files(lab)]
    resolved = resolve(read_input(sources), mode)
    for note in resolved.notes:
        print_note(note)
    return resolved
