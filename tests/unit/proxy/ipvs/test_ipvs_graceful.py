"""Real servers that leave, as recorded of the real kube-proxy (tests/conformance/kube-proxy-ipvs/_graceful)."""

from __future__ import annotations

from typing import Any

import pytest

from netlab.kernel.ipvs import RealServer, ServerAddress, Target
from netlab.proxy.ipvs.graceful import finished, next_check, real_changes
from netlab.proxy.ipvs.operations import DeleteReal, NewReal, SetReal
from tests.unit.proxy.build import DRAINING, READY, endpoint_slice, service
from tests.unit.proxy.ipvs.fake_host import FakeHost
from tests.unit.proxy.ipvs.test_ipvs_changes import Proxy
from tests.unit.proxy.worlds import Change

WEB = ServerAddress("tcp", "10.96.0.10", 80)
DNS = ServerAddress("udp", "10.96.0.90", 53)
FIRST, SECOND = "10.244.1.10", "10.244.1.11"
HTTP, HTTP_2 = Target(FIRST, 8080), Target(SECOND, 8080)
QUERY, QUERY_2 = Target(FIRST, 5353), Target(SECOND, 5353)


def endpoints(*ips: str, draining: tuple[str, ...] = ()) -> list[Change]:
    """Both Services have these endpoints."""
    entries: list[dict[str, Any]] = [
        {"addresses": [ip], "nodeName": "node-a", "conditions": DRAINING if ip in draining else READY} for ip in ips
    ]
    web = endpoint_slice("web", "web", entries, [{"name": "http", "port": 8080}])
    dns = endpoint_slice("dns", "dns", entries, [{"name": "dns", "port": 5353, "protocol": "UDP"}])
    return [("put slice", web), ("put slice", dns)]


def started(host: FakeHost | None = None, *batch: Change) -> Proxy:
    proxy = Proxy(host)
    web = "{metadata: web, spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}}"
    dns = "{metadata: dns, spec: {clusterIP: 10.96.0.90, ports: [{name: dns, port: 53, protocol: UDP}]}}"
    proxy.take([("put service", service(web)), ("put service", service(dns)), *(batch or endpoints(FIRST, SECOND))])
    return proxy


def weights(proxy: Proxy, address: ServerAddress) -> dict[Target, int]:
    return {target: real.weight for target, real in proxy.host.actual.servers[address].reals.items()}


def connections(proxy: Proxy, address: ServerAddress, target: Target) -> int:
    return proxy.host.actual.servers[address].reals[target].connections


def test_without_connections_a_real_server_goes_at_once() -> None:
    proxy = started()
    proxy.take(endpoints(FIRST))
    assert weights(proxy, WEB) == {HTTP: 1}
    assert weights(proxy, DNS) == {QUERY: 1}
    assert proxy.proxier.tick_due() is None


def test_with_connections_tcp_stays_at_weight_0_and_udp_goes() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=2)
    proxy.host.connect(DNS, QUERY_2, active=0, inactive=2)
    proxy.take(endpoints(FIRST))
    assert weights(proxy, WEB) == {HTTP: 1, HTTP_2: 0}
    assert weights(proxy, DNS) == {QUERY: 1}
    assert proxy.proxier.tick_due() == 60.0


def test_an_endpoint_that_returns_keeps_its_connections() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=2)
    proxy.take(endpoints(FIRST))
    proxy.take(endpoints(FIRST, SECOND))
    assert weights(proxy, WEB) == {HTTP: 1, HTTP_2: 1}
    assert connections(proxy, WEB, HTTP_2) == 2
    assert proxy.proxier.tick_due() is None


def test_a_terminating_endpoint_leaves_like_one_that_is_gone() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=4)
    proxy.take(endpoints(FIRST, SECOND, draining=(SECOND,)))
    assert weights(proxy, WEB) == {HTTP: 1, HTTP_2: 0}


def test_it_goes_with_the_first_check_after_its_last_connection() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=4)
    proxy.time = 10.0
    proxy.take(endpoints(FIRST))
    proxy.time = 60.0
    assert proxy.proxier.tick() == 0
    proxy.host.connect(WEB, HTTP_2, active=0, inactive=4)
    proxy.time = 120.5
    assert proxy.proxier.tick() == 0
    assert proxy.proxier.tick_due() == 180.0
    proxy.host.connect(WEB, HTTP_2, active=0)
    proxy.time = 179.9
    assert proxy.proxier.tick() == 0
    assert weights(proxy, WEB) == {HTTP: 1, HTTP_2: 0}
    proxy.time = 180.0
    assert proxy.proxier.tick() == 1
    assert weights(proxy, WEB) == {HTTP: 1}
    assert proxy.proxier.tick_due() is None


