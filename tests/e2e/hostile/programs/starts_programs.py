# SPDX-License-Identifier: MIT
"""Start a program in four ways, and print as JSON what each printed, both streams together."""

import json
import os
import subprocess
import sys

program = sys.argv[1]
script = sys.argv[2]
with open(script, "w") as file:
    file.write(f"#!{program}\n")
os.chmod(script, 0o755)


def spawn():
    end, start = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, start, 1), (os.POSIX_SPAWN_DUP2, start, 2)]
    pid = os.posix_spawn(program, [program], os.environ, file_actions=actions)
    os.close(start)
    with open(end) as pipe:
        printed = pipe.read()
    os.waitpid(pid, 0)
    return printed


def run(*words, **options):
    return subprocess.run(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options).stdout


print(json.dumps({"exec": run([program]), "script": run([script]), "shell": run(program, shell=True), "spawn": spawn()}))
