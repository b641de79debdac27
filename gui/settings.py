"""What the app remembers from one time to the next, as typed values in one INI file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QSettings, QStandardPaths

MOST_RECENT = 8


class Settings:
    """``path``: the file; where it cannot be written, nothing is remembered and nothing else happens."""

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.ConfigLocation)
            path = Path(folder) / "kube-netlab" / "app.ini"
        self._file = QSettings(str(path), QSettings.Format.IniFormat)

    @property
    def language(self) -> str:
        """Empty where the system's is followed."""
        return self._text("language")

    @language.setter
    def language(self, code: str) -> None:
        self._file.setValue("language", code)

    @property
    def theme(self) -> str:
        return self._text("theme") or "system"

    @theme.setter
    def theme(self, choice: str) -> None:
        self._file.setValue("theme", choice)

    @property
    def calm(self) -> bool:
        """Steps without travel."""
        return bool(self._file.value("calm", False, type=bool))

    @calm.setter
    def calm(self, calm: bool) -> None:
        self._file.setValue("calm", calm)

    @property
    def recent(self) -> list[str]:
        """Files that were opened, the latest first."""
        text = self._text("recent")
        return [each for each in text.split("\n") if each]

    def opened(self, path: str) -> None:
        others = [each for each in self.recent if each != path]
        self._file.setValue("recent", "\n".join([path, *others][:MOST_RECENT]))

    def forget(self, path: str) -> None:
        self._file.setValue("recent", "\n".join(each for each in self.recent if each != path))

    def state(self, name: str) -> QByteArray:
        """A window's or a split's state; empty where there is none."""
        value = self._file.value(f"state/{name}")
        return value if isinstance(value, QByteArray) else QByteArray()

    def set_state(self, name: str, value: QByteArray) -> None:
        self._file.setValue(f"state/{name}", value)

    def save(self) -> None:
        self._file.sync()

    def _text(self, name: str) -> str:
        return str(self._file.value(name, "", type=str))
