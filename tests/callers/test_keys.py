"""The key file, keyed hashes and signed texts (OWN-STORE)."""

import json

import pytest

from shim.callers.keys import KeyFileError, Keys

OLD, NEW = bytes(range(32)), bytes(range(1, 33))

pytestmark = pytest.mark.rule("OWN-STORE")


def test_the_key_file_is_made_once_private_and_read_again(tmp_path):
    path = tmp_path / "deep" / "taskshim.key"
    first = Keys.load(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [len(bytes.fromhex(key)) for key in json.loads(path.read_text())["keys"]] == [32]
    assert Keys.load(path).hash("caller", "anna") == first.hash("caller", "anna")
    assert [one.name for one in path.parent.iterdir()] == ["taskshim.key"]


def test_two_files_hold_different_keys(tmp_path):
    one, other = Keys.load(tmp_path / "a"), Keys.load(tmp_path / "b")
    assert one.hash("caller", "anna") != other.hash("caller", "anna")


def test_of_two_processes_that_make_it_at_once_both_use_the_winners(tmp_path, monkeypatch):
    path = tmp_path / "taskshim.key"
    winner = Keys.load(path)
    with monkeypatch.context() as blind:  # the loser looked before the file was there
        blind.setattr(type(path), "exists", lambda _: False)
        loser = Keys.load(path)
    assert loser.hash("caller", "anna") == winner.hash("caller", "anna")
    assert [one.name for one in tmp_path.iterdir()] == ["taskshim.key"]


@pytest.mark.parametrize(
    "content", ["", "x", "[]", "{}", '{"keys": []}', '{"keys": ["zz"]}', '{"keys": ["00"]}', '{"keys": [1]}']
)
def test_a_broken_key_file_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "taskshim.key"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=r"^identity\.key_file: "):
        Keys.load(path)
    assert path.read_text() == content


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyFileError, match=r"^identity\.key_file: .*file"):
        Keys.load(tmp_path / "file" / "taskshim.key")


def test_hashes_differ_by_purpose_and_value_and_show_nothing(keys):
    hashes = {keys.hash(purpose, value) for purpose in ("a", "b") for value in ("x", "y", "é", "\udcff")}
    assert len(hashes) == 8
    assert all(len(one) == 32 and int(one, 16) >= 0 for one in hashes)


def test_a_signed_text_opens_for_its_purpose_and_caller_only(keys):
    text = keys.sign("cursor", "anna", "42")
    assert keys.verify("cursor", "anna", text) == "42"
    assert keys.verify("cursor", "bob", text) is None
    assert keys.verify("requestState", "anna", text) is None
    assert Keys([NEW]).verify("cursor", "anna", text) is None


def test_no_altered_text_opens(keys):
    text = keys.sign("cursor", "anna", "42")
    altered = {text[:at] + other + text[at + 1 :] for at in range(len(text)) for other in "Ab0-_+/= \n"}
    altered |= {text[:at] + text[at + 1 :] for at in range(len(text))}
    altered |= {text + "A", text + "=", text + "!", "", "A", "é", "\ud800", "=" * 8}
    assert [one for one in altered - {text} if keys.verify("cursor", "anna", one) is not None] == []


def test_payload_and_caller_cannot_trade_bytes(keys):
    assert keys.verify("p", "a", keys.sign("p", "ab", "c")) is None


def test_after_a_rotation_old_texts_open_and_callers_stay_the_same():
    before, during, after = Keys([OLD]), Keys([NEW, OLD]), Keys([NEW])
    text = before.sign("cursor", "anna", "1")
    assert during.verify("cursor", "anna", text) == "1"
    assert after.verify("cursor", "anna", text) is None
    assert after.verify("cursor", "anna", during.sign("cursor", "anna", "2")) == "2"
    assert before.hash("caller", "anna") == during.hash("caller", "anna")
