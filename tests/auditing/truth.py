"""What the tables must say, counted in plain Python."""

import math
from collections import defaultdict
from typing import Any

from tests.auditing.world import at

Event = dict[str, Any]


def unidentified(event: Event) -> bool:
    return (
        event["event"] == "request"
        and event["outcome"] != "ok"
        and event.get("unidentified", "caller_kind" not in event)
    )


def software(event: Event) -> str:
    if unidentified(event):
        return "(caller unknown)"
    client = event.get("client", {})
    return " ".join(filter(None, [client.get("name") or "(no name)", client.get("version")]))


def person(event: Event) -> str | None:
    return event.get("caller") if event.get("caller_kind") in {"jwt", "api_key", "header"} else None


def key(event: Event) -> str:
    return person(event) or software(event)


def who(event: Event) -> str:
    if (of := person(event)) is None:
        return software(event)
    return event.get("caller_label") or f"{event['caller_kind']}:{of[:12]}"


def grouped(events, by):
    groups = defaultdict(list)
    for event in events:
        groups[by(event)].append(event)
    return groups


def named(events, *names):
    return [event for event in events if event["event"] in names]


def often(events, outcome):
    return sum(event["outcome"] == outcome for event in events)


def last(events):
    return max(map(at, events), default=None)


def first(events):
    return min(map(at, events))


def old(events):
    return [event for event in events if event["legacy"] and not unidentified(event)]


def new(events):
    return [e for e in events if not e["legacy"] and not unidentified(e) and "era" in e]


def used_features(event):
    return () if unidentified(event) else event.get("legacy_features", ())


def keys(events):
    return len(set(map(key, events)))


def callers(events):
    return [
        {
            "caller": name, "hash": person(group[0]), "clients": sorted(set(map(software, group))),
            "requests": len(group), "legacy": len(old(group)), "errors": often(group, "error"),
            "denied": often(group, "denied"), "first": first(group), "last": last(group),
            "last_legacy": last(old(group)),
        }
        for (_, name), group in grouped(named(events, "request"), lambda e: (key(e), who(e))).items()
    ]  # fmt: skip


def methods(events):
    return [
        {
            "method": method or "-", "era": era, "requests": len(group), "legacy": len(old(group)),
            "errors": often(group, "error"), "denied": often(group, "denied"), "callers": keys(group),
            "last": last(group),
        }
        for (method, era), group in grouped(
            named(events, "request"), lambda e: (e.get("method"), e.get("era"))
        ).items()
    ]  # fmt: skip


def waited(events):
    times = sorted(event["upstream_ms"] for event in events if event["upstream_ms"] > 0)
    return {
        f"p{share}_ms": times[math.ceil(share / 100 * len(times)) - 1] if times else None
        for share in (50, 95)
    }


def tools(events):
    called = [event for event in named(events, "request") if event.get("tool") is not None]
    return [
        {
            "tool": tool, "upstream": upstream, "requests": len(group), "legacy": len(old(group)),
            "with_task_param": sum("task param" in event.get("legacy_features", ()) for event in group),
            "errors": often(group, "error"), "callers": keys(group), **waited(group),
            "last": last(group), "last_legacy": last(old(group)),
        }
        for (tool, upstream), group in grouped(called, lambda e: (e["tool"], e.get("upstream"))).items()
    ]  # fmt: skip


def upstreams(events):
    asked = [event for event in named(events, "request") if "upstream" in event]
    return [
        {
            "upstream": upstream, "upstream_era": era, "requests": len(group), "legacy": len(old(group)),
            "errors": often(group, "error"), "denied": often(group, "denied"), "callers": keys(group),
            **waited(group), "first": first(group), "last": last(group),
        }
        for (upstream, era), group in grouped(asked, lambda e: (e["upstream"], e["upstream_era"])).items()
    ]  # fmt: skip


def clients(events):
    def by(event):
        client = event.get("client", {})
        return client.get("name"), client.get("version"), event.get("era")

    return [
        {
            "client": name, "version": version, "era": era, "requests": len(group), "legacy": len(old(group)),
            "callers": keys(group), "first": first(group), "last": last(group),
            "features": sorted({feature for event in group for feature in used_features(event)}),
        }
        for (name, version, era), group in grouped(named(events, "request"), by).items()
    ]  # fmt: skip


def features(events):
    used = [(feature, e) for e in named(events, "request") for feature in set(used_features(e))]
    return [
        {
            "feature": feature, "requests": len(group), "callers": keys(e for _, e in group),
            "clients": len({software(e) for _, e in group}), "last": last(e for _, e in group),
        }
        for feature, group in grouped(used, lambda pair: pair[0]).items()
    ]  # fmt: skip


def noted(events, *fields, clients=False):
    return [
        {
            **dict(zip(fields, values, strict=True)), "count": len(group), "callers": keys(group),
            **({"clients": sorted(set(map(software, group)))} if clients else {}),
            "first": first(group), "last": last(group),
        }
        for values, group in grouped(events, lambda e: tuple(e.get(name) for name in fields)).items()
    ]  # fmt: skip


