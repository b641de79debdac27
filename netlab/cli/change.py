"""``kube-netlab apply`` and ``delete``: change the objects of a running lab."""

from __future__ import annotations

from collections.abc import Sequence

from netlab.cli.output import Format, console, print_note, print_value
from netlab.engine import rendezvous
from netlab.engine.client import connect_to
from netlab.engine.files import read_files
from netlab.model.changes import Action, Changed, Changes
from netlab.model.errors import EXIT_DONE, BadInput
from netlab.model.text import Message, user_language

NEED_OBJECT = Message(
    "change.need-object",
    en='"{text}": KIND/NAME or KIND/NAMESPACE/NAME is expected, as in service/web',
    zh='"{text}"：此处应为 类型/名称 或 类型/命名空间/名称，例如 service/web',
)
_WORDS: dict[Action, Message] = {
    "created": Message("change.created", en="{object} created", zh="{object} 已创建"),
    "configured": Message("change.configured", en="{object} configured", zh="{object} 已更改"),
    "unchanged": Message("change.unchanged", en="{object} unchanged", zh="{object} 未改变"),
    "deleted": Message("change.deleted", en="{object} deleted", zh="{object} 已删除"),
}
_KINDS = {
    "service": "Service",
    "services": "Service",
    "svc": "Service",
    "endpointslice": "EndpointSlice",
    "endpointslices": "EndpointSlice",
    "pod": "Pod",
    "pods": "Pod",
    "po": "Pod",
}


def apply_command(name: str, files: Sequence[str], output: Format) -> int:
    """Create or change the objects in files; done when every node has its rules."""
    sources = read_files(files)
    with connect_to(rendezvous.find(name)) as client:
        _tell(client.apply(sources), output)
    return EXIT_DONE


def delete_command(name: str, objects: Sequence[str], output: Format) -> int:
    """Take objects away, one after the other; done when every node has its rules."""
    named = [_parse(each) for each in objects]
    changes: list[Changed] = []
    with connect_to(rendezvous.find(name)) as client:
        for kind, namespace, each in named:
            changes += client.delete(kind, each, namespace).changes
    _tell(Changes(changes, []), output)
    return EXIT_DONE


def _parse(text: str) -> tuple[str, str, str]:
    """Kind, namespace, name."""
    kind, _, path = text.partition("/")
    namespace, _, name = path.rpartition("/")
    if not kind or not name or "/" in namespace:
        raise BadInput(NEED_OBJECT(text=text))
    return _KINDS.get(kind.lower(), kind), namespace or "default", name


def _tell(changes: Changes, output: Format) -> None:
    for note in changes.notes:
        print_note(note)
    if output is not Format.TABLE:
        print_value(changes.changes, output)
        return
    for each in changes.changes:
        text = _WORDS[each.action](object=each.object)
        console().print(text.in_language(user_language()), markup=False)
