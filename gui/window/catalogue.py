"""Every command's name and keys. What it does is said where it is done: in the window."""

from __future__ import annotations

from gui.window.commands import Command
from netlab.model.text import Message

MENUS = {
    "file": Message("gui.menu.file", en="&File", zh="文件(&F)"),
    "lab": Message("gui.menu.lab", en="&Lab", zh="实验(&L)"),
    "probe": Message("gui.menu.probe", en="&Probe", zh="探测(&P)"),
    "walk": Message("gui.menu.walk", en="&Walk", zh="旅程(&W)"),
    "view": Message("gui.menu.view", en="&View", zh="视图(&V)"),
    "help": Message("gui.menu.help", en="&Help", zh="帮助(&H)"),
}
PLAY = Message("gui.command.play", en="Play", zh="播放")
PAUSE = Message("gui.command.pause", en="Pause", zh="暂停")


def _command(
    name: str, en: str, zh: str, *keys: str, icon: str | None = None, checkable: bool = False
) -> tuple[str, Command]:
    return name, Command(name, Message(f"gui.command.{name}", en=en, zh=zh), keys, icon, checkable)


CATALOGUE = dict(
    (
        _command("file.open", "Open a file…", "打开文件…", "Ctrl+O", icon="open"),
        _command("file.start-page", "Start page", "起始页", "Ctrl+Home", icon="lab"),
        _command("file.save-walk", "Save the walk as JSON…", "将旅程保存为 JSON…", "Ctrl+S", icon="save"),
        _command(
            "file.export-capture", "Export the capture (pcapng)…", "导出抓包文件 (pcapng)…", "Ctrl+E", icon="save"
        ),
        _command("file.quit", "Quit", "退出", "Ctrl+Q"),
        _command("lab.restart", "Build the lab anew", "重新建立实验", "Ctrl+Shift+R", icon="restart"),
        _command("lab.stop", "End the lab", "结束实验", icon="close"),
        _command("lab.apply", "Apply the changed YAML", "应用更改后的 YAML", "Ctrl+Shift+Return"),
        _command("probe.send", "Send", "发送", "Ctrl+Return", icon="send"),
        _command("probe.sender", "Choose the sender", "选择发送者", "Ctrl+Shift+L"),
        _command("probe.destination", "Choose the destination", "选择目标", "Ctrl+L"),
        _command("walk.start", "To the beginning", "回到开头", "Ctrl+Shift+Left", icon="start"),
        _command(
            "walk.previous-row", "Previous step that matters", "上一个重要步骤", "Alt+Left", icon="previous-change"
        ),
        _command("walk.back", "One step back", "后退一步", "Ctrl+Left", icon="previous"),
        _command("walk.play", "Play", "播放", "Ctrl+Space", icon="play"),
        _command("walk.forward", "One step on", "前进一步", "Ctrl+Right", icon="next"),
        _command("walk.next-row", "Next step that matters", "下一个重要步骤", "Alt+Right", icon="next-change"),
        _command("walk.faster", "Faster", "加快", "Ctrl+]"),
        _command("walk.slower", "Slower", "减慢", "Ctrl+["),
        _command("walk.all-steps", "Show all steps", "显示全部步骤", "Ctrl+Shift+A", checkable=True),
        _command("walk.compare-before", "Compare with the walk before", "与上一次旅程比较", "Ctrl+B"),
        _command("walk.copy", "Copy the walk as text", "将旅程复制为文本", "Ctrl+Shift+C", icon="copy"),
        _command("view.topology", "Topology", "拓扑", "Ctrl+1"),
        _command("view.ladder", "Ladder", "阶梯图", "Ctrl+2"),
        _command("view.rules", "Rules", "规则", "Ctrl+3"),
        _command("view.compare", "Compare modes", "比较各模式", "Ctrl+4"),
        _command("view.yaml", "YAML", "YAML", "Ctrl+5"),
        _command("view.steps", "Steps of the walk", "旅程的步骤", "Ctrl+6"),
        _command("view.packets", "Packets", "数据包", "Ctrl+7"),
        _command("view.conntrack", "Conntrack", "连接跟踪", "Ctrl+8"),
        _command("view.search-rules", "Search the rules", "搜索规则", "Ctrl+F", icon="search"),
        _command("view.details", "Show details", "显示详情", "Ctrl+Shift+D", checkable=True),
        _command("view.table", "Show the tables below", "显示下方表格", "Ctrl+Shift+T", checkable=True),
        _command("view.fit", "Fit into the window", "适合窗口", "Ctrl+0", icon="fit"),
        _command("view.zoom-in", "Zoom in", "放大", "Ctrl++", "Ctrl+=", icon="plus"),
        _command("view.zoom-out", "Zoom out", "缩小", "Ctrl+-", icon="minus"),
        _command("view.calm", "Steps without travel", "步骤之间不做动画", checkable=True),
        _command("view.theme-system", "Colours: as the desktop", "配色：跟随系统", checkable=True),
        _command("view.theme-light", "Colours: light", "配色：浅色", checkable=True),
        _command("view.theme-dark", "Colours: dark", "配色：深色", checkable=True),
        _command("help.palette", "All commands", "全部命令", "Ctrl+Shift+P", icon="palette"),
    )
)
LANGUAGE_COMMANDS = {
    code: Command(f"view.language-{code}", Message(f"gui.command.language-{code}", en=name, zh=name), checkable=True)
    for code, name in (("en", "English"), ("zh", "简体中文"))
}
