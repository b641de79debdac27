"""The folder of sockets: names are given once, taken back, and found; what is dead is cleared away."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from netlab.engine import rendezvous
from netlab.engine.rendezvous import Listener
from netlab.model.errors import BadInput, MachineCannot
from tests.conftest import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return rendezvous.directory()


def dead(path: Path) -> Path:
    """A socket that nobody listens at any more."""
    with socket.socket(socket.AF_UNIX) as once:
        once.bind(str(path))
        once.listen()
    return path


class TestFolder:
    def test_it_is_made_for_the_user_alone(self, folder: Path, tmp_path: Path) -> None:
        assert folder == tmp_path / "kube-netlab"
        assert folder.stat().st_mode & 0o777 == 0o700

    def test_without_a_runtime_folder_it_is_in_tmp(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        assert rendezvous.directory() == Path(f"/tmp/kube-netlab-{os.getuid()}")

    @pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
    def test_others_must_not_have_rights_in_it(self, folder: Path, mode: int) -> None:
        folder.chmod(mode)
        with pytest.raises(MachineCannot, match="not a folder of your own with mode 0700"):
            rendezvous.directory()

    def test_it_must_be_no_link(self, folder: Path, tmp_path: Path) -> None:
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(MachineCannot, match="not a folder of your own"):
            rendezvous.directory()

    def test_it_must_be_a_folder(self, folder: Path) -> None:
        folder.rmdir()
        folder.touch()
        with pytest.raises(MachineCannot, match="not a folder of your own"):
            rendezvous.directory()

    def test_it_cannot_be_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere")
        with pytest.raises(MachineCannot, match="No such file or directory"):
            rendezvous.directory()


class TestNames:
    @pytest.mark.parametrize("name", ["a", "lab", "lab-1", "1", "a" * 63])
    def test_good(self, name: str) -> None:
        rendezvous.check_name(name)

    @pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a.b", "a/b", "..", "a b", "a\n", "ä", "a" * 64])
    def test_bad(self, name: str) -> None:
        with pytest.raises(BadInput, match="cannot be a lab's name"):
            rendezvous.check_name(name)


class TestListener:
    def test_a_name_is_given_and_taken_back(self, folder: Path) -> None:
        with Listener(folder) as listener:
            assert rendezvous.running(folder) == {}
            listener.publish("lab")
            path = rendezvous.find("lab")
            assert path == folder / "lab.sock"
            assert path.stat().st_mode & 0o777 == 0o600
            rendezvous.connect(path).close()
        assert list(folder.glob("*")) == []

    def test_the_folder_goes_with_the_last_of_them(self, folder: Path) -> None:
        with Listener(folder):
            with Listener(folder):
                pass
            assert folder.is_dir()
        assert not folder.exists()

    def test_a_folder_that_has_gone_is_made_again(self, folder: Path) -> None:
        listener = Listener(folder)
        folder.rmdir()
        with listener:
            listener.publish("lab")
            assert folder.stat().st_mode & 0o777 == 0o700
            assert rendezvous.find("lab") == folder / "lab.sock"

    def test_a_folder_that_goes_while_somebody_waits_for_it(self, folder: Path) -> None:
        """Many come and go: each finds its socket in the folder that is there."""
        script = "\n".join(
            [
                "import sys; from pathlib import Path; from netlab.engine import rendezvous",
                "folder, name = Path(sys.argv[1]), sys.argv[2]",
                "for _ in range(200):",
                "    with rendezvous.Listener(folder) as listener:",
                "        listener.publish(name)",
                "        assert rendezvous.is_alive(folder / f'{name}.sock')",
            ]
        )
        command = [sys.executable, "-c", script, str(folder)]
        processes = [subprocess.Popen([*command, f"lab-{number}"], cwd=ROOT) for number in range(4)]
        assert [process.wait() for process in processes] == [0] * 4
        assert not folder.exists()

    def test_what_the_dead_have_left_goes_with_the_folder(self, folder: Path) -> None:
        for name in ("lab.sock", ".1-abc.sock"):
            dead(folder / name)
        assert rendezvous.running(folder) == {}
        assert not folder.exists()

    def test_without_a_name_nothing_is_found_and_nothing_stays(self, folder: Path) -> None:
        with Listener(folder):
            assert len(list(folder.glob("*"))) == 1
            assert rendezvous.running(folder) == {}
            assert len(list(folder.glob("*"))) == 1
        assert list(folder.glob("*")) == []

    def test_a_name_in_use(self, folder: Path) -> None:
        with Listener(folder) as first, Listener(folder) as second:
            first.publish("lab")
            with pytest.raises(BadInput, match='a lab named "lab" is running: choose another name'):
                second.publish("lab")
            second.publish("other")
            assert list(rendezvous.running(folder)) == ["lab", "other"]

    def test_a_name_of_the_dead(self, folder: Path) -> None:
        dead(folder / "lab.sock")
        with Listener(folder) as listener:
            listener.publish("lab")
            assert rendezvous.is_alive(rendezvous.find("lab"))

    def test_a_name_that_is_a_folder(self, folder: Path) -> None:
        (folder / "lab.sock").mkdir()
        with Listener(folder) as listener, pytest.raises(MachineCannot, match="Is a directory"):
            listener.publish("lab")

    def test_a_name_that_another_has_by_now_is_not_taken_back(self, folder: Path) -> None:
        with Listener(folder) as first:
            first.publish("lab")
            first.socket.close()
            second = Listener(folder)
            second.__enter__()
            second.publish("lab")
        assert rendezvous.is_alive(folder / "lab.sock")
        second.__exit__(None, None, None)
        assert list(folder.glob("*")) == []

    def test_a_name_that_is_kept(self, folder: Path) -> None:
        with Listener(folder) as listener:
            inherited = listener.socket.dup()
            listener.publish("lab")
            listener.keep()
        assert list(rendezvous.running(folder)) == ["lab"]
        inherited.close()
        assert rendezvous.running(folder) == {}

    def test_a_name_is_kept_only_while_somebody_listens(self, folder: Path) -> None:
        with Listener(folder) as listener:
            listener.publish("lab")
            listener.keep()
        assert list(folder.glob("*")) == []

    def test_a_long_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        long = tmp_path / ("x" * 120)
        long.mkdir()
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
        with Listener(rendezvous.directory()) as listener:
            listener.publish("a" * 63)
            rendezvous.connect(rendezvous.find("a" * 63)).close()

    def test_the_folder_goes_away(self, folder: Path) -> None:
        with Listener(folder) as listener:
            folder.rename(folder.with_name("moved"))
            with pytest.raises(MachineCannot, match="No such file or directory"):
                listener.publish("lab")

    def test_many_want_one_name(self, folder: Path) -> None:
        outcomes: list[bool] = []
        barrier = threading.Barrier(8)
        finished = threading.Barrier(8)

        def try_it() -> None:
            with Listener(folder) as listener:
                barrier.wait()
                try:
                    listener.publish("lab")
                    outcomes.append(True)
                except BadInput:
                    outcomes.append(False)
                finished.wait()

        threads = [threading.Thread(target=try_it) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sorted(outcomes) == [False] * 7 + [True]
        assert list(folder.glob("*")) == []


class TestRunning:
    def test_the_dead_are_cleared_away(self, folder: Path) -> None:
        for name in ("lab.sock", ".123-abc.sock"):
            dead(folder / name)
        (folder / "file.sock").write_text("not a socket")
        (folder / "notes.txt").write_text("left alone")
        assert rendezvous.running(folder) == {}
        assert [path.name for path in folder.iterdir()] == ["notes.txt"]

    def test_one_whose_queue_is_full_is_alive(self, folder: Path) -> None:
        waiting = []
        with Listener(folder) as listener:
            listener.publish("lab")
            path = folder / "lab.sock"
            try:
                while True:
                    waiting.append(rendezvous.connect(path, blocking=False))
            except BlockingIOError:
                assert rendezvous.is_alive(path)
            for each in waiting:
                each.close()

    def test_one_that_does_not_run(self, folder: Path) -> None:
        with pytest.raises(BadInput, match='no lab named "lab" is running; none is running'):
            rendezvous.find("lab")
        with Listener(folder) as listener:
            listener.publish("other")
            with pytest.raises(BadInput, match='no lab named "lab" is running; running: other'):
                rendezvous.find("lab")
