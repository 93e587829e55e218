# SPDX-License-Identifier: MIT
"""cuda.core: a kernel compiled and launched, a graph of launches, and one with a condition."""

from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
stream = device.create_stream()
source = '__device__ int g = 5; extern "C" __global__ void k(int *p) { *p = g; }'
module = Program(source, code_type="c++", options=ProgramOptions(arch="sm_90")).compile("cubin")
kernel = module.get_kernel("k")
buffer = device.memory_resource.allocate(64, stream=stream)
launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)
stream.sync()

builder = device.create_graph_builder().begin_building()
for _ in range(2):
    launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer)
graph = builder.end_building().complete()
graph.launch(stream)
stream.sync()

builder = device.create_graph_builder().begin_building()
condition = builder.create_condition(default_value=1)
launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer)
body = builder.if_then(condition)
body.begin_building()
launch(body, LaunchConfig(grid=1, block=1), kernel, buffer)
body.end_building()
graph = builder.end_building().complete()
graph.launch(stream)
stream.sync()
buffer.close(stream)
