#!/usr/bin/env bash
# Usage: layering.sh <root of the tree>
#
# Fails on any #include that is not an arrow of the layering, and names it:
#
#   examples, bench, tests ─► every public header
#   pipeline ─► comm ─► gpu ─► csp ─► std, Boost
#   overlap ─► feeder ─► gpu
#   python ─► feeder; nanobind
#                        comm/transports/mpi ─► MPI; comm/transports/nccl ─► NCCL
#
# What is on no list below is forbidden: a new dependency is a decision, made here.
#
# Within a library, the tables of its README are the list:
#  - | room, each on those above | contents |: a room includes what stands above it. A row names its folders and
#    the headers that are part of it, each with its .cpp;
#  - | optional room | its door | contents |: of all other rooms, one file at most includes it: the door. (Of a
#    program, whose door is a folder, all files.)
#
# Likewise on any line of a library that starts a thread without start_thread() (csp/base/start_thread.h),
# and on any of csp that names exploring or chaos outside the files that hide them.
set -euo pipefail
cd "$1"

declare -A below=(
  [csp]="csp"
  [gpu]="gpu csp"
  [feeder]="feeder gpu csp"
  [comm]="comm gpu csp"
  [pipeline]="pipeline comm gpu csp"
  [overlap]="overlap feeder gpu csp"
  [python]="python feeder gpu csp"
  [examples]="examples pipeline comm feeder gpu csp"
  [tests]="tests overlap examples pipeline comm feeder gpu csp"
  [bench]="bench overlap pipeline comm feeder gpu csp"
)

# What the inlined park needs: <file>:<room above its own>.
upward=(
  csp/wait/park.h:fiber
  csp/fiber/fiber.cpp:sched
  csp/channel/park_fiber.h:sched
)

