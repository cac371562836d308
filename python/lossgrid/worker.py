# SPDX-License-Identifier: Apache-2.0
"""``python -m lossgrid.worker FD`` runs a launcher on the socket FD (see PROTOCOL.md).

``python -m lossgrid.worker --worker FD OUTPUT RANK SIZE PARENT FILE...`` runs one worker: launchers
that cannot fork start it.

``python -m lossgrid.worker --warm FD`` forks launchers on request (``watching/warm.py``).
"""
import os
import sys

# One thread for each rank, unless the user set a number. Must precede the import of torch and
# numpy.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Idle threads of OpenMP teams sleep soon, as those of lossgrid do: workers share the cores. Spins of
# libgomp, milliseconds of libomp; without these 300,000 spins and 200 ms.
if not any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
    os.environ.update(GOMP_SPINCOUNT="1000", KMP_BLOCKTIME="0")

# A launcher that asks whether there is a GPU (``supports`` may) must not start the driver: workers
# that are forked from such a process cannot use it.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")


def main() -> None:
    arguments = sys.argv[1:]
    if len(arguments) == 1 and arguments[0].isdigit():
        from lossgrid.launcher import run_launcher
        run_launcher(int(arguments[0]))
    elif len(arguments) == 2 and arguments[0] == "--warm":
        from lossgrid.watching.warm import run_warm
        run_warm(int(arguments[1]))
    elif len(arguments) >= 6 and arguments[0] == "--worker":
        from lossgrid.launcher import run_loaded_worker
        channel, output, rank, size, parent = (int(word) for word in arguments[1:6])
        run_loaded_worker(channel, output, rank, size, parent, files=arguments[6:])
    else:
        sys.exit("usage: python -m lossgrid.worker FD (started by lossgrid)")


if __name__ == "__main__":
    main()
