"""Limits of the machine: read, compared with what is needed, and named."""

from __future__ import annotations

import errno
import resource

import pytest

from netlab.kernel import limits
from netlab.model.errors import MachineCannot

pytestmark = pytest.mark.kernel


def test_all_kinds_are_read() -> None:
    found = limits.namespaces()
    assert set(found) == {f"user.max_{kind}_namespaces" for kind in limits.NAMESPACES}
    assert all(value > 0 for value in found.values())


def test_enough() -> None:
    limits.check_namespaces({"user.max_pid_namespaces": 5}, {"pid": 5, "net": 100})


def test_too_few() -> None:
    with pytest.raises(
        MachineCannot, match=r"user.max_net_namespaces is 4, and this lab needs 5: .*'sysctl user.max_net"
    ):
        limits.check_namespaces({"user.max_pid_namespaces": 9, "user.max_net_namespaces": 4}, {"pid": 9, "net": 5})


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (errno.EAGAIN, resource.RLIMIT_NPROC, "ulimit -u"),
        (errno.EMFILE, resource.RLIMIT_NOFILE, "ulimit -n"),
        (errno.EFBIG, resource.RLIMIT_FSIZE, "ulimit -f"),
    ],
)
def test_a_limit_is_named(code: int, kind: int, words: str) -> None:
    limit = resource.getrlimit(kind)[0]
    said = str(limits.advice(code))
    assert (words in said and str(limit) in said) if limit != resource.RLIM_INFINITY else not said


def test_no_limit_is_named_where_none_was_met() -> None:
    assert not str(limits.advice(errno.EPERM))
    assert "user.max_net_namespaces" in str(limits.advice(errno.ENOSPC))
