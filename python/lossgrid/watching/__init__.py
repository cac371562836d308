# SPDX-License-Identifier: Apache-2.0
"""Runs that follow each other, with one import of torch: ``lossgrid run --watch``."""
