"""A part of the tests' pytest: at the end no log of the run holds what was planted; see tests/planted.py."""

import pytest

from tests import planted

_BASE = pytest.StashKey["pytest.TempPathFactory"]()
_FOUND = pytest.StashKey[list[str]]()
_SHOWN = 20


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FOUND] = []
    config.pluginmanager.register(_Said(config), "leaks-said")


@pytest.fixture(scope="session", autouse=True)
def _files(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytestconfig.stash[_BASE] = tmp_path_factory


class _Said:
    """Looks at what tests and the shims in them print and log."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # a section stands in the report of each phase that follows it
        texts = [(f"{report.nodeid}, {name}", said.encode("utf-8", "surrogateescape"))
                 for name, said in report.sections if report.when == "teardown"]  # fmt: skip
        self._config.stash[_FOUND] += planted.leaks(texts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    factory = session.config.stash.get(_BASE, None)
    if factory is not None:
        files = planted.logs(factory.getbasetemp())
        session.config.stash[_FOUND] += planted.leaks((str(path), path.read_bytes()) for path in files)
    if session.config.stash[_FOUND] and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    found = config.stash[_FOUND]
    if found:
        terminalreporter.section("logs hold what no log may hold (tests/planted.py)", red=True)
        for line in found[:_SHOWN]:
            terminalreporter.line(line)
        terminalreporter.line(f"{len(found)} in all")
