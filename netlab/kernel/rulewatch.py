"""Notice that somebody else takes away rules, chains, tables or elements of nftables (iptables-nft included).

Source: nf_tables_commit in net/netfilter/nf_tables_api.c, which tells the group NFNLGRP_NFTABLES of every change.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from netlab.kernel import nfnetlink, nftables
from netlab.kernel.netlink import attributes, messages

_REMOVALS = (nftables.DELTABLE, nftables.DELCHAIN, nftables.DELRULE, nftables.DELSETELEM)
_TABLE = 1
_RECEIVE_SIZE = 64 * 1024


class RuleWatch:
    """What others do to the rules of the namespace that the thread is in when it is made.

    Between :meth:`pause` and :meth:`resume` nothing is heard: one's own changes cost no messages.
    """

    def __init__(self) -> None:
        self._events = nfnetlink.netfilter_socket((nfnetlink.GROUP_NFTABLES,))
        self._events.socket.setblocking(False)
        self._questions = nfnetlink.netfilter_socket()
        self._generation = self._paused_at = self.generation()

    def fileno(self) -> int:
        """Ready for reading when something has changed."""
        return self._events.fileno()

    def generation(self) -> int:
        """The number of the rule set's generation: it rises with every change."""
        return nftables.generation(self._questions)

    def pause(self, is_ours: Callable[[str, str], bool]) -> bool:
        """Stop listening; whether something of ours was removed until now (see :meth:`drain`)."""
        self._events.unsubscribe(nfnetlink.GROUP_NFTABLES)
        removed = self.drain(is_ours)
        self._paused_at = self.generation()
        return removed

    def resume(self, own: int | None) -> bool:
        """Listen again; whether others have changed something since :meth:`pause`.

        ``own``: how many transactions of one's own there were in between; None where nobody knows.
        """
        self._events.subscribe(nfnetlink.GROUP_NFTABLES)
        self._generation = self.generation()
        return own is not None and self._generation - self._paused_at != own

    @property
    def changed(self) -> bool:
        """Whether anybody has changed anything since :meth:`resume`."""
        return self.generation() != self._generation

    def drain(self, is_ours: Callable[[str, str], bool]) -> bool:
        """Read what has been told; whether something was removed from a table that ``is_ours(family, table)``.

        Where the kernel could not tell everything in time, it may have been.
        """
        found = False
        while True:
            try:
                data = self._events.socket.recv(_RECEIVE_SIZE)
            except BlockingIOError:
                return found
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                found = True
                continue
            for message in messages(data):
                if message.type >> 8 == nfnetlink.SUBSYSTEM_NFTABLES and message.type & 0xFF in _REMOVALS:
                    family = nfnetlink.FAMILY_NAMES.get(message.body[0], "")
                    values = dict(attributes(message.body[nfnetlink.HEADER_LENGTH :]))
                    table = values.get(_TABLE, b"").rstrip(b"\0").decode()
                    found = found or is_ours(family, table)
