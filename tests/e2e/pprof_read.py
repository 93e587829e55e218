# SPDX-License-Identifier: MIT
"""
Read a pprof profile as its format's description generates the parser, and print it as JSON.

usage: pprof_read.py FILE

Run on its own, with PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python: the generated module is older than protobuf's.
"""

import gzip
import json
import sys

from zprofile import profile_pb2

profile = profile_pb2.Profile()
with gzip.open(sys.argv[1]) as file:
    profile.ParseFromString(file.read())
text = profile.string_table
assert text[0] == ""
functions = {f.id: {"name": text[f.name], "file": text[f.filename]} for f in profile.function}
locations = {l.id: [functions[line.function_id] | {"line": line.line} for line in l.line] for l in profile.location}
assert len(functions) == len(profile.function) and len(locations) == len(profile.location)
assert 0 not in functions and 0 not in locations
print(json.dumps({
    "types": [[text[t.type], text[t.unit]] for t in profile.sample_type],
    "default": text[profile.default_sample_type],
    "time_ns": profile.time_nanos,
    "duration_ns": profile.duration_nanos,
    "samples": [
        {
            "values": list(sample.value),
            "frames": [frame for location in sample.location_id for frame in locations[location]],
            # As pprof itself has it: without a unit a number that is 0 is no label.
            "labels": {
                text[l.key]: text[l.str] if l.str else l.num for l in sample.label if l.str or l.num or l.num_unit
            },
        }
        for sample in profile.sample
    ],
}))