# By what a row names (csp/wait/, csp/clock.h): the row's first name; by that, its place in the first table, or its door.
declare -A row=() place=() door=()
for readme in */README.md; do
  [[ -f $readme ]] || continue
  while IFS=$'\t' read -r kind first name detail; do
    row[${readme%/*}/$name]=${readme%/*}/$first
    if [[ $kind == core ]]; then place[${readme%/*}/$first]=$detail; else door[${readme%/*}/$first]=${readme%/*}/$detail; fi
  done < <(awk -F' *[|] *' -v OFS='\t' '
    /^[|] (room, each on those above|optional room) [|]/ { kind = /optional/ ? "optional" : "core"; next }
    !/^[|]/ { kind = "" }
    kind != "" && !/^[|]-/ {
      gsub("`", "", $3)
      count = split($2, names, "`")
      for (i = 2; i <= count; i += 2) print kind, names[2], names[i], kind == "core" ? NR : $3
    }' "$readme")
done

# room <file>: sets REPLY to its room's first name; "" where the README has none.
declare -A known=()
room() {
  local name best=
  if [[ ! -v known[$1] ]]; then
    for name in "${!row[@]}"; do
      [[ ${1%.*} != "${name%.*}" && ($name != */ || $1 != "$name"*) ]] || ((${#name} <= ${#best})) || best=$name
    done
    known[$1]=${best:+${row[$best]}}
  fi
  REPLY=${known[$1]}
}

# within <file> <header of its library>: whether its room may include the header's.
within() {
  local from to
  room "$1" && from=$REPLY
  room "$2" && to=$REPLY
  [[ $from != "$to" ]] || return 0
  if [[ -v door[$to] ]]; then
    [[ $1 == "${door[$to]}" || (${door[$to]} == */ && $1 == "${door[$to]}"*) ]]
  elif [[ -v place[$to] && ! -v door[$from] ]]; then
    [[ -v place[$from] ]] && ((place[$to] < place[$from])) || [[ " ${upward[*]} " == *" $1:$(basename "$to") "* ]]
  fi
}

# allowed <file> <header>: whether the file may include it. First match decides.
allowed() {
  local file=$1 header=$2 layer=${1%%/*}
  case $header in
    # Leat's own, in its one spelling. A backend's headers: for its own files and gpu/device.cpp.
    leat/gpu/cuda/* | leat/gpu/host/*)
      [[ $file == gpu/device.cpp || leat/${file%/*} == "${header%/*}" ]]
      ;;
    # A transport's headers: for its own files and tests, and for comm::open().
    leat/comm/transports/local/* | leat/comm/transports/mpi/* | leat/comm/transports/nccl/*)
      [[ leat/${file%/*} == "${header%/*}" || $file == comm/communicator.cpp || $layer == tests ]]
      ;;
    # Of csp, everybody else sees what is on top, the seam, and what it stands on.
    leat/csp/*/*)
      [[ $header == leat/csp/@(wait|base)/* || $layer == csp || $file == tests/csp/* || $file == bench/csp/* ]] &&
        [[ " ${below[$layer]} " == *" csp "* && $file != *.c && $file != bench/peers/* ]]
      ;;
    leat/feeder/interop/c/*)
      [[ $file == feeder/interop/c/* || $layer == tests || ($layer == examples && $header == */leat.h) ]]
      ;;
    leat/*)
      [[ $file != *.c ]] || return 1 # C has leat.h alone
      header=${header#leat/}
      # It reads traces of any program, and needs neither a feeder nor a device.
      [[ $file != overlap/trace/* || $header == overlap/@(trace/*|page.h|report_html.h) ]] || return 1
      [[ " ${below[$layer]} " == *" ${header%%/*} "* ]]
      ;;
    examples/*)
      # The step that is compared with torch's is the example's.
      [[ $layer == examples || $file == tests/examples/* || ($file == bench/pipeline/* && $header == examples/12_pipeline/*) ]]
      ;;
    # The Python tests' own module has the runtime's stand-in.
    tests/gpu/cuda/stand_in/*) [[ $layer == tests || $file == python/tests/stand_in/* ]] ;;
    python/tests/stand_in/*) [[ $file == python/tests/stand_in/* ]] ;;
    tests/*) [[ $layer == tests ]] ;;
    bench/*)
      # The exact tests run what the program bench_comm_step runs.
      [[ ($layer == bench && $file != bench/peers/*) || ($layer == tests && $header == bench/data/*) ||
        ($file == tests/comm/exact/* && $header == bench/comm/*) ]]
      ;;

    # Guests, each in its place.
    boost/context/*) [[ $file == csp/fiber/context.cpp || $file == csp/fiber/context_jump.h ]] ;;
    boost/fiber/*)
      [[ $file == csp/boost_fiber.h || $file == tests/csp/boost_fiber/* || $file == bench/peers/* ]]
      ;;
    # Allowed, and not used: csp/README.md, "Designs rejected", has the figures.
    boost/lockfree/*) [[ $layer == csp || $layer == gpu || $layer == bench ]] ;;
    boost/*) [[ $layer == csp ]] ;;
    nvtx3/*) [[ $file == gpu/cuda/nvtx.cpp || $file == tests/feeder/trace/recorder.cpp ]] ;;
    cuda.h | cuda_*.h | cuda/* | cub/* | driver_types.h)
      # bench/gpu/cuda/ makes CUDA's own calls, for Leat's to be compared with. The tests of cuda and
      # the example are a user's CUDA code beside Leat; the tests also have the runtime's stand-in.
      [[ $file == gpu/cuda/* || $file == *.cu || $file == bench/gpu/cuda/* || $file == tests/gpu/cuda* ||
        $file == tests/feeder/cuda/* || $file == tests/comm/nccl/* ||
        $file == python/tests/stand_in/* || $file == examples/09_own_stream.cpp ]]
      ;;
    nccl.h) [[ $file == comm/transports/nccl/* || $file == tests/comm/nccl/stand_in/* ]] ;;
    mpi.h) [[ $file == comm/transports/mpi/* || $file == tests/comm/mpi/* || $file == bench/peers/* ]] ;;
    zlib.h | jpeglib.h | jerror.h | png.h | webp/decode.h)
      [[ $file == feeder/sources/* || ($file == bench/data/* && $header == jpeglib.h) ||
        ($file == @(overlap/trace/readers|tests/overlap|tests/fuzz)/* && $header == zlib.h) ]]
      ;;
    # The tests and the seeds write the databases that are read.
    sqlite3.h)
      [[ $file == overlap/trace/readers/* || $file == tests/overlap/* || $file == tests/fuzz/make_* ]]
      ;;
    dlpack/*) [[ $file == tests/feeder/interop/dlpack_test.cpp ]] ;; # a program's own, to compare with
    torch/* | ATen/* | c10/*)
      [[ $file == feeder/interop/torch.h || $file == comm/interop/torch.h || $file == examples/*_torch_*.cpp ||
        $file == tests/*/interop/torch/* || $file == bench/comm/torch_step.cpp ]]
      ;;
    Python.h | nanobind/*) [[ $layer == python ]] ;;
    CLI/*) [[ $layer == overlap || $file == pipeline/schedule/* ]] ;;
    nlohmann/*)
      [[ $layer == overlap || $file == feeder/state/*.cpp || $file == tests/overlap/* ||
        $file == bench/comm/*.cpp || $file == tests/comm/*.cpp || $file == pipeline/schedule/* ||
        $file == tests/pipeline/*.cpp ]]
      ;;
    gtest/* | gmock/*) [[ $layer == tests ]] ;;
    benchmark/*) [[ $layer == bench ]] ;;
    tbb/* | concurrentqueue/* | readerwriterqueue/* | gloo/*) [[ $file == bench/peers/* ]] ;;

    # In C, and in the header that is for it: the C library.
    assert.h | errno.h | float.h | limits.h | math.h | stddef.h | stdint.h | stdio.h | stdlib.h | string.h)
      [[ $file == *.c || $file == feeder/interop/c/leat.h || $file == overlap/kernels.h ]]
      ;;
    # The system: POSIX and Linux, the C++ runtime, the sanitizers' interfaces.
    sys/*.h | linux/*.h | sanitizer/*.h) ;;
    cxxabi.h | dirent.h | dlfcn.h | fcntl.h | fnmatch.h | getopt.h | immintrin.h | poll.h | pthread.h | sched.h | \
      semaphore.h | signal.h | termios.h | time.h | unistd.h | x86intrin.h) ;;
    *.* | */*) [[ $file == bench/peers/* && -f ${file%/*}/$header ]] ;; # they know nothing of leat/
    *) ;; # the standard library: one word, no suffix
  esac
}

folders=()
for layer in "${!below[@]}"; do [[ ! -d $layer ]] || folders+=("$layer"); done

includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include' "${folders[@]}" \
  --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' --include='*.c')
violations=0
while IFS=: read -r file line text; do
  header=${text#*[<\"]}
  header=${header%%[>\"]*}
  if ! allowed "$file" "$header"; then
    echo "$file:$line: may not include $header"
    violations=$((violations + 1))
  elif [[ $header == leat/${file%%/*}/* ]] && ! within "$file" "${header#leat/}"; then
    echo "$file:$line: may not include $header: ${file%%/*}/README.md tells why"
    violations=$((violations + 1))
  fi
done <<<"$includes"
while IFS= read -r file; do
  room "$file"
  [[ -n $REPLY ]] && continue
  echo "$file: is in no room of ${file%%/*}/README.md"
  violations=$((violations + 1))
done < <(for library in $(printf '%s\n' "${!place[@]}" | cut -d/ -f1 | sort -u); do
  find "$library" -name '*.h' -o -name '*.cpp'
done)
while IFS= read -r at; do
  echo "$at: may not tell an exploring or a chaos build from others"
  violations=$((violations + 1))
done < <([[ ! -d csp ]] || grep -rnE 'LEAT_EXPLORE|LEAT_CHAOS|kExploring|hooks::|sched_point' csp --include='*.h' --include='*.cpp' |
  grep -vE '^csp/(base/|explore|fiber/stack|io/watch\.cpp)' | cut -d: -f1,2)
while IFS= read -r place; do
  echo "$place: may not start a thread: use start_thread()"
  violations=$((violations + 1))
done < <(for layer in csp gpu feeder comm pipeline overlap python/src; do
  [[ ! -d $layer ]] || grep -rnE 'std::j?thread( [a-z_]+)?[({]|std::async|pthread_create' "$layer" \
    --include='*.h' --include='*.cpp' --include='*.cu' || true
done | sed -nE 's|^([^:]*:[0-9]+):[[:space:]]*[^/[:space:]].*|\1|p')
echo "$(wc -l <<<"$includes") includes, $violations forbidden"
((violations == 0))
