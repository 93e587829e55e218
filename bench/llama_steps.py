# SPDX-License-Identifier: MIT
"""Trains a Llama-shaped model (16 layers, bf16, batch 2 x 1024, AdamW) and prints how long each step took.

usage: llama_steps.py STEPS|- [python|all [FILE]]     the second argument turns PyTorch's own recorder on, with these
stacks; its snapshot goes to FILE
Prints one JSON object: step_ns and cpu_ns, lists of a step's wall time and of the CPU time of all threads, the
recorder's included; events, the number of allocations and frees in a step. With `-` each line of the standard input
says how many steps to take now, and is answered by one such line; the first answer, after the warm-up, is an empty
object.
"""

import gc
import json
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

WARM_UP_STEPS = 6
HISTORY_ENTRIES = 200_000  # what `_record_memory_history` keeps in memory: about 16 steps of this job

torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=16))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
if len(sys.argv) > 2:
    torch.cuda.memory._record_memory_history(max_entries=HISTORY_ENTRIES, stacks=sys.argv[2])


def train_step():
    tokens = torch.randint(0, 32000, (2, 1024), device="cuda")
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def nr_events():
    stats = torch.cuda.memory_stats()
    return stats["allocation.all.allocated"] + stats["allocation.all.freed"]


for _ in range(WARM_UP_STEPS):
    train_step()
gc.collect()
gc.disable()  # a collection in the middle of a step would be most of that step's time


def take_steps(steps):
    before = nr_events()
    step_ns, cpu_ns = [], []
    for _ in range(steps):
        start, start_cpu = time.perf_counter_ns(), time.process_time_ns()
        train_step()
        step_ns.append(time.perf_counter_ns() - start)
        cpu_ns.append(time.process_time_ns() - start_cpu)
    return {"step_ns": step_ns, "cpu_ns": cpu_ns, "events": (nr_events() - before) / steps}


if sys.argv[1] == "-":
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(take_steps(int(line))), flush=True)
else:
    print(json.dumps(take_steps(int(sys.argv[1]))))
if len(sys.argv) > 3:
    torch.cuda.memory._dump_snapshot(sys.argv[3])
