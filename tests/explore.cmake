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
add_library(gpu_explore STATIC "${PROJECT_SOURCE_DIR}/gpu/cuda/absent.cpp" ${sources})
target_link_libraries(gpu_explore PUBLIC leat::csp_explore)
leat_set_explore_options(gpu_explore)

# leat_add_explorer_tests(name label library source...): test_<name>, linked with `library`. Its
# objects, <name>_test, are compiled once, for itself and for all mutants.
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

# leat_add_mutant(program test label argument found source...): a program of `source`, objects or files
# among which is a copy with a planted bug; an object of the program goes before that of a library.
# The caller links the libraries. The test passes if the program, called with `argument`, finds the bug:
# prints what matches `found`, or, if that is "", returns 0.
function(leat_add_mutant program test label argument found)
  add_executable(${program} ${ARGN})
  leat_set_explore_options(${program})
  add_test(NAME ${test} COMMAND ${program} ${argument} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(
    ${test} PROPERTIES TIMEOUT ${timeout} LABELS ${label} ENVIRONMENT "${no_leaks}"
  )
  if(found)
    set_tests_properties(${test} PROPERTIES PASS_REGULAR_EXPRESSION "${found}")
  endif()
endfunction()
