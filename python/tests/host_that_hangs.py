# SPDX-License-Identifier: Apache-2.0
"""A host whose workers hang in user code; prints the process ids of launcher and workers."""
import os
import time

from fake_host import Host
from fake_problem import Case

host = Host()
host.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "functions", "misbehaves.py"))
world = host.world(2)
case = Case([4], 11, (1, 2, 1))
case.begin(world, "hangs")
for worker in world.workers:
    worker.send("forward", grad=True)
time.sleep(0.2)
print(host.process.pid, *(worker.pid for worker in world.workers), flush=True)
time.sleep(1000)
