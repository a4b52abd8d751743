#!/usr/bin/env bash
# A command as in a container, by mounts: what this machine has, with an /etc of its own and the folders that are given.
#
#     unshare --mount --pid --fork --kill-child pod.sh ROOT HOST-NAME PATH=FOLDER ... -- COMMAND ...
#
# ROOT is an empty folder; HOST-NAME leads to loopback there ("" for none); PATH=: is a new folder of the pod's own.
set -euo pipefail
root=$1
name=$2
shift 2
mount --make-rprivate /
own=" etc "
for pair in "$@"; do
    [ "$pair" = -- ] && break
    first=${pair#/}
    own="$own${first%%[/=]*} "
done
cp -a /etc "$root/etc"
for top in /*; do
    base=${top#/}
    case "$own" in *" $base "*) continue ;; esac
    if [ -L "$top" ]; then
        cp -P "$top" "$root/$base"
    elif [ -d "$top" ]; then
        mkdir "$root/$base"
        mount --rbind "$top" "$root/$base"
    fi
done
[ "$name" = "" ] || echo "127.0.0.1 $name" >>"$root/etc/hosts"
while [ "$1" != -- ]; do
    path=${1%%=*}
    source=${1#*=}
    if [ -f "$source" ]; then
        mkdir -p "$(dirname "$root$path")"
        touch "$root$path"
        mount --bind "$source" "$root$path"
    else
        mkdir -p "$root$path"
        [ "$source" = : ] || mount --bind "$source" "$root$path"
    fi
    shift
done
shift
mount -t proc proc "$root/proc"
exec chroot "$root" "$@"
