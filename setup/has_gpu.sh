#!/bin/sh
# SPDX-License-Identifier: MIT
# Succeed when this machine has an NVIDIA GPU and a driver for it.
[ -e /dev/nvidia0 ] || nvidia-smi -L >/dev/null 2>&1
