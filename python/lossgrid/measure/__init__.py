# SPDX-License-Identifier: Apache-2.0
"""Time, memory and collectives of user code, and mutations of its collectives."""
