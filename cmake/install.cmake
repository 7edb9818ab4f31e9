# The package: public headers under include/leat, the libraries, find_package(leat), pkg-config's
# files, the licence.

include(CMakePackageConfigHelpers)

set(leat_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/leat")

list(TRANSFORM leat_components PREPEND leat_ OUTPUT_VARIABLE targets)
add_custom_target(leat_libraries DEPENDS ${targets}) # what an installation has to find built
install(TARGETS ${targets} leat_leat EXPORT leat-targets)
install(EXPORT leat-targets NAMESPACE leat:: DESTINATION "${leat_config_dir}")
install(FILES LICENSE README.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

leat_with_included(headers ${leat_public_headers})
foreach(header IN LISTS headers)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES ${header} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/leat/${folder}")
endforeach()

set(leat_belows "") # in leat-config.cmake
foreach(component IN LISTS leat_components)
  string(APPEND leat_belows "set(leat_below_${component} ${leat_below_${component}})\n")
endforeach()
foreach(option BUILD_SHARED_LIBS LEAT_WITH_CUDA LEAT_WITH_PNG)
  if(${option}) # in leat-config.cmake, ON or OFF
    set(${option} ON)
  else()
    set(${option} OFF)
  endif()
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

# For pkg-config. Paths are relative to the file, as CMake's are. What static libraries link is in Libs,
# not in Libs.private: they can be linked in no other way.
file(RELATIVE_PATH up "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
set(prefix "\${pcfiledir}/${up}")
set(libdir "\${prefix}")
set(includedir "\${prefix}")
cmake_path(APPEND libdir "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND includedir "${CMAKE_INSTALL_INCLUDEDIR}")

set(leat_comm_mpi_links -Wl,--undefined=leat_comm_mpi_open)
set(leat_csp_links ${leat_sanitize_flags} -pthread)
if(NOT BUILD_SHARED_LIBS)
  get_filename_component(folder "${leat_boost_context}" DIRECTORY)
  get_filename_component(archive "${leat_boost_context}" NAME)
  set(leat_csp_links "-L${folder}" "-l:${archive}" "-Wl,--exclude-libs,${archive}" ${leat_csp_links})
  foreach(library IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
    if(library MATCHES "^(stdc\\+\\+|c\\+\\+|m)$") # programs in C are linked with them, too
      list(APPEND leat_csp_links "-l${library}")
    endif()
  endforeach()
  if(LEAT_WITH_CUDA)
    get_target_property(runtime ${leat_cudart} LOCATION)
    get_filename_component(folder "${runtime}" DIRECTORY)
    get_filename_component(archive "${runtime}" NAME)
    set(leat_gpu_links "-L${folder}" "-l:${archive}" "-Wl,--exclude-libs,${archive}" -ldl -lrt)
  endif()
  set(leat_feeder_links -ljpeg -lz)
  if(LEAT_WITH_PNG)
    list(APPEND leat_feeder_links -lpng)
  endif()
  if(LEAT_WITH_WEBP)
    list(APPEND leat_feeder_links -lwebp)
  endif()
  list(APPEND leat_comm_mpi_links ${MPI_CXX_LIBRARIES})
endif()

# leat_install_pc(name links...), with what is `required`
function(leat_install_pc name)
  list(JOIN ARGN " " links)
  list(JOIN leat_sanitize_flags " " sanitize)
  configure_file(cmake/leat.pc.in "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endfunction()

foreach(component IN LISTS leat_components)
  set(required ${leat_below_${component}})
  list(TRANSFORM required PREPEND leat-)
  set(library -lleat_${component})
  if(component STREQUAL "comm_mpi") # kept, though no program names anything of it: comm/CMakeLists.txt
    set(library -Wl,--push-state,--no-as-needed ${library} -Wl,--pop-state)
  endif()
  leat_install_pc(leat-${component} ${library} ${leat_${component}_links})
endforeach()
get_target_property(required leat_leat INTERFACE_LINK_LIBRARIES)
string(REPLACE "leat::" "leat-" required "${required}")
list(JOIN required " " required)
leat_install_pc(leat)
