"""Dates in HTTP."""

from __future__ import annotations

from email.utils import formatdate

from hypothesis import given
from hypothesis import strategies as st

from netlab.node.http_server import http_date


@given(st.integers(0, 4_000_000_000))
def test_as_the_standard_library_writes_them(seconds: int) -> None:
    assert http_date(seconds) == formatdate(seconds, usegmt=True)
