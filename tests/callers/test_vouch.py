"""What an upstream's acceptance proves, and for how long (OWN-VOUCH, OWN-CREDENTIAL)."""

import asyncio
from dataclasses import replace

import pytest

from shim.callers import vouch
from shim.callers.caller import Caller
from shim.callers.sources import TokenSource
from shim.callers.vouch import CredentialStore, VouchBook
from tests.callers.conftest import bearer, jwt


@pytest.fixture
def token(keys):
    def token(text: str) -> Caller:
        asked = TokenSource(keys).identify(bearer(text), None)
        with pytest.raises(StopIteration) as told:  # it waits for nothing
            asked.send(None)
        return told.value.value

    return token


@pytest.mark.rule("OWN-VOUCH")
def test_a_token_is_believed_only_after_an_acceptance_and_only_for_a_while(clock, token):
    book = VouchBook(clock, 300_000)
    caller = token("t")
    assert not book.is_vouched(caller)
    book.vouch(caller)
    assert book.is_vouched(caller)
    clock.at_ms += 299_999
    assert book.is_vouched(caller)
    clock.at_ms += 1
    assert not book.is_vouched(caller)


@pytest.mark.rule("OWN-VOUCH")
def test_another_token_with_the_same_claims_is_not_believed(clock, token):
    book = VouchBook(clock, 300_000)
    genuine, forged = (token(jwt({"iss": "i", "sub": "s"}, signature)) for signature in ("b2s", "Zm9yZ2Vk"))
    assert genuine.key == forged.key
    book.vouch(genuine)
    assert not book.is_vouched(forged)


@pytest.mark.rule("OWN-VOUCH")
def test_an_expired_token_is_not_believed(clock, token):
    book = VouchBook(clock, 300_000)
    caller = token(jwt({"iss": "i", "sub": "s", "exp": clock.at_ms / 1000 + 10}))
    book.vouch(caller)
    clock.at_ms += 9_999
    assert book.is_vouched(caller)
    clock.at_ms += 1
    assert not book.is_vouched(caller)


@pytest.mark.rule("OWN-VOUCH")
@pytest.mark.parametrize("kind", ["api_key", "header", "session", "none"])
def test_what_the_shim_knows_itself_needs_no_acceptance(clock, kind):
    assert VouchBook(clock, 1).is_vouched(Caller("k", kind))


@pytest.mark.rule("OWN-VOUCH")
def test_a_token_caller_without_its_token_is_not_believed(clock):
    book = VouchBook(clock, 300_000)
    book.vouch(Caller("k", "token"))
    assert not book.is_vouched(Caller("k", "token"))


@pytest.mark.rule("OWN-CREDENTIAL")
def test_the_newest_credential_is_held_for_a_while(clock, token):
    store = CredentialStore(clock, 1000)
    old, new = (token(jwt({"iss": "i", "sub": "s"}, signature)) for signature in ("b25l", "dHdv"))
    store.hold(old)
    clock.at_ms += 500
    store.hold(new)
    assert store.get(new.key) == new.credential
    clock.at_ms += 999
    assert store.get(new.key) == new.credential
    clock.at_ms += 1
    assert store.get(new.key) is None


@pytest.mark.rule("OWN-CREDENTIAL")
def test_a_held_credential_ends_with_its_token_and_with_a_refusal(clock, token):
    store = CredentialStore(clock, 10_000)
    caller = token(jwt({"iss": "i", "sub": "s", "exp": clock.at_ms / 1000 + 1}))
    store.hold(caller)
    clock.at_ms += 1000
    assert store.get(caller.key) is None
    other = token("t")
    store.hold(other)
    assert store.get(other.key) is not None
    store.drop(other.key)
    assert store.get(other.key) is None


@pytest.mark.rule("OWN-CREDENTIAL")
def test_callers_without_a_credential_leave_nothing_and_get_nothing(clock):
    store = CredentialStore(clock, 1000)
    store.hold(Caller("k", "session"))
    assert store.get("k") is None


