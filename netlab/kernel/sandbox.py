"""The one unshared user + mount + pid + network + IPC + UTS namespace that a whole lab lives in.

:func:`enter` turns the calling process into the lab's PID 1: when it ends, for whatever reason, the kernel ends every
process in the lab and takes back every namespace, link and mount (pid_namespaces(7), user_namespaces(7)).

Nothing of the host is changed. An ordinary user needs no privileges. Started as root, the sandbox maps its root to
uid 65534 of the host: with real uid 0 mapped, ``/proc/sys/kernel`` and ``/proc/sys/vm`` of the host would stay
writable. Root of a user namespace that has no such uid (``unshare --map-root-user``) is an ordinary user outside, and
is treated like one.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from netlab.kernel import libc
from netlab.kernel.limits import namespaces
from netlab.model.errors import MachineCannot
from netlab.model.text import Message

OVERFLOW_ID = 65534
RUN = Path("/run")

NO_USER_NAMESPACES = Message(
    "sandbox.no-user-namespaces",
    en="This machine does not let {who} create a user namespace ({error}). {advice}",
    zh="这台机器不允许 {who} 创建用户命名空间 ({error})。{advice}",
)
ADVICE_MAX = Message(
    "sandbox.advice.max",
    en="The limit {setting} is {limit}: an administrator can raise it with 'sysctl {setting}=15000'.",
    zh="上限 {setting} 为 {limit}：管理员可以用 'sysctl {setting}=15000' 提高它。",
)
ADVICE_PROCESSES = Message(
    "sandbox.advice.processes",
    en="A user may have {limit} processes and threads here ('ulimit -u'); a lab needs about 30.",
    zh="此处一个用户最多可有 {limit} 个进程和线程 ('ulimit -u')；一个实验约需 30 个。",
)
ADVICE_CLONE = Message(
    "sandbox.advice.clone",
    en="The setting kernel.unprivileged_userns_clone is 0: an administrator can allow it with "
    "'sysctl kernel.unprivileged_userns_clone=1', or start kube-netlab as root.",
    zh="设置 kernel.unprivileged_userns_clone 为 0：管理员可以用 'sysctl kernel.unprivileged_userns_clone=1' 放开，"
    "或者以 root 启动 kube-netlab。",
)
ADVICE_APPARMOR = Message(
    "sandbox.advice.apparmor",
    en="The setting kernel.apparmor_restrict_unprivileged_userns is 1: start kube-netlab as root (it gives root up at "
    "once), or let an administrator allow it with 'sysctl kernel.apparmor_restrict_unprivileged_userns=0'.",
    zh="设置 kernel.apparmor_restrict_unprivileged_userns 为 1：请以 root 启动 kube-netlab (它会立即放弃 root 权限)，"
    "或由管理员执行 'sysctl kernel.apparmor_restrict_unprivileged_userns=0' 放开。",
)
ADVICE_CONTAINER = Message(
    "sandbox.advice.container",
    en="In a container, its seccomp profile is the usual reason: start the container with "
    "'--security-opt seccomp=unconfined --security-opt systempaths=unconfined', or use a virtual machine.",
    zh="在容器中，通常是 seccomp 配置所致：请用 '--security-opt seccomp=unconfined --security-opt "
    "systempaths=unconfined' 启动容器，或者使用虚拟机。",
)
UNREADABLE = Message(
    "sandbox.unreadable",
    en="Started as root, a lab runs as uid {uid}, and that user cannot read {path}: make it readable for others, as in "
    "'{command}', or start kube-netlab as an ordinary user.",
    zh="以 root 启动时，实验以 uid {uid} 运行，而该用户无法读取 {path}：请让其他用户可读，例如 "
    "'{command}'，或者以普通用户身份启动 kube-netlab。",
)
SETUP_FAILED = Message(
    "sandbox.setup-failed",
    en="The lab's sandbox cannot be set up: {error}. {advice}",
    zh="无法建立实验沙箱：{error}。{advice}",
)


def enter(
    report_init: Callable[[int], None],
    readable: Iterable[Path] = (),
    *,
    own_users: bool = True,
    preload: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Become the lab's PID 1; returns in that process only, and returns how many namespaces of each kind there may be.

    The calling process calls ``report_init`` with the host's pid of the lab's PID 1 and exits with status 0. It is the
    new process's parent only for that moment: whoever wants to wait for it makes itself a child subreaper (prctl(2)).

    ``readable`` are the paths that the program itself is read from. When root starts the lab from where nobody else can
    look, they are made reachable, see :func:`expose`; where their files cannot be read by others either, ``preload`` is
    called, which is to import all that will be needed, as long as we are root.

    Without ``own_users`` there is no user namespace, and root stays root: for a machine that is the lab's alone.

    Raises :class:`MachineCannot`, in the calling process or in the lab's PID 1, naming what is missing.
    """
    readable = list(readable)
    who = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
    as_root = own_users and os.geteuid() == 0 and _is_mapped(OVERFLOW_ID)
    limits = namespaces()
    try:
        if as_root and (closed := _closed(readable, OVERFLOW_ID)):
            libc.unshare(libc.CLONE_NEWNS)
            libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
            expose(closed)
        if as_root and _first_unreadable(readable, _others_may) is not None:
            preload()
        if own_users:
            _enter_user_namespace(as_root)
        libc.unshare(libc.CLONE_NEWNS | libc.CLONE_NEWPID | libc.CLONE_NEWNET | libc.CLONE_NEWIPC | libc.CLONE_NEWUTS)
    except OSError as error:
        words = os.strerror(error.errno or 0)
        raise MachineCannot(NO_USER_NAMESPACES(who=who, error=words, advice=_advice(error, limits))) from error
    child = os.fork()
    if child:
        report_init(child)
        os._exit(0)
    _become_init(readable)
    return limits


