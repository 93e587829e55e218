# SPDX-License-Identifier: MIT
"""A rank without PyTorch: writes what it was told to FOLDER/RANK.json, then ends as told: `RANK:STATUS` says with which
status, any other rank waits to be ended.

    rank_environment.py FOLDER [RANK:STATUS]
"""

import json
import os
import signal
import sys
from pathlib import Path

NAMES = ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "SIMGPU_DEVICES")

folder, rank = Path(sys.argv[1]), os.environ["RANK"]
(folder / f"{rank}.json").write_text(json.dumps({name: int(os.environ[name]) for name in NAMES}))
for ending in sys.argv[2:]:
    who, status = ending.split(":")
    if who == rank:
        sys.exit(int(status))
    signal.pause()
