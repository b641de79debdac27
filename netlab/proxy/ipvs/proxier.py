"""The ipvs mode at work on one node in one family: keeps the kernel equal to what objects ask for."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence

from netlab.kernel import ipvs, sysctl
from netlab.kernel.netlink import NetlinkError
from netlab.model.errors import LabFailed, MachineCannot
from netlab.model.text import Message
from netlab.objects.ip import Address
from netlab.objects.proxyconfig import KubeProxyConfiguration
from netlab.proxy.changes import PortState
from netlab.proxy.family import Family
from netlab.proxy.ipvs.difference import Plan, change_plan, full_plan, to_count
from netlab.proxy.ipvs.graceful import Leaving, finished, next_check
from netlab.proxy.ipvs.host import REFUSED, Host, NodeHost
from netlab.proxy.ipvs.operations import DeleteReal
from netlab.proxy.ipvs.settings import DEFAULT_SCHEDULER, Settings, ipvs_settings, sysctls, timeouts
from netlab.proxy.ipvs.state import IpvsChange, IpvsState
from netlab.proxy.ipvs.values import port_value
from netlab.proxy.proxier import SyncReport
from netlab.proxy.service_ports import ServicePortName

NO_SYSCTL = Message(
    "ipvs.no-sysctl",
    en="Mode ipvs cannot be used here: the kernel's setting {name} cannot be made {value}: {error}",
    zh="此处无法使用 ipvs 模式：无法将内核设置 {name} 改为 {value}：{error}",
)

SettingsFor = Callable[[Sequence[Address]], Settings]
"""Settings from the addresses on the node's links, which come and go while the proxy runs."""


def prepare_node(node: str, config: KubeProxyConfiguration) -> None:
    """Once, before the proxiers of a node's families are made: see that IPVS works here, and set up the kernel.

    In the network namespace of the calling thread; ``node`` is named in error messages. Raises
    :class:`MachineCannot`, naming what is missing, and :class:`LabFailed` where the kernel refuses.
    """
    wanted = timeouts(config)
    try:
        ipvs.check_usable(config.ipvs.scheduler or DEFAULT_SCHEDULER)
        if wanted is not None:
            with ipvs.Ipvs() as kernel:
                kernel.run([ipvs.set_timeouts(wanted)])
    except NetlinkError as error:
        raise LabFailed(REFUSED(node=node, what=error.strerror)) from error
    for name, value in sysctls(config, _kernel_version(os.uname().release)).items():
        try:
            if sysctl.read(name) != str(value):
                sysctl.write(name, value)
        except OSError as error:
            raise MachineCannot(NO_SYSCTL(name=name, value=value, error=error.strerror)) from error


def make_proxier(
    node: str,
    config: KubeProxyConfiguration,
    family: Family,
    *,
    node_ips: Sequence[Address],
    pod_cidrs: Sequence[str],
) -> IpvsProxier:
    """The proxier of one family for the network namespace that the calling thread is in.

    ``node_ips``: the node's own addresses as its Node object has them, primary first; ``pod_cidrs``: its ranges for
    Pods.
    """

    def settings_for(local_addresses: Sequence[Address]) -> Settings:
        return ipvs_settings(config, family, node_ips=node_ips, local_addresses=local_addresses, pod_cidrs=pod_cidrs)

    return IpvsProxier(NodeHost(node, family), settings_for)


class IpvsProxier:
    """Implements :class:`netlab.proxy.proxier.Proxier`.

    Besides :meth:`sync` its process has to call :meth:`tick` at the time that :meth:`tick_due` names. ``clock`` is
    read in seconds that only grow.
    """

    def __init__(self, host: Host, settings_for: SettingsFor, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self.state = IpvsState(settings_for(host.node_addresses()))
        self.leaving: Leaving = {}
        self._settings_for = settings_for
        self._clock = clock
        self._started = clock()
        self._next_tick = next_check(self._started, self._started)
        self._full = True

    def close(self) -> None:
        """Stop; what is in the kernel stays, real servers that are leaving among it."""
        self.host.close()

    def require_full_sync(self) -> None:
        self._full = True

    def sync(
        self, changed: Mapping[ServicePortName, PortState | None], ports: Mapping[ServicePortName, PortState]
    ) -> SyncReport:
        full = self._full
        # Whatever goes wrong from here on, what the kernel holds is no longer known.
        self._full = True
        change = self._replace(changed)
        if (full or self.host.addresses_changed()) and self._take_addresses():
            self._replace(ports)
            full = True
        specs, exclude = self.state.specs, self.state.settings.exclude
        if full:
            plan = full_plan(self.state.wanted(), self.host.read(), specs, exclude, self.leaving)
        else:
            counted = self.host.reals(to_count(change, self.leaving))
            plan = change_plan(change, counted, specs, exclude, self.leaving)
        applied = self._carry_out(plan)
        self._full = False
        return SyncReport(full, *applied)

    def _replace(self, changed: Mapping[ServicePortName, PortState | None]) -> IpvsChange:
        settings = self.state.settings
        return self.state.replace(
            {name: port_value(each, settings) if each is not None else None for name, each in changed.items()}
        )

    def _take_addresses(self) -> bool:
        """Whether the addresses of the node's links have made for other settings."""
        settings = self._settings_for(self.host.node_addresses())
        if settings == self.state.settings:
            return False
        self.state.settings = settings
        return True

    def _carry_out(self, plan: Plan) -> tuple[int, int]:
        applied = self.host.apply(plan.operations)
        if plan.leaving and not self.leaving:
            self._next_tick = next_check(self._started, self._clock())
        self.leaving = plan.leaving
        return applied

    def tick_due(self) -> float | None:
        """When to look whether leaving real servers have finished; None while none is leaving."""
        return self._next_tick if self.leaving else None

    def tick(self) -> int:
        """Delete the leaving real servers that have no connection any more, if it is time; returns how many."""
        now = self._clock()
        if not self.leaving or now < self._next_tick:
            return 0
        self._next_tick = next_check(self._started, now)
        over: list[DeleteReal] = []
        still: dict[ipvs.ServerAddress, frozenset[ipvs.Target]] = {}
        counted = self.host.reals(list(self.leaving))
        for address, targets in self.leaving.items():
            done, remaining = finished(address, targets, counted[address])
            over += done
            if remaining:
                still[address] = remaining
        self.host.apply(over)
        self.leaving = still
        return len(over)


def _kernel_version(release: str) -> tuple[int, int]:
    """ "6.1.0-53-cloud-amd64" is (6, 1); (0, 0) for a release that is not numbered so."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)
