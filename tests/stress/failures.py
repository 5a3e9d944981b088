"""Reads the failed tests from a report of pytest."""

from __future__ import annotations

from xml.etree import ElementTree as ET


def failed_tests(report: bytes) -> list[str]:
    """
    Return the tests that failed, or could not be set up or torn down, in a JUnit *report*.

    >>> failed_tests(b'<testsuites><testsuite><testcase classname="a.b" name="c"><failure/></testcase>'
    ...              b'<testcase classname="a.b" name="d"/></testsuite></testsuites>')
    ['a.b::c']
    """
    cases = ET.fromstring(report).iter("testcase")  # noqa: S314 - pytest wrote it a moment ago
    failed = (case for case in cases if case.find("failure") is not None or case.find("error") is not None)
    return [f"{case.get('classname')}::{case.get('name')}" for case in failed]
