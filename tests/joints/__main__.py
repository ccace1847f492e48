"""Writes the page of the table of joints: `python -m tests.joints`."""

from tests.joints.page import PAGE, write

PAGE.write_text(write())
