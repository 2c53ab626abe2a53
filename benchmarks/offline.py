"""Cuts the network off before anything is measured: a network namespace of its own, in which loopback alone is there.

    python benchmarks/offline.py

prints what is left of the network in it.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # linux/sched.h
_GET_FLAGS, _SET_FLAGS = 0x8913, 0x8914  # linux/sockios.h
_UP = 1  # linux/if.h


def cut_network() -> None:
    """From here on this process and all that it starts reach nothing but the loopback address of their own.

    Call it while the process has one thread. Root needs no more; another user becomes, in a user namespace, the same
    user with that one right. Raises SystemExit where the system does not allow it, or something else is left.
    """
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.unshare(_NEW_NETWORK if user == 0 else _NEW_USER | _NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if user != 0:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        _bring_up_loopback()
    except OSError as error:
        raise SystemExit(
            f"the network cannot be cut off here: {error}\n"
            "Run this as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone, "
            "kernel.apparmor_restrict_unprivileged_userns)."
        ) from error
    if others := [*other_interfaces(), *routes()]:
        raise SystemExit(f"the network is not cut off: {', '.join(others)}")


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _flags("lo") | _UP))


def _flags(interface: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack("16sH14x", interface.encode(), 0))
    return int(struct.unpack_from("H", answer, 16)[0])


def other_interfaces() -> list[str]:
    """Every interface that is up, but loopback: some kernels put tunnels, which are down, into each namespace."""
    return [name for _, name in socket.if_nameindex() if name != "lo" and _flags(name) & _UP]


def routes() -> list[str]:
    """The interface of each route, IPv4 and IPv6, that does not end in this machine."""
    found = [line.split()[0] for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    table = Path("/proc/net/ipv6_route")
    found += [line.split()[-1] for line in (table.read_text().splitlines() if table.exists() else [])]
    return [name for name in found if name != "lo"]


if __name__ == "__main__":
    cut_network()
    print("interfaces besides loopback:", ", ".join(other_interfaces()) or "none")
    print("routes besides loopback's:", ", ".join(routes()) or "none")
