# Installs the build in BUILD below SCRATCH, then configures, builds and runs the projects in SOURCE
# against it. Starts from nothing, so that no earlier run can make it pass.
function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# refused(text command...): the command fails, and says `text`.
function(refused text)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result ERROR_VARIABLE said COMMAND_ECHO STDOUT)
  if(result EQUAL 0 OR NOT said MATCHES "${text}")
    message(FATAL_ERROR "exit status ${result}, without \"${text}\":\n${said}")
  endif()
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
unset(ENV{LD_LIBRARY_PATH})
set(prefix "${SCRATCH}/prefix")
step("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${prefix}")
set(run_mpi ON)
if(SANITIZE)
  set(run_mpi OFF)
endif()
foreach(project . c_alone)
  set(build "${SCRATCH}/build/${project}")
  step("${CMAKE_COMMAND}" -S "${SOURCE}/${project}" -B "${build}" -G "${GENERATOR}"
       "-DCMAKE_C_COMPILER=${C_COMPILER}" "-DCMAKE_CXX_COMPILER=${COMPILER}"
       "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_PREFIX_PATH=${prefix}" "-DRUN_MPI=${run_mpi}"
  )
  step("${CMAKE_COMMAND}" --build "${build}" --config "${CONFIG}")
  step("${CMAKE_CTEST_COMMAND}" --test-dir "${build}" -C "${CONFIG}" --output-on-failure)
endforeach()
if(EXISTS "${prefix}/bin/leat-overlap")
  step("${prefix}/bin/leat-overlap" --version)
endif()
foreach(program leat-comm-report leat-schedule)
  if(EXISTS "${prefix}/bin/${program}")
    step("${prefix}/bin/${program}" --version)
  endif()
endforeach()
file(GLOB licence "${prefix}/share/doc/leat/LICENSE")
if(NOT licence)
  message(FATAL_ERROR "no licence is installed")
endif()
if(SANITIZE) # what follows is the same there
  return()
endif()

# A program built without CMake: by pkg-config.
find_program(PKG_CONFIG pkg-config)
function(build_with package compiler)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIBDIR}/pkgconfig")
  execute_process(
    COMMAND "${PKG_CONFIG}" --cflags --libs ${package} OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY
  )
  separate_arguments(flags UNIX_COMMAND "${flags}")
  step("${compiler}" ${ARGN} ${flags} "-Wl,-rpath,${prefix}/${LIBDIR}" -o "${SCRATCH}/${package}")
  step("${SCRATCH}/${package}")
endfunction()
if(PKG_CONFIG)
  build_with(leat-c "${C_COMPILER}" "${SOURCE}/main.c")
  build_with(leat-csp "${COMPILER}" -std=c++20 "${SOURCE}/csp.cpp")
  build_with(leat-comm "${COMPILER}" -std=c++20 "${SOURCE}/comm.cpp")
  if(EXISTS "${prefix}/${LIBDIR}/pkgconfig/leat-comm_mpi.pc")
    build_with(leat-comm_mpi "${COMPILER}" -std=c++20 "${SOURCE}/comm.cpp")
  endif()
endif()

# What cannot work is refused in words: an older C++; a sanitizer that Leat was not built with.
refused("Leat needs C\\+\\+20" "${COMPILER}" -std=c++17 -E "-I${prefix}/include" "${SOURCE}/csp.cpp"
        -o "${SCRATCH}/c++17"
)
file(WRITE "${SCRATCH}/error.cpp" "#include <leat/csp/error.h>\nint main() {}\n")
foreach(sanitizer none address thread)
  foreach(program "csp;${COMPILER};-std=c++20;${SCRATCH}/error.cpp" "c;${C_COMPILER};${SOURCE}/main.c")
    list(POP_FRONT program library)
    file(GLOB library "${prefix}/${LIBDIR}/libleat_${library}.*")
    list(GET library 0 library)
    list(APPEND program "-I${prefix}/include" "${library}" -o "${SCRATCH}/program")
    if(NOT sanitizer STREQUAL "none")
      refused("must_be_built_with_LEAT_SANITIZE_${sanitizer}" ${program} "-fsanitize=${sanitizer}")
    elseif(library MATCHES "csp")
      step(${program})
    endif()
  endforeach()
endforeach()
