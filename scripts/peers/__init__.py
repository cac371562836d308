# SPDX-License-Identifier: Apache-2.0
"""The parts of scripts/bench_peers. Only losses, truth and timing need PyTorch."""
