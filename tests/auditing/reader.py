"""Reads a report page back: its tables and figures as values, and what else is in it."""

from collections import Counter
from datetime import date, datetime
from html.parser import HTMLParser
from typing import Any

_VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """A page that was read; raises AssertionError where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.figures: list[tuple[str, Any]] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self._open: list[tuple[str, dict[str, str]]] = []
        self._columns: list[str | None] = []
        self._cells: list[Any] = []
        self._value: Any = None
        self._figure: str | None = None
        self._name = ""
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        attributes = {name: value or "" for name, value in attrs}
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attributes.items()]
        if tag in _VOID:
            return
        self._open.append((tag, attributes))
        match tag:
            case "table":
                self._name, self._columns = attributes["data-table"], []
                assert self._name not in self.tables
                self.tables[self._name] = []
            case "tr":
                self._cells = []
            case "td" | "th":
                self._value = ""
                if "thead" in self._within():
                    self._columns.append(attributes.get("data-column"))
            case "ul" if "td" in self._within():
                self._value = []
            case "li" if isinstance(self._value, list):
                self._value.append("")
            case "data":
                self._take(_number(attributes["value"]))
            case "time":
                self._take(_time(attributes["datetime"]))
            case "span" if "data-figure" in attributes:
                self._figure = attributes["data-figure"]
            case "span" if attributes.get("class") == "none" and self._value == "":
                self._value = None

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        opened, attributes = self._open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"
        match tag:
            case "td" | "th" if "tbody" in self._within():
                self._cells.append(self._value)
                self._value = None
            case "tr" if "tbody" in self._within():
                self.tables[self._name].append(
                    {
                        column: cell
                        for column, cell in zip(self._columns, self._cells, strict=True)
                        if column is not None
                    }
                )
            case "span" if "data-figure" in attributes:
                assert self._figure is None, "a figure without a value"

    def handle_data(self, data):
        self.text.append(data)
        within = self._within()
        if isinstance(self._value, str) and not {"svg", "span"} & set(within):
            self._value += data.strip("\n")
        elif isinstance(self._value, list) and "bdi" in within:
            self._value[-1] += data

    def _take(self, found):
        if self._figure is not None:
            self.figures.append((self._figure, found))
            self._figure = None
        if {"td", "th"} & set(self._within()):
            self._value = found

    def _within(self):
        return [tag for tag, _ in self._open]


def _number(text):
    return float(text) if "." in text or "e" in text else int(text)


def _time(text):
    return datetime.fromisoformat(text).replace(tzinfo=None) if "T" in text else date.fromisoformat(text)
