# Programs that run under an explorer (csp/explore.h), in the folders explore/: programs of their own,
# because all that is below is another build of the same names.

# A run that hangs is abandoned, with all that it holds.
set(no_leaks "ASAN_OPTIONS=detect_leaks=0")

# A test looks at many schedules of little work: what -O2 would gain is less than what it takes to
# compile.
function(leat_set_explore_options target)
  leat_set_warnings(${target})
  target_compile_options(${target} PRIVATE -O1)
  if(LEAT_SANITIZE STREQUAL "address") # undefined behaviour is looked for in the library itself
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# gpu with the host device, for those that explore what is above it.
file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/gpu/*.cpp" "${PROJECT_SOURCE_DIR}/gpu/host/*.cpp"
     "${PROJECT_SOURCE_DIR}/gpu/backend/*.cpp"
)
add_library(gpu_explore STATIC "${PROJECT_SOURCE_DIR}/gpu/cuda/absent.cpp" "${PROJECT_SOURCE_DIR}/gpu/cuda/nvtx_absent.cpp"
                               ${sources}
)
target_link_libraries(gpu_explore PUBLIC leat::csp_explore)
leat_set_explore_options(gpu_explore)

# leat_add_explorer_tests(name label library source...): test_<name>, linked with `library`. Its
# objects, <name>_test, are compiled once, for itself and for the mutants.
function(leat_add_explorer_tests name label library)
  set(prefix "")
  if(label STREQUAL "pipeline") # as all of that folder's
    set(prefix TEST_PREFIX pipeline.)
  endif()
  add_library(${name}_test OBJECT ${ARGN})
  target_link_libraries(${name}_test PRIVATE ${library} GTest::gtest)
  leat_set_explore_options(${name}_test)
  add_executable(test_${name} $<TARGET_OBJECTS:${name}_test>)
  target_link_libraries(test_${name} PRIVATE ${library} GTest::gtest_main)
  gtest_discover_tests(
    test_${name}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    ${prefix}
    PROPERTIES TIMEOUT ${timeout} LABELS ${label} ENVIRONMENT "${no_leaks}"
  )
endfunction()

# leat_add_mutants(prefix label library source...): the program mutants_<label> of `source`, objects or
# files, and of copies of the library's files with the faults of mutants.txt in this folder: see
# tests/mutants. For each fault there is a test, <prefix><fault>, which passes if the program finds it.
function(leat_add_mutants prefix label library)
  if(LEAT_SANITIZE OR NOT PYTHON_PROGRAM) # the release build shows that each planted fault is found
    return()
  endif()
  set(script "${PROJECT_SOURCE_DIR}/tests/mutants/mutants.py")
  set(faults "${CMAKE_CURRENT_SOURCE_DIR}/mutants.txt")
  set(copies "${CMAKE_CURRENT_BINARY_DIR}/planted")
  execute_process(
    COMMAND "${PYTHON_PROGRAM}" -B "${script}" plant "${faults}" "${copies}" RESULT_VARIABLE result
  )
  if(result)
    message(FATAL_ERROR "The faults of ${faults} cannot be planted")
  endif()
  include("${copies}/mutants.cmake")
  set(sources ${planted})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(TRANSFORM sources PREPEND "${copies}/leat/" OUTPUT_VARIABLE copied)
  list(TRANSFORM planted PREPEND "${PROJECT_SOURCE_DIR}/")
  list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${script}" "${faults}" ${planted})
  add_executable(mutants_${label} ${copied} ${ARGN})
  target_include_directories(mutants_${label} BEFORE PRIVATE "${copies}") # before the original headers
  target_link_libraries(mutants_${label} PRIVATE ${library} GTest::gtest_main)
  leat_set_explore_options(mutants_${label})
  # An object of the program goes before that of a library, if it has all that is in that: in a unity
  # build, what is planted in is an object of its own.
  set_target_properties(${library} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(all ${library} SOURCES)
  set_source_files_properties(${all} TARGET_DIRECTORY ${library} PROPERTIES UNITY_GROUP others)
  set_source_files_properties(${sources} TARGET_DIRECTORY ${library} PROPERTIES UNITY_GROUP planted)
endfunction()

# leat_add_mutant(name number argument found): of the file that has been included above. The test
# passes if the program, called with `argument`, prints what matches `found`, or, if that is "",
# returns 0.
macro(leat_add_mutant name number argument found)
  add_test(NAME ${prefix}${name} COMMAND mutants_${label} "${argument}"
           WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  )
  set_tests_properties(
    ${prefix}${name} PROPERTIES TIMEOUT ${timeout} LABELS ${label}
                                ENVIRONMENT "${no_leaks};LEAT_MUTANT=${number};GTEST_FAIL_FAST=1"
  )
  if(NOT "${found}" STREQUAL "")
    set_tests_properties(${prefix}${name} PROPERTIES PASS_REGULAR_EXPRESSION "${found}")
  endif()
endmacro()