def _is_mapped(uid: int) -> bool:
    """Whether a uid exists in this user namespace."""
    with suppress(OSError):
        for line in Path("/proc/self/uid_map").read_text().splitlines():
            first, _, count = (int(each) for each in line.split())
            if first <= uid < first + count:
                return True
    return False


def check_readable(paths: Iterable[Path]) -> None:
    """Raises :class:`MachineCannot` where this process, started as root and no longer root, cannot read the program.

    ``paths`` are those that :func:`enter` got. To be called when something could not be imported.
    """
    found = _first_unreadable(paths, os.access)
    if found is not None:
        path, command = found
        raise MachineCannot(UNREADABLE(uid=OVERFLOW_ID, path=path, command=command))


def _first_unreadable(paths: Iterable[Path], may: Callable[[Path, int], bool]) -> tuple[Path, str] | None:
    """A file or folder of a program that somebody may not read, and the command that lets everybody read it."""
    for folder in paths:
        for parent in reversed(folder.parents):
            if not may(parent, os.X_OK):
                return parent, f"chmod o+x {parent}"
        for each, needed in _program_files(folder):
            if not may(each, needed):
                return each, f"chmod -R o+rX {folder}"
    return None


def _program_files(folder: Path) -> Iterator[tuple[Path, int]]:
    """What Python reads of a checkout or an installation, a folder before what is in it; and how, as for access(2)."""
    enter = os.R_OK | os.X_OK
    yield folder, enter
    if (folder / "netlab").is_dir():
        yield folder / "netlab", enter
        for place, folders, files in os.walk(folder / "netlab"):
            folders[:] = [name for name in folders if name != "__pycache__"]
            yield from ((Path(place, name), enter) for name in folders)
            yield from ((Path(place, name), os.R_OK) for name in files)
    for site in folder.glob("lib/python3*/site-packages"):
        yield site, enter
        with os.scandir(site) as packages:
            yield from ((Path(each.path), enter if each.is_dir() else os.R_OK) for each in packages)


def _others_may(path: Path, mode: int) -> bool:
    """os.access(2) for a user to whom nothing belongs, such as the lab's."""
    return not mode & ~path.stat().st_mode


