"""Has tests marked "ipvs" run in a microVM where this kernel has no IPVS for labs; their reports are the host's own.

One guest runs all of them, one after the other. Where it dies, each test that has no report yet fails with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any, Literal

import pytest

from netlab.engine.client import EngineClient
from netlab.kernel import ipvs
from netlab.microvm.contents import Contents, engine_contents, requirements
from netlab.microvm.start import Program, start_engine_in_microvm
from netlab.model import jsonrpc
from netlab.model.errors import LabFailed, NetlabError
from netlab.model.text import Text
from tests.conftest import OWN_MACHINE, ROOT, run_in_sandbox
from tests.microvm import inside

MARK = "ipvs"
TEST_PACKAGES = ("pytest", "hypothesis", "psutil", "jsonschema")


def contents() -> Contents:
    """What an engine needs, the tests, and what they need."""
    found = engine_contents()
    for each in requirements(TEST_PACKAGES):
        found.add_distribution(each)
    found.add_package(ROOT / "tests")
    found.files["/site/pyproject.toml"] = ROOT / "pyproject.toml"
    return found


def start_guest() -> EngineClient:
    """A guest that runs tests. Raises :class:`NetlabError`."""
    return start_engine_in_microvm(program=Program(contents(), inside.__name__))


class Guest:
    """The guest and the reports that it has sent, by test."""

    def __init__(self, tests: list[str]) -> None:
        self.reports: dict[str, list[Any]] = {}
        self.failure: NetlabError | None = None
        self._client: EngineClient | None = None
        try:
            self._client = start_guest()
            self._client.connection.sendall(jsonrpc.request(1, inside.RUN, {"tests": tests}))
        except NetlabError as error:
            self.failure = error

    def reports_of(self, test: str) -> list[Any]:
        """Wait for a test's reports. Raises :class:`NetlabError` where the guest has died."""
        while not any(each["when"] == "teardown" for each in self.reports.get(test, [])):
            if self.failure is not None:
                raise self.failure
            assert self._client is not None
            try:
                told = self._client.wait_notification(inside.REPORT)
            except NetlabError as error:
                self.failure = error
                continue
            if told["test"] is None:
                self.failure = LabFailed(Text("tests", told["report"], told["report"]))
                continue
            self.reports.setdefault(told["test"], []).append(told["report"])
        return self.reports[test]

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


class InMicrovm:
    """The plugin."""

    def __init__(self) -> None:
        self.guest: Guest | None = None

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if item.get_closest_marker(MARK) is None:
            return None
        if self.guest is None:
            if run_in_sandbox(ipvs.works):
                return None
            wanted = [each.nodeid for each in item.session.items if each.get_closest_marker(MARK) is not None]
            self.guest = Guest(wanted)
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        assert self.guest is not None
        try:
            data = self.guest.reports_of(item.nodeid)
        except NetlabError as error:
            words = f"the microVM that the test ran in: {error}"
            keywords: dict[str, Literal[1]] = dict.fromkeys(item.keywords, 1)
            return [pytest.TestReport(item.nodeid, item.location, keywords, "failed", words, "call")]
        hook = item.config.hook
        return [hook.pytest_report_from_serializable(config=item.config, data=each) for each in data]

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        if self.guest is not None:
            self.guest.close()
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    if OWN_MACHINE not in os.environ:
        config.pluginmanager.register(InMicrovm())
