# The packages that a build needs. All that are missing are told at once, with Debian's names.

# leat_need(debian_package "what it is, and for what" <arguments of find_package>)
macro(leat_need debian what package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    set_property(GLOBAL APPEND PROPERTY leat_missing_packages "${debian}")
    set_property(GLOBAL APPEND_STRING PROPERTY leat_missing "\n  ${what}")
  endif()
endmacro()

# Stops if anything was missing; for the end of the configuration.
function(leat_tell_missing)
  get_property(packages GLOBAL PROPERTY leat_missing_packages)
  get_property(missing GLOBAL PROPERTY leat_missing)
  if(packages)
    list(REMOVE_DUPLICATES packages)
    list(JOIN packages " " packages)
    message(FATAL_ERROR "Leat does not find what it needs:${missing}\n"
                        "On Debian and Ubuntu:\n  apt-get install ${packages}\n"
                        "For packages elsewhere, set CMAKE_PREFIX_PATH."
    )
  endif()
endfunction()