def _enter_user_namespace(as_root: bool) -> None:
    """Unshare the user namespace and become its uid and gid 0, mapped to us (or, from root, to 65534) outside.

    A helper process that stays outside writes the maps: it alone has the right to map another uid than its own.
    """
    me = os.getpid()
    uid = OVERFLOW_ID if as_root else os.geteuid()
    gid = OVERFLOW_ID if as_root else os.getegid()
    start_read, start_write = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(start_write)
        if os.read(start_read, 1) != b"x":
            os._exit(0)
        try:
            proc = Path(f"/proc/{me}")
            if not as_root:
                (proc / "setgroups").write_text("deny")
            (proc / "uid_map").write_text(f"0 {uid} 1")
            (proc / "gid_map").write_text(f"0 {gid} 1")
        except OSError as error:
            os._exit(error.errno or errno.EPERM)
        os._exit(0)
    os.close(start_read)
    try:
        libc.unshare(libc.CLONE_NEWUSER)
        os.write(start_write, b"x")
    finally:
        os.close(start_write)
        _, status = os.waitpid(helper, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise OSError(code, os.strerror(abs(code)))
    if as_root:
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _become_init(readable: Iterable[Path]) -> None:
    """As PID 1: mounts of our own, so that /proc tells of the lab's processes, and /run is writable and empty but for
    the program where that is read from there."""
    try:
        libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
        libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
        _cover(RUN, [path for each in readable if RUN in (path := each.resolve()).parents], "mode=755,size=16m")
    except OSError as error:
        raise MachineCannot(SETUP_FAILED(error=error.strerror, advice=_advice(error))) from error


def _advice(error: OSError, limits: Mapping[str, int] | None = None) -> object:
    if error.errno == errno.EAGAIN:
        return ADVICE_PROCESSES(limit=resource.getrlimit(resource.RLIMIT_NPROC)[0])
    if error.errno == errno.ENOSPC and limits:
        setting = min(limits, key=limits.__getitem__)
        return ADVICE_MAX(setting=setting, limit=limits[setting])
    if _setting("kernel/unprivileged_userns_clone") == "0":
        return ADVICE_CLONE()
    if _setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return ADVICE_APPARMOR()
    return ADVICE_CONTAINER()


def _setting(name: str) -> str:
    with suppress(OSError):
        return Path("/proc/sys", name).read_text().strip()
    return "?"


def _closed(paths: Iterable[Path], uid: int) -> dict[Path, list[Path]]:
    """The paths that a user cannot reach, by the outermost folder on the way that is closed to that user."""
    closed: dict[Path, list[Path]] = {}
    for path in sorted({path.resolve() for path in paths}):
        barrier = next((folder for folder in reversed(path.parents) if not _searchable(folder, uid)), None)
        if barrier is not None:
            closed.setdefault(barrier, []).append(path)
    return closed


def expose(closed: dict[Path, list[Path]]) -> None:
    """Make paths reachable for everybody in this process's own mount namespace (root only).

    Over each closed folder (``/root``) an empty one is mounted that is open and holds the wanted paths alone, at their
    old places. The rest of the closed folder is out of sight afterwards.
    """
    for barrier, wanted in closed.items():
        _cover(barrier, wanted, "mode=755,size=1m")


def _cover(folder: Path, wanted: Iterable[Path], options: str) -> None:
    """Mount an empty folder over one, and the wanted paths of that in their old places again."""
    kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in wanted]
    libc.mount("tmpfs", str(folder), "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
    for path, descriptor in kept:
        path.mkdir(parents=True, exist_ok=True)
        libc.mount(f"/proc/self/fd/{descriptor}", str(path), None, libc.MS_BIND | libc.MS_REC)
        os.close(descriptor)


def _searchable(folder: Path, uid: int) -> bool:
    status = folder.stat()
    bit = stat.S_IXUSR if status.st_uid == uid else stat.S_IXOTH
    return bool(status.st_mode & bit)
