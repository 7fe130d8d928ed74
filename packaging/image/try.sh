#!/bin/sh
# Builds the image of packaging/image/Dockerfile without Docker, on a base of Debian packages, and runs it as it is meant to be
# run: as user 10001, on a root that is read-only, with no capability. Takes root, mmdebstrap, buildah, crun and a wheel in dist/.
#   try.sh DIRECTORY      where the base, the image and what is unpacked of it go
#
# Not shown by this: the base image itself (python:3.13-slim-trixie), and a build from source in it.
set -eu
work=$1
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$work"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
store="--root $work/store --runroot $work/run"
