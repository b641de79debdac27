"""The colours of both themes. Colour means something or is not there; a shape or a word always says the same."""

from __future__ import annotations

from dataclasses import dataclass

from netlab.model.walk import Verdict


@dataclass(frozen=True)
class Theme:
    """Colours by what they mean, as "#rrggbb"."""

    dark: bool
    window: str
    surface: str
    raised: str
    border: str
    text: str
    muted: str
    faint: str
    accent: str
    on_accent: str
    selection: str
    source: str
    destination: str
    changed: str
    changed_back: str
    answered: str
    refused: str
    dropped: str
    waiting: str
    node: str
    pod: str
    hook: str
    virtual: str

    def verdict(self, verdict: Verdict) -> str:
        if verdict == "answered":
            return self.answered
        if verdict == "dropped":
            return self.dropped
        return self.waiting if verdict == "no-reply" else self.refused


LIGHT = Theme(
    dark=False,
    window="#f4f5f8",
    surface="#ffffff",
    raised="#f9fafc",
    border="#d9dde5",
    text="#1a1f29",
    muted="#5d6778",
    faint="#99a2b2",
    accent="#2f63d8",
    on_accent="#ffffff",
    selection="#dfe8fd",
    source="#0067b1",
    destination="#7d3aa8",
    changed="#b97400",
    changed_back="#fdeecb",
    answered="#00805c",
    refused="#c24a00",
    dropped="#b0508a",
    waiting="#6b7484",
    node="#f7f9fd",
    pod="#e9f0fb",
    hook="#eef0f5",
    virtual="#7c8698",
)
DARK = Theme(
    dark=True,
    window="#15181e",
    surface="#1c2028",
    raised="#232832",
    border="#343b48",
    text="#e7eaf0",
    muted="#9ba5b6",
    faint="#687386",
    accent="#6d9bff",
    on_accent="#0d1420",
    selection="#2b3a5c",
    source="#6cb8f5",
    destination="#cf9df2",
    changed="#f2b134",
    changed_back="#46381a",
    answered="#3fc79a",
    refused="#f48a4d",
    dropped="#e592c0",
    waiting="#a3acbb",
    node="#1f242d",
    pod="#28364d",
    hook="#2a303b",
    virtual="#8b96a8",
)
