"""The few errors that may reach a user, each with a text in every language and the exit status it leads to.

Everything else that is raised is a fault of the program.
"""

from __future__ import annotations

from netlab.model.text import Message, Text

EXIT_DONE = 0
EXIT_NO = 1
EXIT_BAD_INPUT = 2
EXIT_MACHINE = 3


class NetlabError(Exception):
    """An error that a person can act on: ``text`` says what happened and, where there is a way out, what to do."""

    exit_status = EXIT_NO

    def __init__(self, text: Text) -> None:
        super().__init__(text.en)
        self.text = text


class BadInput(NetlabError):
    """The user's words or files are not usable as they are: exit status 2, and nothing has been applied."""

    exit_status = EXIT_BAD_INPUT


class MachineCannot(NetlabError):
    """This machine lacks a permission, a kernel feature or a tool that the request needs: exit status 3."""

    exit_status = EXIT_MACHINE


class LabFailed(NetlabError):
    """A lab stopped, could not be built or did not answer: exit status 3."""

    exit_status = EXIT_MACHINE


UNEXPECTED = Message(
    "error.unexpected",
    en="{what}. This is a fault of kube-netlab, not of your input: please report it with {details}.",
    zh="{what}。这是 kube-netlab 自身的缺陷，而不是您输入的问题：请附上 {details} 反馈。",
)
