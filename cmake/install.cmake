# The package: public headers under include/leat, the libraries, and find_package(leat).

include(CMakePackageConfigHelpers)

set(leat_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/leat")

install(TARGETS leat_csp leat_gpu leat_feeder leat_c leat_leat EXPORT leat-targets)
install(EXPORT leat-targets NAMESPACE leat:: DESTINATION "${leat_config_dir}")

if(LEAT_WITH_BOOST_FIBER)
  set(leat_no_boost_fiber "")
else()
  set(leat_no_boost_fiber PATTERN "csp/boost_fiber.h" EXCLUDE)
endif()

# Backends are reached by name, through gpu::open(); their headers are nobody else's.
install(
  DIRECTORY csp gpu feeder
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/leat"
  FILES_MATCHING
  PATTERN "*.h"
  ${leat_no_boost_fiber}
  PATTERN "csp/explore.h" EXCLUDE # with its library, which is for the tests
  PATTERN "csp/explore/strategies.h" EXCLUDE
  PATTERN "csp/explore/simulation.h" EXCLUDE
  PATTERN "feeder/interop/c/calls.h" EXCLUDE # what is behind feeder/interop/c/leat.h
  PATTERN "feeder/interop/c/handles.h" EXCLUDE
  PATTERN "feeder/interop/c/openers.h" EXCLUDE
  PATTERN "gpu/cuda" EXCLUDE
  PATTERN "gpu/host" EXCLUDE
)

configure_package_config_file(
  cmake/leat-config.cmake.in "${PROJECT_BINARY_DIR}/leat-config.cmake"
  INSTALL_DESTINATION "${leat_config_dir}"
  NO_SET_AND_CHECK_MACRO
)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/leat-config-version.cmake" COMPATIBILITY SameMinorVersion
)
install(
  FILES "${PROJECT_BINARY_DIR}/leat-config.cmake" "${PROJECT_BINARY_DIR}/leat-config-version.cmake"
  DESTINATION "${leat_config_dir}"
)
