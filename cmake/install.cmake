# The package: public headers under include/leat, the libraries, and find_package(leat).

include(CMakePackageConfigHelpers)
include(cmake/public_headers.cmake)

set(leat_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/leat")

install(TARGETS leat_csp leat_gpu leat_feeder leat_c leat_leat EXPORT leat-targets)
install(EXPORT leat-targets NAMESPACE leat:: DESTINATION "${leat_config_dir}")

leat_with_included(headers ${leat_public_headers})
foreach(header IN LISTS headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES ${header} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/leat/${folder}")
endforeach()

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
