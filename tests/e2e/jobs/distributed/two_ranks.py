# SPDX-License-Identifier: MIT
"""Two ranks of worker.py without torchrun: nobody ends the one that is left. Prints how each ended.

    two_ranks.py ARGUMENT...    arguments of worker.py
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

with socket.create_server(("localhost", 0)) as server:
    port = server.getsockname()[1]
place = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
command = [sys.executable, Path(__file__).with_name("worker.py"), *sys.argv[1:]]
ranks = [
    subprocess.Popen(command, env=os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
    for rank in range(2)
]
print(json.dumps([rank.wait() for rank in ranks]))
