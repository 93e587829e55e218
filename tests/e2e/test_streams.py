# SPDX-License-Identifier: MIT
"""The stream of every tensor, which the recorder keeps track of itself, is PyTorch's current one."""

import json


def test_streams_are_pytorchs_own(vramtrace, record):
    done = record("streams.py", gpu="2xh100")
    assert (done.status, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    events = [event for event in vramtrace.events(done.path) if event["kind"] == "tensor_alloc"]
    recorded = {event["shape"][0]: [event["device"], event["stream"]] for event in events if len(event["shape"]) == 1}
    assert len({stream for _, _, stream in told}) == 4
    assert [[elements, *recorded[elements]] for elements, _, _ in told] == told
