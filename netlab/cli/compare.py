"""``kube-netlab compare``: the same probe in several modes, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from netlab.cli.cells import pad, wrap
from netlab.cli.output import Format, console, print_note, print_value
from netlab.cli.walk import is_running_name
from netlab.engine.files import read_files
from netlab.microvm.start import loaded_engine
from netlab.model.comparison import Comparison, ModeResult, compare
from netlab.model.errors import EXIT_DONE, EXIT_NO, BadInput
from netlab.model.text import Message, Text, user_language
from netlab.model.walk import host_of

WIDTH = 80

NO_MODES = Message("compare.no-modes", en="--modes: no mode is given", zh="--modes：没有给出任何模式")
FILES_ONLY = Message(
    "compare.files-only",
    en="compare builds a lab per mode, from lab files; {name} is the name of a running lab",
    zh="compare 根据实验文件为每种模式建立一个实验；{name} 是正在运行的实验的名称",
)
ROWS = {
    "verdict": Message("compare.verdict", en="verdict", zh="结果"),
    "endpoint": Message("compare.endpoint", en="endpoint", zh="端点"),
    "seen_by_pod": Message("compare.seen", en="seen by Pod", zh="Pod 所见"),
    "rules": Message("compare.rules", en="rules passed", zh="经过的规则"),
    "nat": Message("compare.nat", en="NAT steps", zh="NAT 步骤"),
    "first_packet_us": Message("compare.first-packet", en="first packet", zh="首包用时"),
}
MARK = "≠"


def compare_command(
    lab: Sequence[str], sender: str, to: str, proto: str, modes: str, timeout: float, output: Format
) -> int:
    """Exit status 0 where the verdict is the same in all modes, 1 where it is not."""
    wanted = [each.strip() for each in modes.split(",") if each.strip()]
    if not wanted:
        raise BadInput(NO_MODES())
    if is_running_name(lab):
        raise BadInput(FILES_ONLY(name=lab[0]))
    sources = read_files(lab)
    told: set[str] = set()

    def say(note: Text) -> None:
        if note.en not in told:
            told.add(note.en)
            print_note(note)

    walks = []
    for mode in wanted:
        with loaded_engine(sources, mode, say) as (client, loaded):
            for note in loaded.notes:
                say(note)
            client.start()
            walks.append(client.walk(sender, to, proto, None, timeout)[0])
    result = compare(walks)
    if output is Format.TABLE:
        _print_table(result)
    else:
        print_value(result, output)
    return EXIT_DONE if len({each.verdict for each in result.modes}) == 1 else EXIT_NO


def _print_table(result: Comparison) -> None:
    language, screen = user_language(), console()
    screen.print(f"{result.from_} → {result.to}", style="bold", markup=False)
    heads = {name: title().in_language(language) for name, title in ROWS.items()}
    first = max(cell_len(each) for each in heads.values())
    width = max(14, (WIDTH - first - 2) // len(result.modes) - 2)
    screen.print(pad("", first) + "".join(f"  {pad(each.mode, width)}" for each in result.modes).rstrip(), markup=False)
    for name, head in heads.items():
        columns = [_cell_lines(each, name, width) for each in result.modes]
        for number in range(max(len(each) for each in columns)):
            cells = [each[number] if number < len(each) else "" for each in columns]
            label = head if number == 0 else ""
            line = pad(label, first) + "".join(f"  {pad(each, width)}" for each in cells)
            screen.print(line.rstrip(), markup=False)
    for reason in result.reasons:
        for index, line in enumerate(wrap(reason.in_language(language), WIDTH - 2)):
            screen.print(f"{f'{MARK} ' if index == 0 else '  '}{line}", style="dim", markup=False)


def _cell_lines(result: ModeResult, name: str, width: int) -> list[str]:
    mark = f"{MARK} " if name in result.differs else ""
    lines = [line for text in _cell_texts(result, name) for line in wrap(text, width - len(mark))] or ["-"]
    return [f"{mark if index == 0 else ' ' * len(mark)}{line}" for index, line in enumerate(lines)]


def _cell_texts(result: ModeResult, name: str) -> Iterable[str]:
    if name == "nat":
        return result.nat
    if name == "first_packet_us":
        return [f"{result.first_packet_us / 1000:.2f} ms"] if result.first_packet_us is not None else []
    if name == "seen_by_pod" and result.seen_by_pod is not None:
        host = host_of(result.seen_by_pod)
        return [host, result.seen_by_pod.removeprefix(f"[{host}]").removeprefix(host)]
    value = getattr(result, name)
    return [str(value)] if value is not None else []
