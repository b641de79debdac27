"""``kube-netlab proxy``: the lab's kube-proxy on a real node, against a real API server."""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from netlab.cli.output import print_note
from netlab.engine.files import read_files
from netlab.model.errors import EXIT_DONE, BadInput, MachineCannot
from netlab.model.text import Message
from netlab.objects.proxyconfig import MODES, KubeProxyConfiguration

NOT_ROOT = Message(
    "proxy.not-root",
    en="proxy programs the network namespace that it runs in, which takes root (CAP_NET_ADMIN)",
    zh="proxy 会对其所在的网络命名空间编程，这需要 root (CAP_NET_ADMIN)",
)
NEED_KUBECONFIG = Message(
    "proxy.need-kubeconfig",
    en="--kubeconfig F is needed (or --cleanup)",
    zh="需要 --kubeconfig F (或 --cleanup)",
)
BAD_MODE = Message("proxy.bad-mode", en='--mode: "{mode}" is none of {modes}', zh='--mode："{mode}" 不是 {modes} 之一')
CLEANED = Message("proxy.cleaned", en="all rules of kube-proxy are gone", zh="kube-proxy 的规则已全部清除")
SYNCED = Message(
    "proxy.synced-now",
    en="programmed up to revision {revision}: {transactions} transactions, {lines} lines, {took} ms",
    zh="已编程至修订 {revision}：{transactions} 个事务，{lines} 行，{took} 毫秒",
)
CANNOT = Message("proxy.cannot", en="{text}; trying again", zh="{text}；将重试")
STARTED = Message(
    "proxy.started",
    en="kube-proxy for node {node} in mode {mode}, from {server}; Ctrl-C ends it and leaves its rules",
    zh="节点 {node} 的 kube-proxy，{mode} 模式，数据来自 {server}；按 Ctrl-C 结束，规则保留",
)

CAP_NET_ADMIN = 12


def proxy_command(
    kubeconfig: str | None, config: str | None, node: str | None, mode: str | None, *, cleanup: bool
) -> int:
    """Run until interrupted; or take away all that a kube-proxy of any mode has made here."""
    if mode is not None and mode not in MODES:
        raise BadInput(BAD_MODE(mode=mode, modes=", ".join(MODES)))
    if not cleanup and kubeconfig is None:
        raise BadInput(NEED_KUBECONFIG())
    if not _may_program():
        raise MachineCannot(NOT_ROOT())
    name = node or socket.gethostname().lower()
    if cleanup:
        from netlab.proxy.modes import clean_up

        clean_up(name)
        print_note(CLEANED())
        return EXIT_DONE
    assert kubeconfig is not None
    settings = _settings(config)
    if mode is not None:
        settings = msgspec.structs.replace(settings, mode=mode)
    return _run(kubeconfig, settings, node or settings.hostname_override or name)


def _may_program() -> bool:
    """Whether this process has CAP_NET_ADMIN (proc(5), CapEff)."""
    with open("/proc/self/status", encoding="ascii") as status:
        effective = next(line.split()[1] for line in status if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> CAP_NET_ADMIN & 1)


def _settings(config: str | None) -> KubeProxyConfiguration:
    if config is None:
        return KubeProxyConfiguration()
    from netlab.lab.input import read_input
    from netlab.objects.yaml_source import Source

    return read_input([Source(name, data) for name, data in read_files([config])]).config


def _run(kubeconfig: str, settings: KubeProxyConfiguration, node: str) -> int:
    from netlab.node.apiserver import ApiServerSource, resources_of
    from netlab.node.kube_proxy import KubeProxy
    from netlab.node.kubeconfig import read_kubeconfig

    server = read_kubeconfig(kubeconfig)
    print_note(STARTED(node=node, mode=settings.proxy_mode, server=server.url.netloc))
    source = ApiServerSource(server, resources_of(node), _report, lambda text: print_note(CANNOT(text=text)))
    KubeProxy(node, settings, source).run()
    return EXIT_DONE


def _report(method: str, params: Any) -> None:
    """What the proxy says, as lines of a log on standard error."""
    if method == "proxy.synced":
        if params["transactions"]:
            took = f"{params['took_ms']:.1f}"
            counts = {key: params[key] for key in ("revision", "transactions", "lines")}
            print_note(SYNCED(took=took, **counts))
    elif method == "proxy.failed":
        print_note(CANNOT(text=params["text"]))
    elif method == "proxy.complaint":
        print_note(params["text"])