def test_syncs_in_between_leave_it_to_the_check() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=1)
    proxy.take(endpoints(FIRST))
    proxy.host.connect(WEB, HTTP_2, active=0)
    proxy.take(endpoints(FIRST, "10.244.1.12"))
    proxy.proxier.require_full_sync()
    proxy.take()
    assert weights(proxy, WEB) == {HTTP: 1, HTTP_2: 0, Target("10.244.1.12", 8080): 1}


def test_a_proxy_that_starts_anew_goes_on_with_it() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=4)
    proxy.take(endpoints(FIRST))
    restarted = started(proxy.host, *endpoints(FIRST))
    assert weights(restarted, WEB) == {HTTP: 1, HTTP_2: 0}
    assert connections(restarted, WEB, HTTP_2) == 4
    assert restarted.proxier.tick_due() == 60.0
    again = started(proxy.host, *endpoints(FIRST, SECOND))
    assert weights(again, WEB) == {HTTP: 1, HTTP_2: 1}
    assert connections(again, WEB, HTTP_2) == 4


def test_a_new_proxy_deletes_at_once_what_has_finished_meanwhile() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=4)
    proxy.take(endpoints(FIRST))
    proxy.host.connect(WEB, HTTP_2, active=0)
    restarted = started(proxy.host, *endpoints(FIRST))
    assert weights(restarted, WEB) == {HTTP: 1}


def test_a_deleted_service_ends_its_connections() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP, active=2)
    proxy.host.connect(WEB, HTTP_2, active=2)
    proxy.take(endpoints(FIRST))
    proxy.take([("delete service", "web")])
    assert set(proxy.host.actual.servers) == {DNS}
    assert proxy.proxier.tick_due() is None


def test_a_leaving_real_server_that_others_deleted_is_forgotten() -> None:
    proxy = started()
    proxy.host.connect(WEB, HTTP_2, active=2)
    proxy.take(endpoints(FIRST))
    del proxy.host.actual.servers[WEB].reals[HTTP_2]
    proxy.time = 60.0
    assert proxy.proxier.tick() == 0
    assert proxy.proxier.tick_due() is None


def test_sctp_is_not_graceful() -> None:
    sctp = ServerAddress("sctp", "10.96.0.91", 36412)
    busy = {HTTP: RealServer(1, active=3), HTTP_2: RealServer(1)}
    changes = real_changes(sctp, {HTTP_2}, busy, frozenset())
    assert changes.going == [DeleteReal(sctp, HTTP)]


def test_a_weight_or_method_that_others_changed_is_put_right() -> None:
    actual = {HTTP: RealServer(5), HTTP_2: RealServer(1, method=3)}
    changes = real_changes(WEB, {HTTP, HTTP_2}, actual, frozenset())
    assert sorted(map(str, changes.joining)) == [str(SetReal(WEB, HTTP, 1)), str(SetReal(WEB, HTTP_2, 1))]
    raised = real_changes(WEB, {HTTP}, {HTTP: RealServer(1), HTTP_2: RealServer(1, active=1)}, {HTTP_2})
    assert raised.going == [SetReal(WEB, HTTP_2, 0)]
    assert raised.leaving == {HTTP_2}


def test_those_that_come_are_there_before_others_go() -> None:
    changes = real_changes(WEB, {HTTP}, {HTTP_2: RealServer(1)}, frozenset())
    assert changes == ([NewReal(WEB, HTTP)], [DeleteReal(WEB, HTTP_2)], frozenset())


def test_finished_are_those_without_any_connection() -> None:
    actual = {HTTP: RealServer(0, inactive=1), HTTP_2: RealServer(0)}
    gone = Target("10.244.1.99", 8080)
    assert finished(WEB, {HTTP, HTTP_2, gone}, actual) == ([DeleteReal(WEB, HTTP_2)], frozenset({HTTP}))


@pytest.mark.parametrize(
    ("started_at", "now", "expected"), [(0.0, 0.0, 60.0), (0.0, 59.9, 60.0), (0.0, 60.0, 120.0), (7.0, 70.0, 127.0)]
)
def test_checks_come_once_a_minute_from_the_start_on(started_at: float, now: float, expected: float) -> None:
    assert next_check(started_at, now) == expected
