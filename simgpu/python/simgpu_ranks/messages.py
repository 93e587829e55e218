# SPDX-License-Identifier: MIT
"""What goes from one rank to others: messages, and objects."""

import functools

from . import job
from .job import Group, done_work, from_bytes, is_on_device, nccl_backend, numbers, to_bytes


def over_store(g, name, tensor, peer, tag, is_present):
    """A message of CPU tensors between two present ranks; nothing goes to or comes from an absent one."""
    is_send = name.endswith("send")
    sender, receiver = (g.me, peer) if is_send else (peer, g.me)
    if is_present:
        pair = (g.group, sender, receiver, tag)
        n = numbers[pair] = numbers.get(pair, 0) + 1
        key = f"simgpu/{sender}to{receiver}/{tag}/{n}"
        if is_send:
            g.store.set(key, to_bytes(tensor))
        else:
            tensor.copy_(from_bytes(g.store.get(key)))
            g.store.delete_key(key)
    if name.startswith("i"):
        return done_work()
    return None if is_send else g.ranks[peer]


def say_peer(g, is_present):
    """A lone message of device tensors may make a communicator for two, whose other rank only we know."""
    config = nccl_backend(g.group).options.config
    config.net_name = ":".join(config.net_name.split(":")[:3]) + f":{is_present:d}"


def adapted_message(real, peer_name):
    @functools.wraps(real)
    def message(tensor, peer=None, group=None, tag=0, group_peer=None, **more):
        peer = more.pop(peer_name, peer)
        group_peer = more.pop(f"group_{peer_name}", group_peer)
        given = {peer_name: peer, "group": group, "tag": tag}
        if group_peer is not None:
            given[f"group_{peer_name}"] = group_peer
        if peer is None and group_peer is None:
            return real(tensor, **given)
        g = Group(group)
        place = g.place(peer, group_peer)
        if is_on_device(tensor):
            if g.is_partial and len(g.present) > 1:
                say_peer(g, place in g.present)
            return real(tensor, **given)
        if not g.is_ours:
            return real(tensor, **given)
        return over_store(g, real.__name__, tensor, place, tag, place in g.present)

    return message


# ---- objects ---------------------------------------------------------------------------------


def from_stand_in(real):
    @functools.wraps(real)
    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
        g = Group(group)
        root = g.ranks[g.stand_in(g.place(src, group_src))]
        return real(object_list, src=root, group=group, device=device)

    return broadcast_object_list


def refused_from_absent(real, position, has_default):
    """Nobody knows what objects an absent rank would have sent. The source is the argument at POSITION."""

    @functools.wraps(real)
    def receive(*arguments, **more):
        at = dict(enumerate(arguments))
        source, group_source = more.get("src", at.get(position)), more.get("group_src")
        g = Group(more.get("group", at.get(position + 1)))
        place = g.place(source, group_source)
        is_given = has_default or source is not None or group_source is not None
        if is_given and place not in g.present:
            raise RuntimeError(
                f"{real.__name__}: rank {g.ranks[place]} does not run here, and what it would have sent is not "
                "known; name it in '--ranks'"
            )
        return real(*arguments, **more)

    return receive


def adapt():
    c10d = job.c10d
    for name, peer in (("send", "dst"), ("isend", "dst"), ("recv", "src"), ("irecv", "src")):
        setattr(c10d, name, adapted_message(getattr(c10d, name), peer))
    c10d.broadcast_object_list = from_stand_in(c10d.broadcast_object_list)
    c10d.scatter_object_list = refused_from_absent(c10d.scatter_object_list, 2, True)
    if hasattr(c10d, "recv_object_list"):
        c10d.recv_object_list = refused_from_absent(c10d.recv_object_list, 1, False)
