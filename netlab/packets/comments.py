"""A walk's story as comments on its frames: what changed since the packet was last on a wire, by which rule, why."""

from __future__ import annotations

from netlab.model.text import Message, Text
from netlab.model.walk import Step, Walk

STEP = Message(
    "comment.step",
    en="step {n} of {count}, {direction}: {action} at {place}/{interface}",
    zh="第 {n} 步 (共 {count} 步)，{direction}：{place}/{interface} {action}",
)
CHANGE = Message(
    "comment.change",
    en="{action} in {place} {hook}{by}: {source} > {destination}",
    zh="{place} {hook} 中的 {action}{by}：{source} > {destination}",
)
BY_RULE = Message("comment.by-rule", en=" by {chain} ({rule})", zh="，规则 {chain} ({rule})")
BECAUSE = Message("comment.because", en="because of {origin}", zh="原因：{origin}")
EMPTY = Message("comment.empty", en="", zh="")
REQUEST = Message("comment.request", en="request", zh="请求")
REPLY = Message("comment.reply", en="reply", zh="应答")
SENT = Message("comment.sent", en="sent", zh="发出")
RECEIVED = Message("comment.received", en="received", zh="收到")


def frame_comments(walk: Walk, language: str) -> dict[str, list[str]]:
    """Comments by frame id, in the reader's language."""
    comments: dict[str, list[str]] = {}
    pending: list[Text] = []
    last: str | None = None

    def tell_pending() -> None:
        """What happened after a packet's last frame (a drop) is told at that frame."""
        if last is not None:
            comments[last] += [text.in_language(language) for text in pending]
        pending.clear()

    direction = "request"
    for step in walk.steps:
        if step.direction != direction:
            tell_pending()
            direction = step.direction
        if step.hook is not None:
            if step.changed or step.action in ("drop", "reject"):
                pending += _change(step)
            continue
        last = step.evidence[0]
        texts = [_place(step, len(walk.steps)), *pending]
        pending.clear()
        comments.setdefault(last, []).extend(text.in_language(language) for text in texts)
    tell_pending()
    return comments


def _place(step: Step, count: int) -> Text:
    if step.action == "unanswered" and step.reason is not None:
        return step.reason
    return STEP(
        n=step.n,
        count=count,
        direction=REQUEST() if step.direction == "request" else REPLY(),
        action=SENT() if step.action == "sent" else RECEIVED(),
        place=step.place,
        interface=step.interface,
    )


def _change(step: Step) -> list[Text]:
    by = BY_RULE(chain=step.chain, rule=step.rule) if step.rule is not None else EMPTY()
    texts = [
        CHANGE(
            action=step.action,
            place=step.place,
            hook=step.hook,
            by=by,
            source=step.source,
            destination=step.destination,
        )
    ]
    if step.reason is not None:
        texts.append(step.reason)
    if step.origin is not None:
        texts.append(BECAUSE(origin=step.origin))
    return texts
