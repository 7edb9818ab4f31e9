# Installs the build in BUILD below SCRATCH, then configures, builds and runs the project in SOURCE
# against it. Starts from nothing, so that no earlier run can make it pass.
function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
step("${CMAKE_COMMAND}" --install "${BUILD}" --config "${CONFIG}" --prefix "${SCRATCH}/prefix")
step("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${SCRATCH}/build" -G "${GENERATOR}"
     "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_BUILD_TYPE=${CONFIG}"
     "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix"
)
step("${CMAKE_COMMAND}" --build "${SCRATCH}/build" --config "${CONFIG}")
step("${CMAKE_CTEST_COMMAND}" --test-dir "${SCRATCH}/build" -C "${CONFIG}" --output-on-failure)
