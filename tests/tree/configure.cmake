# Configures the tree in SOURCE in several ways, without building anything.
function(configure)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -G "${GENERATOR}" "-DCMAKE_CXX_COMPILER=${COMPILER}" -DLEAT_CUDA=OFF
            -DLEAT_TORCH=OFF ${ARGN} COMMAND_ECHO STDOUT
    RESULT_VARIABLE result ERROR_VARIABLE said
  )
  set(result "${result}" PARENT_SCOPE)
  set(said "${said}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")

# csp alone needs Boost.Context, and nothing else.
set(without "")
foreach(package JPEG PNG ZLIB nlohmann_json CLI11 GTest benchmark)
  list(APPEND without -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
configure(-S "${SOURCE}" -B "${SCRATCH}/build" ${without} -DLEAT_BUILD_GPU=OFF)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "csp alone: ${said}")
endif()

# All that is missing is told at once, with the packages to install.
configure("${SCRATCH}/build" -DLEAT_BUILD_GPU=ON -DLEAT_BUILD_PYTHON=ON -DCMAKE_DISABLE_FIND_PACKAGE_Python=ON)
string(REGEX REPLACE "[ \n]+" " " said "${said}")
set(expected "apt-get install libjpeg-dev zlib1g-dev nlohmann-json3-dev libcli11-dev libgtest-dev libbenchmark-dev python3-dev")
if(result EQUAL 0 OR NOT said MATCHES "${expected}")
  message(FATAL_ERROR "packages are missing: exit status ${result}, without \"${expected}\":\n${said}")
endif()

# A project that builds Leat does not install it.
configure(-S "${CMAKE_CURRENT_LIST_DIR}/embedded" -B "${SCRATCH}/embedded" "-DLEAT=${SOURCE}" -DLEAT_BUILD_GPU=OFF)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "add_subdirectory: ${said}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${SCRATCH}/embedded" --prefix "${SCRATCH}/prefix"
                COMMAND_ERROR_IS_FATAL ANY
)
if(EXISTS "${SCRATCH}/prefix")
  message(FATAL_ERROR "add_subdirectory: Leat was installed with its parent")
endif()

# Each option has its line in the manual.
file(READ "${SOURCE}/docs/how-to/install.md" manual)
file(GLOB files "${SOURCE}/CMakeLists.txt" "${SOURCE}/cmake/*.cmake")
foreach(file IN LISTS files)
  file(STRINGS "${file}" lines REGEX "^ *((cmake_dependent_)?option\\(LEAT_|set\\(LEAT_[A-Z_]+ .* CACHE )")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "LEAT_[A-Z_]+" option "${line}")
    if(NOT manual MATCHES "`${option}`")
      message(FATAL_ERROR "docs/how-to/install.md does not name the option ${option}")
    endif()
  endforeach()
endforeach()
