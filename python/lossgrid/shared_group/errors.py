# SPDX-License-Identifier: Apache-2.0
"""Errors of collectives; their texts name ranks of the world and calls."""
from __future__ import annotations


class CollectiveMismatch(RuntimeError):
    """Members of a group make different calls."""


class CollectiveTimeout(RuntimeError):
    """A member has not made the call until the deadline of the group."""


class MemberEnded(RuntimeError):
    """The process of a member has ended before it made the call."""
