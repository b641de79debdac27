"""Pods: processes in namespaces of their own that see no file of the host.

A Pod here is one process, PID 1 of its pid namespace, that stands in for all its containers
(:mod:`netlab.node.standin`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any

from netlab.kernel import libc
from netlab.node import standin, zygote

KIND = "pod"


def start_zygote() -> zygote.Zygote:
    """The fork server that Pods come from."""
    return zygote.start("netlab-pods", {KIND: _run}, _leave_the_host, pid_namespaces=True)


def parameters(pod: str, node: str, hostname: str, addresses: list[str]) -> dict[str, Any]:
    """What the fork server needs to make a Pod, besides its network namespace and its control connection."""
    return {
        "identity": {"pod": pod, "node": node, "stand_in": True},
        "hostname": hostname,
        "addresses": addresses,
    }


def _leave_the_host() -> None:
    """An empty, read-only root: what Pods are forked from has everything in memory already."""
    libc.unshare(libc.CLONE_NEWNS)
    root = "/run/netlab-pod-root"
    os.mkdir(root)
    flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
    libc.mount("tmpfs", root, "tmpfs", flags, "mode=555,size=4k")
    os.chdir(root)
    libc.pivot_root(".", ".")
    libc.unmount(".", libc.MNT_DETACH)
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)


def _run(given: Mapping[str, Any], descriptors: list[int]) -> None:
    namespace, control, *_ = descriptors
    libc.setns(namespace, libc.CLONE_NEWNET)
    os.close(namespace)
    libc.unshare(libc.CLONE_NEWUTS | libc.CLONE_NEWIPC)
    libc.sethostname(given["hostname"])
    libc.prctl(libc.PR_SET_NAME, given["hostname"].encode()[:15])
    connection = socket.socket(fileno=control)
    standin.serve(given["identity"], given["addresses"], connection)