def refused(events):
    away = [e for e in named(events, "request") if unidentified(e)]
    return [
        {
            "era": era, "reason": reason or "-", "http_status": status,
            "methods": sorted({e["method"] for e in group if "method" in e}), "requests": len(group),
            "first": first(group), "last": last(group),
        }
        for (era, reason, status), group in grouped(
            away, lambda e: (e.get("era"), e.get("reason"), e.get("http_status"))
        ).items()
    ]  # fmt: skip


def losses(events):
    return noted(named(events, "loss"), "rule", "field", "corner", "upstream")


def lenient(events):
    return noted(named(events, "lenient"), "rule", "detail", "corner", "upstream", clients=True)


def errors(events):
    def row(event):
        if event["event"] == "request":
            told = (event["outcome"], event.get("code"), event.get("http_status"))
            why = " ".join(str(one) for one in told if one is not None)
            return event | {"what": "request", "why": ": ".join((why, *filter(None, [event.get("fault")])))}
        why = next(filter(None, map(event.get, ("rule", "limit", "reason", "evidence"))), None)
        return event | {"what": event["event"], "why": why}

    wrong = [e for e in named(events, "request") if e["outcome"] in {"error", "denied"}]
    wrong += named(events, "denied", "task.lost", "upstream.down")
    return noted(map(row, wrong), "what", "method", "why", "era", "upstream")


def tasks(events):
    steps = named(events, "task.created", "task.status", "task.ended", "task.lost")
    found = []
    for group in grouped(steps, lambda e: e["task_id"]).values():
        group.sort(key=lambda e: (at(e), e["seq"]))
        found.append(
            {
                "upstream": next((e["upstream"] for e in group if "upstream" in e), None),
                "corner": next((c for e in group if (c := e.get("via") or e.get("corner"))), None),
                "end": group[-1]["event"], "to": group[-1].get("to"), "last": last(group),
                "age_ms": group[-1].get("age_ms"),
            }
        )  # fmt: skip
    rows = []
    for (upstream, corner), group in grouped(found, lambda t: (t["upstream"], t["corner"])).items():
        ages = sorted(task["age_ms"] for task in group if task["age_ms"] is not None)
        ended = [task["to"] for task in group if task["end"] == "task.ended"]
        rows.append(
            {
                "upstream": upstream, "corner": corner, "tasks": len(group),
                **{to: ended.count(to) for to in ("completed", "failed", "cancelled")},
                "lost": sum(task["end"] == "task.lost" for task in group),
                "open": sum(task["end"] in {"task.created", "task.status"} for task in group),
                "p50_ms": ages[math.ceil(0.5 * len(ages)) - 1] if ages else None,
                "p95_ms": ages[math.ceil(0.95 * len(ages)) - 1] if ages else None,
                "last": max(task["last"] for task in group),
            }
        )  # fmt: skip
    return rows


def shadow(events):
    def of(event):
        return event["tool"], event.get("upstream"), event["other"]

    def found(event):
        if event["event"] == "shadow.diff":
            return event["kind"], event["path"]
        return ": ".join(filter(None, [event["outcome"], event.get("reason")])), None

    told = named(events, "shadow.diff", "shadow.compared")
    told = grouped([one for one in told if one.get("outcome") != "different"], lambda e: (of(e), found(e)))
    copies = grouped(named(events, "shadow.compared"), of)
    return [
        {
            "tool": which[0], "upstream": which[1], "other": which[2], "found": what, "path": path,
            "calls": len(group) if path else sum(one["count"] for one in group),
            "compared": sum(one["count"] for one in copies[which] if one["outcome"] != "skipped")
            if which in copies else None,
            "places": sum(one["count"] for one in group) if path else None,
            "first": first(group), "last": last(group),
        }
        for (which, (what, path)), group in told.items()
    ]  # fmt: skip


def daily(events):
    return [
        {
            "caller": name, "hash": person(group[0]), "clients": sorted(set(map(software, group))),
            "requests": len(group), "first_legacy": first(group), "last_legacy": last(group),
            "days": [
                {"day": day, "requests": len(those)}
                for day, those in sorted(grouped(group, lambda e: at(e).date()).items())
            ],
        }
        for (_, name), group in grouped(old(named(events, "request")), lambda e: (key(e), who(e))).items()
    ]  # fmt: skip


def used(events):
    calls = old(named(events, "request"))
    most = {name: len(group) for name, group in grouped(calls, software).items()}
    pairs = grouped(
        [(software(e), feature) for e in calls for feature in set(e.get("legacy_features", ()))], lambda p: p
    )
    return [
        {"client": client, "legacy": most[client], "feature": feature, "requests": len(group)}
        for (client, feature), group in pairs.items()
    ]


def ages(events, until):
    bounds = {"1 day": 1, "7 days": 7, "14 days": 14, "30 days": 30, "longer ago": 10**6}
    rows = {name: {"within": name, "callers": 0, "requests": 0} for name in bounds}
    for caller in callers(events):
        if caller["last_legacy"] is not None:
            ago = (until - caller["last_legacy"]).total_seconds() / 86_400
            row = rows[next(name for name, days in bounds.items() if ago <= days)]
            row["callers"] += 1
            row["requests"] += caller["legacy"]
    return list(rows.values())


def days(events):
    return {
        day: {
            "legacy": len(old(group)), "modern": len(new(group)),
            "legacy_callers": keys(old(group)),
        }
        for day, group in grouped(named(events, "request"), lambda e: at(e).date()).items()
    }  # fmt: skip
