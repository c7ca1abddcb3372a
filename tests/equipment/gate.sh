#!/bin/sh
# Runs the program of the same name. In a mode, it stops at each different change of the equipment, once: before the
# change, after it, or after the first half of its commands. There it waits until it is let go on, or killed.
here='{here}'
name=${0##*/}
words="$name $*"
input=
case $words in *' -f -' | *' -batch -') input=$(cat) ;; esac
real() {
  PATH='{path}'
  if [ -n "$input" ]; then printf '%s\n' "$input" | "$name" "$@"; else "$name" "$@"; fi
}

mode=$(cat "$here/mode" 2>/dev/null)
case $words/$input in
  'tc -batch -/'*' show '*) is=look ;;
  'tc -batch -/'* | 'nft -f -/'* | scancel*) is=change ;;
  'scontrol create'* | 'scontrol update'* | 'scontrol delete'*) is=change ;;
  *) is=look ;;
esac
case $mode/$is in
  /* | before/look | after/look | half/look) real "$@"; exit ;;
esac
# Neither names nor instants make a command another one.
key=$(printf '%s' "$words/$input" | sed -e 's/co-[0-9a-f]\{8\}-[0-9a-f]\{16\}//g' -e 's/StartTime=[^ ]*//g' | cksum | tr ' ' -)
if ! mkdir "$here/seen-$mode-$key" 2>/dev/null; then
  real "$@"
  exit
fi

printf '%s/%s\n' "$words" "$input" >"$here/busy-$$"
case $mode in
  after)
    real "$@"
    code=$?
    ;;
  half)
    lines=$(($(printf '%s\n' "$input" | wc -l) / 2))
    [ $lines = 0 ] || (input=$(printf '%s\n' "$input" | head -n $lines) && real "$@")
    ;;
esac
mkfifo "$here/fifo-$$"
mv "$here/busy-$$" "$here/stopped-$$"
read -r _ <"$here/fifo-$$"
if [ "$mode" != after ]; then
  real "$@"
  code=$?
fi
: >"$here/done-$$"
exit $code
