# SPDX-License-Identifier: Apache-2.0
"""Test items of trials, which `lossgrid.pytest` runs."""