def test_both_are_bounded_and_forget_the_oldest(clock, token, monkeypatch):
    monkeypatch.setattr(vouch, "_REMEMBERED", 2)
    book, store = VouchBook(clock, 1000), CredentialStore(clock, 1000)
    callers = [token(f"t{number}") for number in range(3)]
    for caller in callers:
        book.vouch(caller)
        store.hold(caller)
    assert [book.is_vouched(one) for one in callers] == [False, True, True]
    assert [store.get(one.key) is not None for one in callers] == [False, True, True]


def test_callers_that_are_refused_without_a_credential_are_bounded_too(clock, monkeypatch):
    monkeypatch.setattr(vouch, "_REMEMBERED", 2)
    store = CredentialStore(clock, 1000)
    callers = [Caller(f"k{number}", "session") for number in range(3)]
    for caller in callers:
        store.drop(caller.key)
    assert [store.lacks(one) for one in callers] == [False, True, True]


@pytest.mark.rule("OWN-CREDENTIAL")
async def test_a_refused_credential_is_lacking_until_one_is_accepted(clock, token):
    store = CredentialStore(clock, 1000)
    caller = token(jwt({"iss": "i", "sub": "s"}))
    assert store.lacks(caller)
    store.hold(caller)
    assert not store.lacks(caller)
    store.drop(caller.key)
    assert store.lacks(caller)
    assert [store.pause(caller.key, 1), store.pause(caller.key, 1), store.pause(caller.key, 2)] == [
        True, False, True,
    ]  # fmt: skip
    waiting = asyncio.create_task(store.renewed(caller.key))
    await asyncio.sleep(0)
    store.hold(caller)
    await waiting
    assert not store.lacks(caller)
    assert store.pause(caller.key, 1)


@pytest.mark.rule("OWN-CREDENTIAL")
@pytest.mark.parametrize("kind", ["api_key", "header", "session", "none"])
def test_who_sends_no_credential_lacks_none_until_upstream_says_so(clock, kind):
    store = CredentialStore(clock, 1000)
    caller = Caller("k", kind)
    assert not store.lacks(caller)
    store.drop("k")
    assert store.lacks(caller)
    store.hold(caller)
    assert not store.lacks(caller)


@pytest.mark.rule("OWN-VOUCH")
def test_a_refused_token_is_believed_no_longer(clock, token):
    book = VouchBook(clock, 300_000)
    caller = token("t")
    book.vouch(caller)
    book.refuse(caller.credential)
    assert not book.is_vouched(caller)


@pytest.mark.rule("OWN-CREDENTIAL")
def test_a_caller_known_otherwise_offers_a_credential_where_there_is_none(clock, token):
    store = CredentialStore(clock, 3_600_000)
    first, second = (
        replace(token(jwt({"iss": "i", "sub": "s"}, signature)), kind="jwt") for signature in ("b25l", "dHdv")
    )
    assert store.lacks(first)
    store.offer(replace(first, credential=None))
    assert store.lacks(first)
    store.offer(first)
    store.offer(second)
    assert store.get(first.key) == first.credential  # what the upstream may know by now is not replaced
    store.refuse(first.key, first.credential)
    store.drop(first.key)
    store.offer(first)
    assert store.lacks(first)  # nor is a refused one tried once for each request
    store.offer(second)
    assert store.get(first.key) == second.credential


@pytest.mark.rule("OWN-CREDENTIAL")
def test_what_is_remembered_of_refusals_is_bounded(clock, token, monkeypatch):
    monkeypatch.setattr(vouch, "_REMEMBERED", 2)
    store = CredentialStore(clock, 3_600_000)
    for number in range(5):
        caller = token(f"t{number}")
        store.refuse(caller.key, caller.credential)
    assert len(store._refused) == 2


@pytest.mark.rule("OWN-CREDENTIAL")
@pytest.mark.parametrize("kind", ["token", "jwt", "introspection"])
def test_callers_by_credential_lack_one_until_they_bring_it(clock, token, kind):
    store = CredentialStore(clock, 3_600_000)
    caller = replace(token("t"), kind=kind)
    assert store.lacks(replace(caller, credential=None))
    assert not store.lacks(replace(caller, key="other", kind="api_key", credential=None))
