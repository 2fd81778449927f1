"""The log of a migration, and what was told of it, made once."""

import io
from datetime import datetime

import pytest

from shim.auditing.logs import reading
from shim.auditing.page import render
from shim.auditing.report import report
from tests.auditing.course import course
from tests.auditing.world import write

SUNSET = datetime(2027, 1, 4)  # noqa: DTZ001 - UTC without saying so, as in the package


@pytest.fixture(scope="session")
def migration_events():
    return course().events


@pytest.fixture(scope="session")
def migration_log(migration_events, tmp_path_factory):
    return write(tmp_path_factory.mktemp("migration") / "audit.jsonl", migration_events)


@pytest.fixture(scope="session")
def migration_logs(migration_log):
    with reading([migration_log], io.BytesIO()) as logs:
        yield logs


@pytest.fixture(scope="session")
def migration_told(migration_logs):
    return report(migration_logs, migration_logs.span, SUNSET)


@pytest.fixture(scope="session")
def migration_page(migration_told):
    return render(migration_told)
