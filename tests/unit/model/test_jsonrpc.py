"""Messages on the wire: what goes in comes out, in lines, whatever the pieces that they arrive in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netlab.model import jsonrpc
from netlab.model.errors import EXIT_BAD_INPUT, EXIT_MACHINE, BadInput, LabFailed, MachineCannot, NetlabError
from netlab.model.jsonrpc import LineBuffer
from netlab.model.text import Text

TEXT = Text("test.text", "it failed", "失败了")
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)


def plain(line: bytes) -> Any:
    """What a line says to whoever reads JSON; it has to be one line."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line)


class TestMessages:
    def test_a_request(self) -> None:
        line = jsonrpc.request(7, "lab.walk", {"from": "client"})
        assert plain(line) == {"jsonrpc": "2.0", "id": 7, "method": "lab.walk", "params": {"from": "client"}}

    def test_a_notification_has_no_id(self) -> None:
        assert plain(jsonrpc.notification("engine.ending", {})) == {
            "jsonrpc": "2.0",
            "method": "engine.ending",
            "params": {},
        }

    @pytest.mark.parametrize("result", [None, 0, "", [], {}, {"a": 1}])
    def test_an_answer_has_a_result_whatever_it_is(self, result: Any) -> None:
        line = jsonrpc.answer(7, result)
        assert plain(line) == {"jsonrpc": "2.0", "id": 7, "result": result}
        assert jsonrpc.decode(line).result == result

    def test_a_failure(self) -> None:
        line = jsonrpc.failure(7, jsonrpc.Error(jsonrpc.GONE, "Expired"))
        assert plain(line) == {
            "jsonrpc": "2.0",
            "id": 7,
            "error": {"code": -32010, "message": "Expired", "data": None},
        }

    @given(st.integers(0, 2**31), st.text(min_size=1), json_values)
    def test_any_request_arrives_as_it_was(self, number: int, method: str, params: Any) -> None:
        message = jsonrpc.decode(jsonrpc.request(number, method, params))
        assert (message.id, message.method, message.params) == (number, method, params)
        assert message.result is msgspec.UNSET
        assert message.error is None

    @pytest.mark.parametrize(
        "line",
        [
            b"",
            b"{",
            b"[]",
            b"5",
            b'"text"',
            b"null",
            b'{"id": "seven"}',
            b'{"jsonrpc": "1.0"}',
            b'{"error": 5}',
            b"\xff",
        ],
    )
    def test_what_is_no_message(self, line: bytes) -> None:
        with pytest.raises(msgspec.DecodeError):
            jsonrpc.decode(line)

    def test_text_that_is_none(self) -> None:
        with pytest.raises(UnicodeEncodeError):
            jsonrpc.request(1, "lab.walk", {"from": "\udcff"})


class TestErrors:
    @pytest.mark.parametrize("kind", [BadInput, MachineCannot, LabFailed])
    def test_text_and_exit_status_reach_the_user(self, kind: type[NetlabError]) -> None:
        line = jsonrpc.failure(1, jsonrpc.error_from(kind(TEXT)))
        error = jsonrpc.decode(line).error
        assert error is not None
        assert error.message == "it failed"
        exception = jsonrpc.exception_from(error)
        assert exception.text == TEXT
        assert exception.exit_status == kind.exit_status
        assert isinstance(exception, BadInput) == (kind is BadInput)

    def test_an_error_of_another_program(self) -> None:
        exception = jsonrpc.exception_from(jsonrpc.Error(jsonrpc.INTERNAL_ERROR, "something"))
        assert exception.exit_status == EXIT_MACHINE
        assert exception.text.en == exception.text.zh == "something"

    def test_the_status_is_that_of_the_data(self) -> None:
        error = jsonrpc.Error(jsonrpc.NETLAB_ERROR, "x", jsonrpc.ErrorData(TEXT, EXIT_BAD_INPUT))
        assert isinstance(jsonrpc.exception_from(error), BadInput)


class TestLineBuffer:
    @given(st.lists(st.binary().map(lambda data: data.replace(b"\n", b"")), max_size=5), st.data())
    def test_lines_come_out_whole_however_they_are_cut(self, lines: list[bytes], data: st.DataObject) -> None:
        stream = b"".join(line + b"\n" for line in lines)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
        buffer = LineBuffer()
        found: list[bytes] = []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            found += buffer.feed(stream[start:end])
        assert found == [line for line in lines if line]

    def test_a_line_without_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jsonrpc, "LINE_LIMIT", 1000)
        buffer = LineBuffer()
        assert buffer.feed(b"x" * 600) == []
        with pytest.raises(ValueError, match="more than 1000 bytes"):
            buffer.feed(b"x" * 600)

    def test_the_limit_is_of_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jsonrpc, "LINE_LIMIT", 1000)
        buffer = LineBuffer()
        for _ in range(10):
            assert buffer.feed(b"x" * 600) == []
            assert buffer.feed(b"\n") == [b"x" * 600]
