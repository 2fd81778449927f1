"""Finds the messages of all errors that the shim answers with, by reading its source."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FAMILIES = ("ClientFault", "UpstreamFault", "OwnFault")
_OF_UPSTREAM, _INTERNAL, _GATEWAY = "UpstreamFault", -32603, 502


class Message(NamedTuple):
    """One error as a client sees it."""

    family: str
    code: int
    status: int | None
    text: str


def messages(package: Path) -> Iterator[Message]:
    """Give every error that is raised or made in a package, helpers of `wire/errors.py` written out."""
    trees = {
        path: ast.parse(path.read_text("utf-8"))
        for path in sorted(package.rglob("*.py"))
        if path.parent.name != "cli"  # what an operator reads is no answer to a client
    }
    shared = {name: text for tree in trees.values() for name, text in _texts(tree) if name[0] != "_"}
    for tree in trees.values():
        _spell_out(tree, shared | dict(_texts(tree)))
    home = trees[package / "wire" / "errors.py"]
    numbers = _numbers(home)
    helpers = dict(_helpers(home, numbers))
    yield from (one for one in helpers.values() if "{detail}" not in one.text)
    for tree in trees.values():
        known = numbers | _numbers(tree)
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = call.func.id if isinstance(call.func, ast.Name) else None
            if name in FAMILIES and tree is not home:
                yield from _made(call, known)
            elif name in helpers and "{detail}" in helpers[name].text and call.args:
                detail = _text(call.args[0])
                if detail is not None:
                    yield helpers[name]._replace(text=helpers[name].text.replace("{detail}", detail))


def _helpers(tree: ast.Module, numbers: dict[str, int]) -> Iterator[tuple[str, Message]]:
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            for made in _made(call, numbers, "{detail}"):
                yield function.name, made


def _made(call: ast.Call, numbers: dict[str, int], otherwise: str | None = None) -> Iterator[Message]:
    if not isinstance(call.func, ast.Name) or call.func.id not in FAMILIES:
        return
    if call.func.id == _OF_UPSTREAM:  # an internal error to the client, whatever it is
        number, (text, *status), usual = _INTERNAL, call.args, _GATEWAY
    else:
        code, text, *status = call.args
        number, usual = _number(code, numbers), None
    said = _text(text) or otherwise
    if number is not None and said is not None:
        yield Message(call.func.id, number, _number(status[0], numbers) if status else usual, said)


def _numbers(tree: ast.Module) -> dict[str, int]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple)):
            targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for target, value in zip(targets, values, strict=False):
                number = _number(value, {})
                if isinstance(target, ast.Name) and number is not None:
                    found[target.id] = number
    return found


def _number(node: ast.expr, names: dict[str, int]) -> int | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, int) else None


def _texts(tree: ast.Module) -> Iterator[tuple[str, ast.Constant]]:
    """Give the text constants of a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    yield target.id, node.value


def _spell_out(tree: ast.Module, texts: dict[str, ast.Constant]) -> None:
    """Put constants in where messages name them."""
    for joined in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        joined.values = [
            texts.get(part.value.id, part)
            if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
            else part
            for part in joined.values
        ]


def _text(node: ast.expr) -> str | None:
    """Give a literal text, what is filled in by its name in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"{{{_name(part)}}}" for part in node.values
    )


def _name(part: ast.expr) -> str:
    """Name what is filled in by the last word of its expression."""
    assert isinstance(part, ast.FormattedValue)
    words = [node.attr for node in ast.walk(part.value) if isinstance(node, ast.Attribute)]
    plain = [node.id for node in ast.walk(part.value) if isinstance(node, ast.Name)]
    word = next((one for one in (*words, *plain) if one != "join"), "value").strip("_").lower()
    return {"exc": "reason"}.get(word, word)
