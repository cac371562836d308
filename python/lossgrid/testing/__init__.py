# SPDX-License-Identifier: Apache-2.0
"""Test items of trials: what `lossgrid.pytest` runs."""
