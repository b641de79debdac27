"""A guest whose kernel crashes, and one that cannot do what it is asked to: the frontend is told."""

from __future__ import annotations

import pytest

from netlab.model import jsonrpc
from netlab.model.errors import NetlabError
from tests.microvm import inside
from tests.microvm.plugin import start_guest

pytestmark = [pytest.mark.kernel, pytest.mark.xdist_group("microvm")]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (inside.CRASH, "The microVM's kernel has crashed: Kernel panic - not syncing: sysrq"),
        (inside.DIE, "The engine in the microVM, which has 2048 MiB of memory, was ended by signal 9"),
    ],
)
def test_a_sudden_end_is_told(what: str, words: str) -> None:
    with start_guest() as client:
        client.connection.sendall(jsonrpc.request(1, what, {}))
        with pytest.raises(NetlabError) as raised:
            client.wait_notification("none of that name")
    assert str(raised.value).startswith(words)


def test_tests_that_a_guest_does_not_finish_fail() -> None:
    """A test that does not exist is never reported; the plugin says why instead of waiting."""
    with start_guest() as client:
        client.connection.sendall(jsonrpc.request(1, inside.RUN, {"tests": ["tests/ipvs/no_such_file.py"]}))
        end = client.wait_notification(inside.REPORT)
    assert end["test"] is None
    assert "status 4" in end["report"]
