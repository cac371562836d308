# SPDX-License-Identifier: Apache-2.0
"""What user code costs, and what is changed beneath it."""
